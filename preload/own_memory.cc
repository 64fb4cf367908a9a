// What the C++ in this library allocates comes from libc, whatever operators the program or another
// library has: these are visible here alone (malloc.map), and so is libstdc++, which is linked in
// and makes all other forms of `new` of these.
#include <algorithm>
#include <cstddef>
#include <new>

#include "preload/libc.hpp"

namespace {

void* or_throw(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(size_t size) {
  return or_throw(perdura::preload::libc().allocate(std::max<size_t>(size, 1)));
}

void* operator new(size_t size, std::align_val_t alignment) {
  return or_throw(perdura::preload::libc().allocate_aligned(static_cast<size_t>(alignment), size));
}

void operator delete(void* block) noexcept { perdura::preload::libc().release(block); }
void operator delete(void* block, size_t) noexcept { perdura::preload::libc().release(block); }
void operator delete(void* block, std::align_val_t) noexcept {
  perdura::preload::libc().release(block);
}
void operator delete(void* block, size_t, std::align_val_t) noexcept {
  perdura::preload::libc().release(block);
}
