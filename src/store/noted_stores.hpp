// Stores to a region that faulted, with the places in the program that they came from: noted in
// handlers of signals, read and told by threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <tuple>

#include "base/bits.hpp"
#include "region/faults.hpp"

namespace perdura::store {

/// Where a thread was: the instruction, and what called its function, and so on; then zeros.
using Place = std::array<const void*, 12>;

/// "fill (records.cc:12), called by main (main.cc:40)": the innermost function that is not a
/// library of the system's, and what that calls. From debug information where there is any, which
/// addr2line of the binutils reads; else modules and offsets in them.
std::string describe(const Place& place);

class NotedStores {
 public:
  /// Loads what notes need, which a handler of signals must not.
  NotedStores();

  /// In a handler of signals. Not where a store of the same instruction to this address was noted
  /// already, nor where kStoresMax were since the last forget().
  void note(const region::Fault& fault) noexcept;
  /// The same where one was noted that came from the same place, whatever its address.
  void note_place(const region::Fault& fault) noexcept;
  void forget() { begin_.store(count_.load()); }
  /// Calls visit(address, place) until it returns true. Beside note().
  template <class Visit>
  void for_each(Visit&& visit) const;
  /// Of all, also of what was forgotten; calls of note() that note nothing do not count.
  u64 count() const { return count_.load(std::memory_order_acquire); }

 private:
  static constexpr size_t kStoresMax = 1024;

  void add(const region::Fault& fault, const Place& place) noexcept;
  /// A store. They are numbered, from 1 on, and the next one takes the place of the one that came
  /// kStoresMax before it: who reads it looks before and after whether it is the one it looks for.
  struct Noted {
    std::atomic<u64> number{0};  ///< 0: somebody writes it
    std::atomic<std::byte*> address{nullptr};
    std::array<std::atomic<const void*>, std::tuple_size_v<Place>> place{};
  };

  std::atomic<u64> begin_{0};  ///< the last one that was forgotten
  std::atomic<u64> count_{0};  ///< the last one
  const std::unique_ptr<Noted[]> noted_;
};

template <class Visit>
void NotedStores::for_each(Visit&& visit) const {
  const u64 begin = begin_.load(std::memory_order_relaxed);
  const u64 end = std::min(count_.load(std::memory_order_relaxed), begin + kStoresMax);
  for (u64 number = begin + 1; number <= end; ++number) {
    const Noted& noted = noted_[number % kStoresMax];
    if (noted.number.load(std::memory_order_acquire) != number) continue;
    std::byte* const address = noted.address.load(std::memory_order_relaxed);
    Place place;
    for (size_t i = 0; i < place.size(); ++i)
      place[i] = noted.place[i].load(std::memory_order_acquire);
    if (noted.number.load(std::memory_order_relaxed) == number && visit(address, place)) return;
  }
}

}  // namespace perdura::store
