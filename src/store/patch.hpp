// Block media: a log left behind by a crash, applied to working memory.
//
// The home image is not rewritten before the program goes on: pages of the region that the log
// changed are patched in their private copies, lazily if that can be done.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/mapping.hpp"
#include "commit/replay.hpp"
#include "log/reader.hpp"
#include "region/region.hpp"
#include "store/lazy_parts.hpp"
#include "track/tracker.hpp"

namespace perdura::store {

class Patch final : private Filler {
 public:
  /// Index the recovered versions, which are moved to `versions`.
  static Result<std::unique_ptr<Patch>> create(log::Recovered recovered, u64 region_bytes,
                                               std::vector<log::LoggedVersion>& versions);

  /// Apply everything now.
  Status apply_all(region::Region& region);

  /// Apply it page by page when it is touched, or in the background. Falls back to apply_all for
  /// few pages, and where nothing can be closed.
  Status apply_lazily(region::Region& region, track::Tracker& tracker);
  /// What the log changes; unchanging.
  const track::DirtyMap& lines() const { return index_->lines(); }
  bool done() const { return !parts_ || parts_->done(); }

  /// For tests: a load there.
  bool on_fault(std::byte* address) noexcept {
    return parts_ && parts_->on_fault({address, false, false});
  }

 private:
  Patch(std::unique_ptr<log::Image> image, commit::LineIndex index)
      : image_(std::move(image)), index_(std::make_unique<commit::LineIndex>(std::move(index))) {}

  Status check_places() const;
  bool fill(u64 begin, u64 end, const media::SelfMemory& memory) noexcept override;
  void all_filled() noexcept override;
  bool patch_page(u64 page, const media::SelfMemory& memory, std::byte* buffer) const noexcept;
  size_t claim_buffer() noexcept;

  static constexpr size_t kBuffers = 8;  ///< a page each

  std::unique_ptr<log::Image> image_;
  std::unique_ptr<commit::LineIndex> index_;
  std::shared_ptr<const region::HomeMap> home_;
  std::byte* base_ = nullptr;
  Mapping buffers_;
  std::atomic<bool> buffer_taken_[kBuffers]{};
  std::unique_ptr<LazyParts> parts_;  ///< last: its thread uses the others
};

}  // namespace perdura::store
