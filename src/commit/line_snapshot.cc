#include "commit/line_snapshot.hpp"

#include <cstring>

#include "base/assert.hpp"
#include "commit/capture.hpp"

namespace perdura::commit {

Status LineSnapshot::open() {
  copies_.clear();
  seen_.clear();
  side_copies_ = 0;
  tracker_.open_window();
  return {};
}

// Reports name what was stored to: there is nothing to leave out.
Status LineSnapshot::write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                                 Trimmer*) {
  return capture_in_background(
      changes, base_, window_, mutators_, writer, [this] { close(); }, &side_copies_);
}

Status LineSnapshot::write_units(std::span<const u64> units, const Take& take) {
  AlignedBuffer unit_as_it_was(unit_bytes_);
  for (const u64 unit : units) {
    read_unit(unit, unit_as_it_was.data());
    PERDURA_TRY(take(unit, unit_as_it_was.data()));
  }
  return {};
}

// As a line (see Window): all of them are loaded before any mark is, and none is published before
// the copies of the marked ones are complete.
void LineSnapshot::read_unit(u64 unit, std::byte* to) {
  const u64 begin = unit * unit_bytes_ / kLineBytes;
  const u64 end = begin + unit_bytes_ / kLineBytes;
  track::copy_racing(to, base_ + unit * unit_bytes_, unit_bytes_);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (u64 line = begin; window_.any_mark() && line < end; ++line) {
    if (!window_.marked(line)) continue;
    window_.await_copy(line);
    std::memcpy(to + (line - begin) * kLineBytes, copy_of(line), kLineBytes);
    ++side_copies_;
  }
  window_.publish(end);
}

// Complete, so it is in an arena; perhaps in that of a thread that has begun since the last look.
const std::byte* LineSnapshot::copy_of(u64 line) {
  if (const auto known = copies_.find(line); known != copies_.end()) return known->second;
  for (const track::MutatorSlot* mutator : mutators_.snapshot()) {
    const track::SideArena& arena = *mutator->side;
    u64& seen = seen_[&arena];
    for (const u64 count = arena.count(); seen < count; ++seen)
      copies_.try_emplace(arena.line(seen), arena.data(seen));
  }
  const auto found = copies_.find(line);
  PERDURA_ASSERT(found != copies_.end());
  return found->second;
}

}  // namespace perdura::commit
