// What a person who starts the demo sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker.hpp"

namespace demo {

struct DemoOptions {
  std::vector<std::string> files;  ///< input; none: what this machine has
  std::size_t limit_mb = 300;      ///< of text
  std::string store;               ///< URI; empty: a new file that is removed again
  bool keep = false;               ///< do not remove the stores
  int kills = 5;
  std::uint64_t seed = 1;
  std::string json;  ///< file for the figures
  WorkerOptions worker;
};

/// True when the killed program came to the results of the undisturbed one.
bool demonstrate(const DemoOptions& options);

}  // namespace demo
