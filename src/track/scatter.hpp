// FGCK's tracker (§3.2): page protection that sees objects. The program has each object at an
// address in the alias of the part of the page it starts in (region/region.hpp), so that a page
// tracker over the aliases knows which part's objects were stored to:
//
//   memory page      [ a | b | c ]     a, b start in its first half, c in its second
//   alias 0, page    [ a | b | . ]     stored to: lines of a and b change
//   alias 1, page    [ . | . | c ]     stored to: lines of c change
//
// Only allocated blocks count. The heap's own structures are changed through the first mapping and
// reported line by line. What a reported line held when its epoch began is kept, so that an object
// can be made durable without the others (heap/overlay.hpp).
#pragma once

#include <array>
#include <unordered_map>

#include "track/tracker.hpp"

namespace perdura::track {

class Scatter final : public Tracker, public ReportSink {
 public:
  struct Aliases {
    std::byte* base;  ///< of the first mapping
    u64 bytes;        ///< of the region
    u64 stride;
    u32 count;
  };
  /// `pages` watches [base + stride, base + (1 + count) * stride).
  static Result<std::unique_ptr<Scatter>> create(Mutators& mutators, const Aliases& aliases,
                                                 std::unique_ptr<Tracker> pages);
  ~Scatter() override;

  /// The lines of a page that hold allocated blocks which start in a part. While mutators stand
  /// still.
  using Visible = std::function<u64(u64 page, u64 alias)>;
  void set_visible(Visible visible) { visible_ = std::move(visible); }

  Tracking kind() const override { return pages_->kind(); }
  bool is_coarse() const override { return true; }
  bool can_close() const override { return false; }
  Status backed(std::span<const Part> parts) override;
  Status cut() override;
  const DirtyMap& collect() override;
  void settle(bool durable) override;

  void report(MutatorSlot& mutator, const void* address, u64 length) noexcept override;
  /// Whether the line of a place in the first mapping was reported in the running epoch. Inside an
  /// operation.
  bool has_reported(const void* place) const noexcept {
    const u64 offset = static_cast<u64>(static_cast<const std::byte*>(place) - aliases_.base);
    return reported_[filling_.load(std::memory_order_relaxed)].contains(offset / kLineBytes);
  }

  using Line = std::array<std::byte, kLineBytes>;
  using Images = std::unordered_map<u64, Line>;
  /// While mutators stand still and no checkpoint is under way: each reported line of the running
  /// epoch, as the last version has it. nullptr when there was no memory to keep one.
  const Images* images() const { return images_lost_ ? nullptr : &images_; }
  /// Of a line at any time: as the last version has it.
  Line image(u64 line) const noexcept;
  /// Before another checkpoint begins: a version of some of these lines alone was made since.
  void keep_images(const Images& durable) noexcept;

 private:
  Scatter(Mutators& mutators, const Aliases& aliases, std::unique_ptr<Tracker> pages, DirtyMap a,
          DirtyMap b, DirtyMap changes);

  Mutators& mutators_;
  const Aliases aliases_;
  std::unique_ptr<Tracker> pages_;
  Visible visible_;
  DirtyMap reported_[2];
  std::atomic<int> filling_{0};
  DirtyMap changes_;
  mutable std::mutex images_mutex_;
  Images images_;      ///< of the running epoch
  Images cut_images_;  ///< of the epoch that was cut
  bool images_lost_ = false;
  bool cut_images_lost_ = false;
};

}  // namespace perdura::track
