// How much of a campaign a test runs: a slice that ./dev test has time for, or the whole of it,
// where PERDURA_CAMPAIGNS=whole (./dev torture).
#pragma once

#include <cstdlib>
#include <string>

#include "base/bits.hpp"

namespace perdura::test {

inline bool whole_campaigns() {
  const char* wanted = std::getenv("PERDURA_CAMPAIGNS");
  return wanted != nullptr && std::string(wanted) == "whole";
}

inline u64 slice_or_whole(u64 slice, u64 whole) { return whole_campaigns() ? whole : slice; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
/// Sanitizers see what is wrong in an access, and the same accesses come again and again: what is
/// repeated to meet rare states is repeated by so much less, as each step takes that much longer.
constexpr u64 kSlower = 8;
#else
constexpr bool kSanitized = false;
constexpr u64 kSlower = 1;
#endif

}  // namespace perdura::test
