// Numbers in an array, as the state of an object whose calls are logged (docs/objects.md): SIMPO's
// Array (Table 3), whose increaseAll, zero and printAll are increase_all, zero and snapshot.
//
//   auto votes = objects.object<perdura::structures::Array<std::int64_t, 500>>("votes");
//   votes.defer<&perdura::structures::Array<std::int64_t, 500>::increase_all>(1);
//
// Sums of integers wrap around, so that calls may be merged: what their sum does is what they do
// one after the other. Those of floating point are rounded each by itself, and are not merged.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

#include <perdura/objects.hpp>

namespace perdura::structures {

template <class T, std::size_t Size>
  requires(std::integral<T> || std::floating_point<T>) && (!std::same_as<T, bool>) && (Size != 0)
class Array {
 public:
  static constexpr std::size_t kSize = Size;

  // --- deferrable
  void increase_all(T by) noexcept {
    for (T& item : items_) item = sum(item, by);
  }
  /// An index behind the end is refused when it is called.
  void increase(std::uint64_t index, T by) noexcept { items_[index] = sum(items_[index], by); }
  void zero() noexcept { std::fill_n(items_, Size, T{}); }

  // --- reads
  T at(std::uint64_t index) const noexcept { return index < Size ? items_[index] : T{}; }
  /// Copies as many as `to` has room for; how many these were.
  std::size_t snapshot(std::span<T> to) const noexcept {
    const std::size_t count = std::min(to.size(), Size);
    std::copy_n(items_, count, to.begin());
    return count;
  }

  // --- what is said of the methods
  /// Neighbours work in one domain: lines of several ones are nobody's alone.
  static Domain domain(std::uint64_t index) noexcept {
    return Domain(static_cast<std::int32_t>(index / kBlock % INT32_MAX));
  }
  static bool has(std::uint64_t index, T) noexcept { return index < Size; }
  static bool join_all(std::tuple<T>& first, const std::tuple<T>& next) noexcept {
    std::get<0>(first) = sum(std::get<0>(first), std::get<0>(next));
    return true;
  }
  static bool join(std::tuple<std::uint64_t, T>& first,
                   const std::tuple<std::uint64_t, T>& next) noexcept {
    if (std::get<0>(first) != std::get<0>(next)) return false;
    std::get<1>(first) = sum(std::get<1>(first), std::get<1>(next));
    return true;
  }

 private:
  static constexpr std::uint64_t kBlock = 1024;
  static T sum(T a, T b) noexcept {
    if constexpr (std::integral<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }

  alignas(64) T items_[Size];
};

}  // namespace perdura::structures

namespace perdura {

template <std::integral T, std::size_t Size>
struct Methods<structures::Array<T, Size>>
    : MethodList<Deferrable<&structures::Array<T, Size>::increase_all,
                            &structures::Array<T, Size>::join_all, kCommutes>,
                 Deferrable<&structures::Array<T, Size>::increase,
                            &structures::Array<T, Size>::domain, &structures::Array<T, Size>::has,
                            &structures::Array<T, Size>::join, kCommutes>,
                 Deferrable<&structures::Array<T, Size>::zero>> {};

template <std::floating_point T, std::size_t Size>
struct Methods<structures::Array<T, Size>>
    : MethodList<Deferrable<&structures::Array<T, Size>::increase_all>,
                 Deferrable<&structures::Array<T, Size>::increase,
                            &structures::Array<T, Size>::domain, &structures::Array<T, Size>::has>,
                 Deferrable<&structures::Array<T, Size>::zero>> {};

}  // namespace perdura
