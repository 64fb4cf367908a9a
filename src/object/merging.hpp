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
  /// What must not have changed for an entry to be merged with.
  struct Turn {
    u64 own;  ///< of its domain; or, of one of all domains, of whatever was called last
    u64 all;  ///< of calls of all domains; of an entry of these nothing
  };

  /// Before its place in the log is claimed.
  Turn take(u16 function, std::int32_t domain) {
    if (domain == format::kDomainAll) {
      take_at(all_, function);
      return {take_at(any_, function), 0};
    }
    // The next call of all domains is another turn of theirs, also by the same method.
    const u64 all = take_at(all_, kNone);
    take_at(any_, function);
    return {take_at(domains_[place_of(domain)], function), all};
  }
  bool is(const Turn& turn, std::int32_t domain) const {
    if (domain == format::kDomainAll) return any_.load(std::memory_order_relaxed) == turn.own;
    return domains_[place_of(domain)].load(std::memory_order_relaxed) == turn.own &&
           all_.load(std::memory_order_relaxed) == turn.all;
  }

 private:
  static constexpr size_t kPlaces = 8;
  static constexpr u16 kNone = 0xffff;  // no function has this number
  static size_t place_of(std::int32_t domain) { return static_cast<u32>(domain) % kPlaces; }
  static u64 take_at(std::atomic<u64>& place, u16 function) {
    u64 turn = place.load(std::memory_order_relaxed);
    while ((turn & 0xffff) != function) {
      const u64 next = (((turn >> 16) + 1) << 16) | function;
      if (place.compare_exchange_weak(turn, next)) return next;
    }
    return turn;
  }

  std::atomic<u64> all_{kNone};
  std::atomic<u64> any_{kNone};
  std::array<std::atomic<u64>, kPlaces> domains_{};
};

/// Of a thread: what it has logged last, of any object.
struct OwnEntry {
  u64 core = 0;  ///< which one's; 0: none
  u64 index = 0;
  Turns::Turn turn{};
  u64 calls = 0;
  u32 potid = 0;
  std::int32_t domain = 0;
  u16 function = 0;
};
extern constinit thread_local OwnEntry own_entry;

}  // namespace perdura::object
