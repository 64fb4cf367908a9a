// Block media: a log left behind by a crash, applied to working memory.
//
// The home image is not rewritten before the program goes on: pages of the region that the log
// changed are patched in their private copies.
#pragma once

#include <memory>

#include "commit/log_reader.hpp"
#include "commit/replay.hpp"
#include "region/region.hpp"

namespace perdura::store {

class Patch {
 public:
  /// Index the recovered versions.
  static Result<std::unique_ptr<Patch>> create(commit::RecoveredLog recovered, u64 region_bytes,
                                               std::vector<commit::LoggedVersion>& versions);
  /// Apply everything now.
  Status apply_all(region::Region& region);

 private:
  Patch(std::unique_ptr<commit::LogImage> image, commit::LineIndex index)
      : image_(std::move(image)), index_(std::move(index)) {}

  std::unique_ptr<commit::LogImage> image_;
  commit::LineIndex index_;
};

}  // namespace perdura::store
