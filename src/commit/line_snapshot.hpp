// The snapshot of a tracker with a window (track/window.hpp).
#pragma once

#include <unordered_map>

#include "base/aligned_buffer.hpp"
#include "commit/snapshot.hpp"

namespace perdura::commit {

class LineSnapshot final : public Snapshot {
 public:
  LineSnapshot(track::Tracker& tracker, track::Mutators& mutators, const std::byte* base,
               u64 unit_bytes)
      : tracker_(tracker),
        window_(*tracker.window()),
        mutators_(mutators),
        base_(base),
        unit_bytes_(unit_bytes) {}

  Result<bool> open() override;
  Status write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                     Trimmer* trimmer) override;
  Status write_units(std::span<const u64> units, const Take& take) override;
  Status write_pages(const track::DirtyMap& changes, PageSink& sink) override;
  void close() noexcept override { tracker_.close_window(); }
  u64 side_copies() const override { return side_copies_; }

 private:
  void read_unit(u64 unit, std::byte* to);
  Status write_page(u64 page, u64 mask, PageSink& sink, std::byte* calm);
  bool any_marked(u64 first_line) const;
  void replace_marked(u64 first_line, u64 mask, std::byte* to);
  const std::byte* copy_of(u64 line);

  track::Tracker& tracker_;
  track::Window& window_;
  track::Mutators& mutators_;
  const std::byte* const base_;
  const u64 unit_bytes_;
  u64 side_copies_ = 0;

  // --- of write_units and write_pages: where side copies are, as far as the arenas were looked
  // through
  std::unordered_map<u64, const std::byte*> copies_;
  std::unordered_map<const track::SideArena*, u64> seen_;
};

}  // namespace perdura::commit
