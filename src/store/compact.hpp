// Giving space back that a store has on its medium and nothing needs.
//
//   log segments   of regions whose logs have ended: they leave the directory
//   the end        the store ends behind its last extent, and the file is cut off there
//   gaps           between extents: the file has no space there any more
//
// What the next opening finds is the same after each of these steps; what is given back is taken
// again when it is needed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "media/medium.hpp"
#include "store/inspect.hpp"

namespace perdura::store {

struct Compaction {
  u64 bytes_before = 0;           ///< the medium's length
  u64 bytes_after = 0;            ///< the same afterwards; of a dry run: as it would be
  u64 occupied_before = 0;        ///< of its device
  u64 occupied_after = 0;         ///< the same; of a dry run: at most
  u64 log_bytes = 0;              ///< of ended logs, which left the directory
  u64 end_bytes = 0;              ///< cut off
  u64 gap_bytes = 0;              ///< of gaps that take no space any more
  std::vector<std::string> kept;  ///< sentences: what was kept, and why
};

/// Of a store that nobody has open: kLocked where somebody has, also to be read. With `dry_run`
/// nothing is written; then somebody may have it open.
Result<Compaction> compact(std::string_view uri, const media::MediumOptions& options, bool dry_run,
                           const Progress& progress = no_progress);
Result<Compaction> compact(std::unique_ptr<media::Medium> medium,
                           const Progress& progress = no_progress);

}  // namespace perdura::store
