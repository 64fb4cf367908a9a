// Threads that wait for one barrier of a disk, again and again. Those whose last one has ended are
// about to come again, and a barrier for all of them takes as long as one for those that were
// quicker: so it begins when as many have come as wait for it otherwise, or when the first of them
// has waited long enough.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/bits.hpp"

namespace perdura {

class Company {
 public:
  using Clock = std::chrono::steady_clock;
  /// For those who are about to come: less than a barrier of a disk takes.
  static constexpr std::chrono::microseconds kWait{100};
  /// For a barrier to end, without sleeping.
  static constexpr std::chrono::microseconds kAwake{300};

  /// By whoever has made a barrier: so many wait by now who waited for it, or have come meanwhile.
  void note_barrier(u64 count, Clock::duration took) {
    count_.store(count, std::memory_order_relaxed);
    took_.store(took, std::memory_order_relaxed);
  }
  /// Whether nobody else is expected, where so many have come since the last barrier.
  bool has_come(u64 count) const { return count >= count_.load(std::memory_order_relaxed); }
  /// To wake several threads one after the other takes as long as a barrier of a fast disk, so they
  /// do not sleep. Two wake each other more quickly than they yield.
  bool stays_awake() const {
    return count_.load(std::memory_order_relaxed) >= 3 &&
           took_.load(std::memory_order_relaxed) <= kAwake;
  }
  /// Until when who waits from now on does not sleep; long ago: he does.
  Clock::time_point awake_until() const {
    return stays_awake() ? Clock::now() + kAwake : Clock::time_point{};
  }
  /// Without the lock, as long as it `goes_on`; whether it did not any more.
  template <class GoesOn>
  static bool stay_awake(std::unique_lock<std::mutex>& lock, Clock::duration time,
                         GoesOn&& goes_on) {
    const auto end = Clock::now() + time;
    lock.unlock();
    bool waits = true;
    while ((waits = goes_on()) && Clock::now() < end) std::this_thread::yield();
    lock.lock();
    return !waits;
  }

 private:
  std::atomic<u64> count_{0};
  std::atomic<Clock::duration> took_{Clock::duration::zero()};
};

}  // namespace perdura
