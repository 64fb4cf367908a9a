// Goal: operations go on, however fast stops follow each other.
// Method: threads that begin each operation while they are stopped, and stops without a pause
// between them until all operations are done.
#include "track/mutators.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace perdura::track {
namespace {

TEST(Mutators, WhoWaitedForAStopComesBeforeTheNext) {
  constexpr u64 kOperations = 50;
  const auto mutators = value_or_throw(Mutators::create(nullptr, nullptr));
  std::atomic<int> running{2};
  std::atomic<bool> stopped{false};
  std::vector<std::jthread> threads;
  for (int i = running.load(); i != 0; --i)
    threads.emplace_back([&] {
      detail::Mutator& self = mutators->this_thread();
      for (u64 done = 0; done < kOperations; ++done) {
        while (!stopped.load()) std::this_thread::yield();
        const InOperation operation(self);
      }
      running.fetch_sub(1);
    });
  while (running.load() != 0) {
    mutators->stop();
    stopped = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // they sleep until it ends
    stopped = false;
    mutators->resume();
  }
}

}  // namespace
}  // namespace perdura::track
