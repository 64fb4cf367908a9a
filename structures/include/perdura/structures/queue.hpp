// A queue in an array, as the state of an object whose calls are logged (docs/objects.md): SIMPO's
// Queue (Table 3), whose clearQueue, enQueue, deQueue, isEmpty and isFull are clear, enqueue,
// dequeue, is_empty and is_full.
//
//        first_          first_ + size_
//          v               v
//   [    ][item][item][item][    ]       in a circle
//
// What comes while it is full is dropped, and counted: enqueue is deferred and cannot say so.
// Whoever must know asks is_full() before, if others do not enqueue, or try_enqueue()s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <perdura/objects.hpp>

namespace perdura::structures {

template <class T, std::size_t Capacity>
  requires std::is_trivially_copyable_v<T> && (Capacity != 0)
class Queue {
 public:
  static constexpr std::size_t kCapacity = Capacity;

  // --- deferrable
  void enqueue(T item) noexcept { try_enqueue(item); }
  void clear() noexcept { first_ = size_ = dropped_ = 0; }

  // --- instant
  /// Whether there was room.
  bool try_enqueue(T item) noexcept {
    if (is_full()) {
      ++dropped_;
      return false;
    }
    items_[(first_ + size_++) % Capacity] = item;
    return true;
  }
  /// The oldest one; nothing where there is none.
  std::optional<T> dequeue() noexcept {
    if (is_empty()) return std::nullopt;
    const T item = items_[first_];
    first_ = (first_ + 1) % Capacity;
    --size_;
    return item;
  }

  // --- reads
  bool is_empty() const noexcept { return size_ == 0; }
  bool is_full() const noexcept { return size_ == Capacity; }
  std::uint64_t size() const noexcept { return size_; }
  /// How many found it full since it was cleared.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  std::uint64_t first_;
  std::uint64_t size_;
  std::uint64_t dropped_;
  T items_[Capacity];
};

}  // namespace perdura::structures

template <class T, std::size_t Capacity>
struct perdura::Methods<perdura::structures::Queue<T, Capacity>>
    : perdura::MethodList<perdura::Deferrable<&perdura::structures::Queue<T, Capacity>::enqueue>,
                          perdura::Deferrable<&perdura::structures::Queue<T, Capacity>::clear>,
                          perdura::Instant<&perdura::structures::Queue<T, Capacity>::try_enqueue>,
                          perdura::Instant<&perdura::structures::Queue<T, Capacity>::dequeue>> {};
