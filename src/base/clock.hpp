// Monotonic time.
#pragma once

#include <chrono>

#include "base/bits.hpp"

namespace perdura {

inline u64 now_ns() {
  return static_cast<u64>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::steady_clock::now().time_since_epoch())
                              .count());
}

}  // namespace perdura
