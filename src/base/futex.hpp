// Waiting for a word to change, for a while; unlike a condition variable, signal handlers may wake.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>

#include "base/bits.hpp"

namespace perdura {

/// Until the word is not `seen` any more, or the time is over, or for no reason.
inline void futex_wait(std::atomic<u32>& word, u32 seen, std::chrono::nanoseconds time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec timeout{seconds.count(), (time - seconds).count()};
  ::syscall(SYS_futex, reinterpret_cast<u32*>(&word), FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr,
            0);
}
/// One thread that waits looks again; or all of them.
inline void futex_wake(std::atomic<u32>& word) noexcept {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, reinterpret_cast<u32*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}
inline void futex_wake_all(std::atomic<u32>& word) noexcept {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, reinterpret_cast<u32*>(&word), FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr,
            nullptr, 0);
}
static_assert(sizeof(std::atomic<u32>) == sizeof(u32) && std::atomic<u32>::is_always_lock_free);

}  // namespace perdura
