// The snapshot of a tracker of pages, in whose handlers units are copied aside.
//
//   state of a unit     kIdle ── open ──▶ kPending ──▶ kCopying ──▶ kIdle
//                                           by the capturer, or by who stores
#pragma once

#include "base/mapping.hpp"
#include "commit/snapshot.hpp"

namespace perdura::commit {

/// Places for units copied aside. Async-signal-safe.
class AsidePool {
 public:
  explicit AsidePool(u64 unit_bytes);
  Status reserve();

  static constexpr size_t kNone = ~size_t{0};
  /// kNone: all are taken.
  size_t claim() noexcept;
  std::byte* bytes(size_t slot) const { return memory_.as<std::byte>() + slot * unit_bytes_; }
  /// The copy of `unit` in `slot` is complete.
  void publish(size_t slot, u64 unit) noexcept;
  void release(size_t slot) noexcept;
  /// A published slot, which is no longer; kNone: there is none.
  size_t take() noexcept;
  u64 unit_in(size_t slot) const { return units_[slot]; }

 private:
  const u64 unit_bytes_;
  const size_t slots_;
  Mapping memory_;
  std::vector<std::atomic<u64>> taken_;
  std::vector<std::atomic<u64>> ready_;
  std::vector<u64> units_;
};

class UnitSnapshot final : public Snapshot, public track::StoreGuard {
 public:
  static Result<std::unique_ptr<UnitSnapshot>> create(track::Tracker& tracker,
                                                      const region::Region& region, u64 unit_bytes);
  ~UnitSnapshot() override { tracker_.set_guard(nullptr); }

  Result<bool> open() override;
  Status write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                     Trimmer* trimmer) override;
  Status write_units(std::span<const u64> units, const Take& take) override;
  Status write_pages(const track::DirtyMap& changes, PageSink& sink) override;
  void close() noexcept override;
  u64 side_copies() const override { return side_copies_; }

  void before_store(const std::byte* begin, const std::byte* end) noexcept override;

 private:
  enum State : u8 { kIdle, kPending, kCopying };

  UnitSnapshot(track::Tracker& tracker, const std::byte* base, u64 unit_bytes)
      : tracker_(tracker), base_(base), unit_bytes_(unit_bytes), aside_(unit_bytes) {}
  std::atomic<u8>& state(u64 unit) const { return states_.as<std::atomic<u8>>()[unit]; }
  const std::byte* address(u64 unit) const { return base_ + unit * unit_bytes_; }
  Status take_aside(const Take& take);
  Status take_all(const Take& take);

  track::Tracker& tracker_;
  const std::byte* const base_;
  const u64 unit_bytes_;
  Mapping states_;
  AsidePool aside_;
  std::vector<u64> listed_;  ///< what changed, in rising order
  u64 side_copies_ = 0;
};

}  // namespace perdura::commit
