// Block media: a log left behind by a crash, applied to working memory.
//
// The home image is not rewritten before the program goes on: pages of the region that the log
// changed are patched in their private copies. Lazily: chunks with such pages are inaccessible at
// first. The first touch of one, or the background thread, patches its pages and opens it.
//
//   chunk state    kPlain (nothing to do) | kClosed -> kPatching -> kOpen
//                  kPatched: whole, but could not be opened yet
//
// The library writes a closed chunk through /proc/self/mem, which needs no access of its own and
// so keeps the program out until the chunk is whole.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "commit/log_reader.hpp"
#include "commit/replay.hpp"
#include "media/self_memory.hpp"
#include "region/faults.hpp"
#include "region/region.hpp"
#include "track/tracker.hpp"

namespace perdura::store {

class Patch final : public region::FaultHandler {
 public:
  /// Index the recovered versions, which are moved to `versions`.
  static Result<std::unique_ptr<Patch>> create(commit::RecoveredLog recovered, u64 region_bytes,
                                               std::vector<commit::LoggedVersion>& versions);
  ~Patch() override;

  /// Apply everything now.
  Status apply_all(region::Region& region);

  /// Close the chunks with changed pages and patch them when they are touched, or in the
  /// background. Falls back to apply_all for few pages, and where the system has no /proc/self/mem.
  Status apply_lazily(region::Region& region, track::Tracker& tracker);
  /// What the log changes; unchanging.
  const track::DirtyMap& lines() const { return index_->lines(); }
  bool done() const { return remaining_.load(std::memory_order_acquire) == 0; }

  bool on_fault(std::byte* address) noexcept override;

 private:
  enum State : u8 { kPlain, kClosed, kPatched, kPatching, kOpen };

  Patch(std::unique_ptr<commit::LogImage> image, commit::LineIndex index)
      : image_(std::move(image)), index_(std::make_unique<commit::LineIndex>(std::move(index))) {}

  Status check_places() const;
  template <class Visit>
  Status for_each_backed(u64 begin, u64 end, Visit&& visit) const;
  Status close_chunks();
  bool patch_chunk(u64 chunk) noexcept;
  bool patch_pages(u64 chunk) noexcept;
  bool patch_page(u64 page) noexcept;
  void patch_in_background();

  std::unique_ptr<commit::LogImage> image_;
  std::unique_ptr<commit::LineIndex> index_;
  std::shared_ptr<const region::HomeMap> home_;
  std::byte* base_ = nullptr;
  track::Tracker* tracker_ = nullptr;
  std::optional<media::SelfMemory> memory_;
  u64 chunk_bytes_ = 0;
  std::vector<std::atomic<u8>> states_;
  std::atomic<u64> remaining_{0};  ///< chunks not open yet
  std::atomic<bool> stopping_{false};
  std::optional<region::FaultWatch> watch_;
  std::thread thread_;
};

}  // namespace perdura::store
