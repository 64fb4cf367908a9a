// Waiting for what another thread does at once.
#pragma once

#include <immintrin.h>
#include <time.h>

#include <cerrno>

#include "base/threads.hpp"

namespace perdura {

/// Lets others have the processor, and comes back in some ten microseconds. Whoever calls
/// sched_yield() where another thread wants the processor is back after that one's slice, which is
/// of milliseconds (since Linux 6.6; kernel/sched/fair.c, yield_task_fair).
inline void give_way() noexcept {
  const NotCancelled not_cancelled;
  const int saved_errno = errno;
  const timespec shortly{0, 20'000};
  ::nanosleep(&shortly, nullptr);
  errno = saved_errno;
}

/// Until `holds()`. It takes the other thread nanoseconds, or that has lost its processor.
template <class Condition>
void await_soon(Condition&& holds) noexcept {
  for (int spins = 0; !holds(); ++spins) {
    if (spins < 2000) _mm_pause();
    else give_way();
  }
}

}  // namespace perdura
