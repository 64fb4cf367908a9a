// Waiting for what another thread does at once.
#pragma once

#include <immintrin.h>
#include <sched.h>

namespace perdura {

/// Until `holds()`. It takes the other thread nanoseconds, or that has lost its processor.
template <class Condition>
void await_soon(Condition&& holds) noexcept {
  for (int spins = 0; !holds(); ++spins) {
    if (spins < 2000) _mm_pause();
    else ::sched_yield();
  }
}

}  // namespace perdura
