// The chain of a container, step by step: what it holds follows from how many there were.
#pragma once

#include <vector>

#include "support/chain.hpp"
#include "support/ledger.hpp"

namespace perdura::model {

inline bool pushes(u64 step) { return test::mix(step) % 3 != 0; }

inline void step_chain(test::ChainRoot& chain, u64 step) {
  if (pushes(step) || chain.first == nullptr) push(chain, step);
  else pop(chain);
}

inline std::vector<u64> expected_chain(u64 steps) {
  std::vector<u64> numbers;
  for (u64 step = 1; step <= steps; ++step) {
    if (pushes(step) || numbers.empty()) numbers.insert(numbers.begin(), step);
    else numbers.erase(numbers.begin());
  }
  return numbers;
}

}  // namespace perdura::model
