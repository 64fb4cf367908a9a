// malloc and free, new and delete: blocks of the transaction's store (itm::allocate).
#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "abi.hpp"

using namespace perdura;
using namespace perdura::detail;

/// Of libstdc++, which does not export it.
[[gnu::weak]] void _txnal_cow_string_C1_for_exceptions(void* string, const char* text, void* owner);

namespace {

void free_ordinary(void* block) { std::free(block); }
void delete_ordinary(void* block) { ::operator delete(block); }
void delete_ordinary_array(void* block) { ::operator delete[](block); }

/// Where a module's code is.
struct CodeRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool contains(const void* place) const {
    return reinterpret_cast<std::uintptr_t>(place) - begin < end - begin;
  }
};

/// That of libstdc++, whose exceptions have blocks for what they say. They leave transactions, and
/// are given back by code that knows of none. In a program that has it linked in, the function that
/// makes these blocks, if it is there.
const CodeRange& libstdcxx() {
  static const CodeRange found = [] {
    CodeRange range;
    if (&_txnal_cow_string_C1_for_exceptions != nullptr) {
      const auto code = reinterpret_cast<std::uintptr_t>(&_txnal_cow_string_C1_for_exceptions);
      Dl_info info{};
      void* symbol = nullptr;
      ::dladdr1(reinterpret_cast<void*>(code), &info, &symbol, RTLD_DL_SYMENT);
      if (symbol != nullptr) range = {code, code + static_cast<ElfW(Sym)*>(symbol)->st_size};
      return range;
    }
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* result) {
          if (*info->dlpi_name == '\0') return 0;  // the program
          CodeRange here;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& part = info->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
            here.begin = info->dlpi_addr + part.p_vaddr;
            here.end = here.begin + part.p_memsz;
            if (here.contains(reinterpret_cast<const void*>(&std::terminate)))
              *static_cast<CodeRange*>(result) = here;
          }
          return 0;
        },
        &range);
    return range;
  }();
  return found;
}

/// nullptr: there is no room.
template <class Ordinary>
void* make(size_t size, const void* caller, Ordinary ordinary, itm::Action free) {
  if (libstdcxx().contains(caller)) return itm::allocate_outside(ordinary(size), free);
  return itm::allocate(size);
}

void* make_one(size_t size, const void* caller) {
  return make(
      size, caller, [](size_t bytes) { return ::operator new(bytes, std::nothrow); },
      delete_ordinary);
}

void* make_array(size_t size, const void* caller) {
  return make(
      size, caller, [](size_t bytes) { return ::operator new[](bytes, std::nothrow); },
      delete_ordinary_array);
}

void* required(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

extern "C" {

void* _ITM_malloc(size_t size) {
  void* const block = itm::allocate(size);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

// A new block's content is part of what the transaction did, however it comes there.
void* _ITM_calloc(size_t count, size_t size) {
  size_t bytes = 0;
  void* const block = __builtin_mul_overflow(count, size, &bytes) ? nullptr : itm::allocate(bytes);
  if (block == nullptr) errno = ENOMEM;
  else std::memset(block, 0, bytes);
  return block;
}

void _ITM_free(void* block) { itm::deallocate(block, free_ordinary); }

// The transactional twins of operator new and delete.
void* _ZGTtnwm(size_t size) { return required(make_one(size, __builtin_return_address(0))); }
void* _ZGTtnam(size_t size) { return required(make_array(size, __builtin_return_address(0))); }
void* _ZGTtnwmRKSt9nothrow_t(size_t size, const std::nothrow_t&) {
  return make_one(size, __builtin_return_address(0));
}
void* _ZGTtnamRKSt9nothrow_t(size_t size, const std::nothrow_t&) {
  return make_array(size, __builtin_return_address(0));
}

void _ZGTtdlPv(void* block) { itm::deallocate(block, delete_ordinary); }
void _ZGTtdlPvm(void* block, size_t) { itm::deallocate(block, delete_ordinary); }
void _ZGTtdlPvRKSt9nothrow_t(void* block, const std::nothrow_t&) {
  itm::deallocate(block, delete_ordinary);
}
void _ZGTtdlPvmRKSt9nothrow_t(void* block, size_t, const std::nothrow_t&) {
  itm::deallocate(block, delete_ordinary);
}
void _ZGTtdaPv(void* block) { itm::deallocate(block, delete_ordinary_array); }
void _ZGTtdaPvm(void* block, size_t) { itm::deallocate(block, delete_ordinary_array); }
void _ZGTtdaPvRKSt9nothrow_t(void* block, const std::nothrow_t&) {
  itm::deallocate(block, delete_ordinary_array);
}
void _ZGTtdaPvmRKSt9nothrow_t(void* block, size_t, const std::nothrow_t&) {
  itm::deallocate(block, delete_ordinary_array);
}
}
