// What comes about in another thread or process, sooner or later.
#pragma once

#include <chrono>
#include <thread>

namespace perdura::test {

/// False: not within a minute.
template <class Condition>
bool wait_until(Condition&& condition) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace perdura::test
