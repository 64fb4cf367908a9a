// A heap in an array, the greatest item first, as the state of an object whose calls are logged
// (docs/objects.md): SIMPO's Heap (Table 3), whose enHeap, deHeap, getNumElements and printAll are
// en_heap, de_heap, get_num_elements and snapshot.
//
// What comes while it is full is dropped, whether it is greater than others or not, and counted:
// en_heap is deferred and cannot say so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>

#include <perdura/objects.hpp>

namespace perdura::structures {

/// `Compare` has no state of its own, throws nothing, and is the same in each run of the program.
template <class T, std::size_t Capacity, class Compare = std::less<T>>
  requires std::is_trivially_copyable_v<T> && std::is_empty_v<Compare> && (Capacity != 0)
class Heap {
 public:
  static constexpr std::size_t kCapacity = Capacity;

  // --- deferrable
  void en_heap(T item) noexcept {
    if (size_ == Capacity) {
      ++dropped_;
      return;
    }
    items_[size_++] = item;
    std::push_heap(items_, items_ + size_, Compare{});
  }
  void clear() noexcept { size_ = dropped_ = 0; }

  // --- instant
  /// The greatest one; nothing where there is none.
  std::optional<T> de_heap() noexcept {
    if (size_ == 0) return std::nullopt;
    std::pop_heap(items_, items_ + size_, Compare{});
    return items_[--size_];
  }

  // --- reads
  std::uint64_t get_num_elements() const noexcept { return size_; }
  /// Copies as many as `to` has room for, in the order of the array, the greatest first; how many
  /// these were.
  std::size_t snapshot(std::span<T> to) const noexcept {
    const std::size_t count = std::min<std::size_t>(to.size(), size_);
    std::copy_n(items_, count, to.begin());
    return count;
  }
  /// How many found it full since it was cleared.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  std::uint64_t size_;
  std::uint64_t dropped_;
  T items_[Capacity];
};

}  // namespace perdura::structures

template <class T, std::size_t Capacity, class Compare>
struct perdura::Methods<perdura::structures::Heap<T, Capacity, Compare>>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::structures::Heap<T, Capacity, Compare>::en_heap>,
          perdura::Deferrable<&perdura::structures::Heap<T, Capacity, Compare>::clear>,
          perdura::Instant<&perdura::structures::Heap<T, Capacity, Compare>::de_heap>> {};
