// What recovery finds in a crash state, short of mapping it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <perdura/options.hpp>

#include "commit/replay.hpp"
#include "crash_state.hpp"
#include "region/region.hpp"
#include "store/recovery.hpp"

namespace perdura::testing {

struct Recovered {
  std::string problem;  ///< "" when recovery succeeds
  u64 version = 0;
  std::unique_ptr<region::Volume> volume;
  format::RegionRecord region{};
  std::shared_ptr<const region::HomeMap> home;  ///< nullptr before the region exists
  log::Recovered log;                           ///< of its versions, those that are not home yet
  std::optional<commit::LineIndex> index;       ///< of these
  std::optional<store::ChunkRecovery> chunks;   ///< of a region in chunks, instead of all these
};

/// The very functions that opening a store runs: of its segment and log sizes, and of the region
/// that `options` name. The result ends before the execution is reset.
Recovered recover(Execution& execution, const Options& options);

/// Reads and verifies the recovered version of a region in chunks, as opening it does. What is
/// wrong, or "".
std::string load_chunks(const Recovered& recovered);

}  // namespace perdura::testing
