// What is read of a store that another process writes may be caught between two updates: it is read
// again, so often and after so long, until it is believed to be wrong.
#pragma once

#include <chrono>

namespace perdura::store {

constexpr int kLooksMax = 100;
constexpr std::chrono::milliseconds kLookAgain(1);

}  // namespace perdura::store
