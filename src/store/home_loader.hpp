// A region with a redo log, from its medium to working memory: a private view of the home image,
// with the log that a crash left put over it, and verified before it is used if that is wanted.
//
//   part of the region    [closed] -- touched, or reached in the background --> [open]
//                          1. pages that the log does not change are compared with their checksums
//                          2. lines of the log are put over the others
//
// The home image is not rewritten before the program goes on. Where parts cannot be closed, all of
// this is done before `open` returns.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/mapping.hpp"
#include "commit/engine.hpp"
#include "commit/home_guard.hpp"
#include "commit/home_view.hpp"
#include "commit/page_set.hpp"
#include "commit/replay.hpp"
#include "log/reader.hpp"
#include "region/region.hpp"
#include "store/lazy_parts.hpp"
#include "track/tracker.hpp"

namespace perdura::store {

class HomeLoader final : private Filler {
 public:
  struct Verification {
    bool before_use = false;
    u64 bytes_per_second = 0;  ///< in the background, of what is not touched; 0: nothing
    /// A damaged page becomes zeros, and its part opens, unless all is loaded at once or it is of
    /// the heap's own tables.
    bool zeroes = false;
  };
  HomeLoader(region::Volume& volume, const Verification& verification)
      : volume_(volume), verification_(verification) {}
  /// What is verified is told to `guard`, which outlives the loader. Before any of it is loaded.
  void set_guard(commit::HomeGuard* guard) { guard_ = guard; }

  /// To be put over the home image. The versions are moved to `versions`.
  Status add_log(log::Recovered recovered, u64 region_bytes,
                 std::vector<log::LoggedVersion>& versions);

  /// Everything now; the first damaged page is the failure.
  Status load_all(region::Region& region);
  /// Each part when it is touched, or in the background. Falls back to load_all where little is to
  /// be done, and where nothing can be closed.
  Status load_lazily(region::Region& region, track::Tracker& tracker);

  /// What the log changes; unchanging. nullptr: there is none.
  const track::DirtyMap* lines() const { return index_ ? &index_->lines() : nullptr; }
  bool done() const { return !parts_ || parts_->done(); }
  /// Parts that are not open yet; nullptr: there are none.
  track::ClosedParts* closed() const { return parts_.get(); }
  commit::Findings findings() const;

  /// For tests: a load there.
  bool on_fault(std::byte* address) noexcept {
    return parts_ && parts_->on_fault({address, false, false});
  }

 private:
  bool verify(u64 begin, u64 end, const media::SelfMemory* memory) noexcept;
  bool zero(u64 page, const media::SelfMemory& memory) noexcept;
  Status begin_verification(const region::Region& region);
  void note(u64 page) noexcept;
  u64 first_damaged() const;

  Status check_places() const;
  bool fill(u64 begin, u64 end, const media::SelfMemory& memory, bool last) noexcept override;
  bool stores(u64 begin, u64 end) const override;
  void soon_filled() noexcept override;
  void all_filled() noexcept override { view_.reset(); }
  bool patch_page(u64 page, const media::SelfMemory& memory, std::byte* buffer) const noexcept;
  size_t claim_buffer() noexcept;
  bool is_withheld(u64 page) const noexcept {
    return guard_ != nullptr && guard_->withheld().contains(page);
  }

  static constexpr size_t kBuffers = 8;  ///< a page each
  static constexpr size_t kDamagedMax = 1000;

  region::Volume& volume_;
  const Verification verification_;
  commit::HomeGuard* guard_ = nullptr;
  std::unique_ptr<log::Image> image_;
  std::unique_ptr<commit::LineIndex> index_;
  std::shared_ptr<const region::HomeMap> home_;
  std::byte* base_ = nullptr;
  Events* events_ = &Events::nobody();
  std::optional<commit::HomeView> view_;  ///< what is verified
  std::optional<commit::PageSet> noted_;  ///< pages of which was said that they are damaged
  Mapping buffers_;
  std::array<std::atomic<bool>, kBuffers> buffer_taken_{};
  std::atomic<u64> verified_bytes_{0};
  std::array<std::atomic<u64>, kDamagedMax> damaged_{};  ///< pages, counted from 1
  std::atomic<u64> damaged_count_{0};                    ///< may be more than are named
  std::atomic<u64> zeroed_count_{0};
  std::unique_ptr<LazyParts> parts_;  ///< last: its thread uses the others
};

}  // namespace perdura::store
