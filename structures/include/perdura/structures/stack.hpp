// A stack in an array, as the state of an object whose calls are logged (docs/objects.md): SIMPO's
// Stack (Table 3), whose push, pop, peek and isEmpty are push, pop, peek and is_empty.
//
// What comes while it is full is dropped, and counted: push is deferred and cannot say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <perdura/objects.hpp>

namespace perdura::structures {

template <class T, std::size_t Capacity>
  requires std::is_trivially_copyable_v<T> && (Capacity != 0)
class Stack {
 public:
  static constexpr std::size_t kCapacity = Capacity;

  // --- deferrable
  void push(T item) noexcept {
    if (size_ == Capacity) ++dropped_;
    else items_[size_++] = item;
  }
  void clear() noexcept { size_ = dropped_ = 0; }

  // --- instant
  /// The newest one; nothing where there is none.
  std::optional<T> pop() noexcept {
    if (size_ == 0) return std::nullopt;
    return items_[--size_];
  }

  // --- reads
  std::optional<T> peek() const noexcept {
    if (size_ == 0) return std::nullopt;
    return items_[size_ - 1];
  }
  bool is_empty() const noexcept { return size_ == 0; }
  std::uint64_t size() const noexcept { return size_; }
  /// How many found it full since it was cleared.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  std::uint64_t size_;
  std::uint64_t dropped_;
  T items_[Capacity];
};

}  // namespace perdura::structures

template <class T, std::size_t Capacity>
struct perdura::Methods<perdura::structures::Stack<T, Capacity>>
    : perdura::MethodList<perdura::Deferrable<&perdura::structures::Stack<T, Capacity>::push>,
                          perdura::Deferrable<&perdura::structures::Stack<T, Capacity>::clear>,
                          perdura::Instant<&perdura::structures::Stack<T, Capacity>::pop>> {};
