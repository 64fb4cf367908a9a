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

/// Who waits for a word: threads of this process, or of all that share the memory it lies in.
enum class Waiters : int { kOfProcess = FUTEX_PRIVATE_FLAG, kOfAll = 0 };

/// Until the word is not `seen` any more, or the time is over, or for no reason.
inline void futex_wait(std::atomic<u32>& word, u32 seen, std::chrono::nanoseconds time,
                       Waiters whose = Waiters::kOfProcess) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec timeout{seconds.count(), (time - seconds).count()};
  ::syscall(SYS_futex, reinterpret_cast<u32*>(&word), FUTEX_WAIT | static_cast<int>(whose), seen,
            &timeout, nullptr, 0);
}
/// One thread that waits looks again; or all of them.
inline void futex_wake(std::atomic<u32>& word, Waiters whose = Waiters::kOfProcess,
                       int threads = 1) noexcept {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, reinterpret_cast<u32*>(&word), FUTEX_WAKE | static_cast<int>(whose), threads,
            nullptr, nullptr, 0);
}
inline void futex_wake_all(std::atomic<u32>& word, Waiters whose = Waiters::kOfProcess) noexcept {
  futex_wake(word, whose, 0x7fffffff);
}
static_assert(sizeof(std::atomic<u32>) == sizeof(u32) && std::atomic<u32>::is_always_lock_free);

}  // namespace perdura
