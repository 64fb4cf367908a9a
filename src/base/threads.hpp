// Short work that several threads share.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura {

/// Calls `work()` in up to `wanted` threads at once, this one among them, and waits for all. There
/// are no more than processors, and fewer where the system refuses them: each call must go on until
/// nothing is left to do. `work` must not throw.
template <class Work>
void share_among_threads(u64 wanted, const Work& work) {
  constexpr u64 kThreadsMax = 8;
  const u64 count = std::min<u64>({wanted, kThreadsMax, std::thread::hardware_concurrency()});
  std::vector<std::jthread> others;
  const Status started = guarded([&]() -> Status {
    while (others.size() + 1 < count) others.emplace_back([&work] { work(); });
    return {};
  });
  (void)started;  // those that did start, and this one, do it all
  work();
}

}  // namespace perdura
