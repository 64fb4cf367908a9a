// Calls of a method that commutes are merged into the entry that their thread has logged last, if
// no other method that works on the same was called since: else a call would be done before one
// that had returned before it began.
#pragma once

#include <array>
#include <atomic>

#include "format/object_format.hpp"

namespace perdura::object {

/// Which method was called last of each domain, and how often that has changed. Domains may share a
/// place, which merges less.
class Turns {
 public:
  /// Before its place in the log is claimed. What was logged in another turn is not merged with any
  /// more.
  u64 take(u16 function, std::int32_t domain) {
    if (domain != format::kDomainAll) {
      take_at(0, function);  // whose calls work on all
      return take_at(place_of(domain), function);
    }
    for (size_t place = kPlaces; --place != 0;) take_at(place, function);
    return take_at(0, function);
  }
  bool is(u64 turn, std::int32_t domain) const {
    return turns_[place_of(domain)].load(std::memory_order_relaxed) == turn;
  }

 private:
  static constexpr size_t kPlaces = 8;
  static size_t place_of(std::int32_t domain) {
    return domain == format::kDomainAll ? 0 : 1 + static_cast<u32>(domain) % (kPlaces - 1);
  }
  u64 take_at(size_t place, u16 function) {
    u64 turn = turns_[place].load(std::memory_order_relaxed);
    while ((turn & 0xffff) != function) {
      const u64 next = (((turn >> 16) + 1) << 16) | function;
      if (turns_[place].compare_exchange_weak(turn, next)) return next;
    }
    return turn;
  }

  std::array<std::atomic<u64>, kPlaces> turns_{};
};

/// Of a thread: what it has logged last, of any object.
struct OwnEntry {
  u64 core = 0;  ///< which one's; 0: none
  u64 index = 0;
  u64 turn = 0;
  u64 calls = 0;
  u32 potid = 0;
  std::int32_t domain = 0;
  u16 function = 0;
};

}  // namespace perdura::object
