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
  std::string store;               ///< URI; empty: new files that are removed again
  bool keep = false;               ///< do not remove the stores
  int kills = 3;                   ///< on each side
  std::vector<Side> sides;         ///< beside ordinary memory; none: those that this build has
  bool verify = false;             ///< compare what can be compared; takes long
  std::string json;                ///< file for the figures
  WorkerOptions worker;            ///< its seed is also that of the moments to kill
};

/// True when all of them, also those that were killed, came to what ordinary memory holds.
bool demonstrate(const DemoOptions& options);

}  // namespace demo
