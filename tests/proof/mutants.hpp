// Each barrier, flush and checksum of the protocol left out in turn: some run must show it.
#pragma once

#include <string>
#include <vector>

#include "exploration.hpp"

namespace perdura::proof {

struct MutantsResult {
  u64 mutants = 0;
  std::vector<std::string> survivors;
  /// Sites that recovery does not depend on, and why they are there.
  Json explained = Json::array();
};

/// Sites are those that the tasks' runs and their recoveries pass, with `part` in their names.
MutantsResult run_mutants(const std::vector<Task>& tasks, const std::string& part, unsigned jobs);

}  // namespace perdura::proof
