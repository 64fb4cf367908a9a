// The threads of a benchmark, which take turns on the two processors.
#pragma once

#include <thread>
#include <vector>

#include "measure.hpp"

namespace perdura::bench {

/// Threads that wait for a disk are left to the system: pinned, they wait for the processor as
/// well.
enum class Pinned { kYes, kNo };

/// body(thread) in so many threads.
template <class Body>
void in_threads(int count, const Body& body, Pinned pinned = Pinned::kYes) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < count; ++thread)
    threads.emplace_back([&body, thread, pinned] {
      pin_thread(pinned == Pinned::kNo ? kAnyCpu : thread % 2 == 0 ? kMutatorCpu : kBackgroundCpu);
      body(thread);
    });
  for (std::thread& thread : threads) thread.join();
}

/// Seconds a call: body(thread, calls of it), in this thread if it is the only one.
template <class Body>
double seconds_a_call(int threads, std::uint64_t calls, const Body& body,
                      Pinned pinned = Pinned::kYes) {
  const std::uint64_t each = calls / static_cast<std::uint64_t>(threads);
  const double seconds = timed_s([&] {
    if (threads == 1) body(0, each);
    else in_threads(threads, [&](int thread) { body(thread, each); }, pinned);
  });
  return seconds / static_cast<double>(each * static_cast<std::uint64_t>(threads));
}

}  // namespace perdura::bench
