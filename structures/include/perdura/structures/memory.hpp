// Where a structure's memory comes from: the one thing a persistent structure and an ordinary one
// do differently. A structure takes an environment as the first argument of whatever changes it:
//
//   env.allocate(size, alignment)  a block; its whole contents count as reported
//   env.deallocate(block)
//   env.touch(address, length)     before each store to memory that allocate did not just return
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <perdura/store.hpp>

namespace perdura::structures {

template <class Env>
concept Environment = requires(Env& env, std::size_t size, void* block) {
  { env.allocate(size, size) } -> std::same_as<void*>;
  env.deallocate(block);
  env.touch(block, size);
};

/// Ordinary memory, forgotten when the process ends.
struct PlainMemory {
  void* allocate(std::size_t size, std::size_t alignment) const {
    if (alignment <= alignof(std::max_align_t)) return checked(std::malloc(size));
    return checked(std::aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1)));
  }
  void deallocate(void* block) const noexcept { std::free(block); }
  void touch(const void*, std::size_t) const noexcept {}

 private:
  static void* checked(void* block) {
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
};

/// The heap of a store, within one operation: all changes made through it become durable together.
class OperationMemory {
 public:
  explicit OperationMemory(const Operation& operation) noexcept : operation_(operation) {}
  void* allocate(std::size_t size, std::size_t alignment) const {
    return operation_.allocate(size, alignment);
  }
  void deallocate(void* block) const { operation_.deallocate(block); }
  void touch(const void* address, std::size_t length) const noexcept {
    operation_.touch(address, length);
  }

 private:
  const Operation& operation_;
};

}  // namespace perdura::structures
