#include "commit/line_snapshot.hpp"

#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "commit/capture.hpp"
#include "commit/pages_ahead.hpp"

namespace perdura::commit {

Result<bool> LineSnapshot::open() {
  copies_.clear();
  seen_.clear();
  side_copies_ = 0;
  tracker_.open_window();
  return true;
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
  for (u64 line = begin; line < end; line += kLinesPerPage)
    replace_marked(line, ~u64{0}, to + (line - begin) * kLineBytes);
  window_.publish(end);
}

// Of a page that was just loaded: what was copied aside, in its place.
void LineSnapshot::replace_marked(u64 first_line, u64 mask, std::byte* to) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (; window_.any_mark() && mask != 0; mask &= mask - 1) {
    const auto i = static_cast<u64>(std::countr_zero(mask));
    if (!window_.marked(first_line + i)) continue;
    window_.await_copy(first_line + i);
    std::memcpy(to + i * kLineBytes, copy_of(first_line + i), kLineBytes);
    ++side_copies_;
  }
}

Status LineSnapshot::write_pages(const track::DirtyMap& changes, PageSink& sink) {
  AlignedBuffer calm(kPageBytes);
  PagesAhead ahead;
  const auto use = [&](const PageLines& each) {
    return write_page(each.page, each.mask, sink, calm.data());
  };
  Status status;
  changes.for_each_page([&](u64 page, u64 changed) {
    if (!status) return;
    const u64 mask = sink.whole_pages() ? kAllLines : changed;
    prefetch_lines(base_ + page * kPageBytes, mask);
    sink.fetch(page, mask);
    status = ahead.add({page, mask}, use);
  });
  PERDURA_TRY(status);
  return ahead.use_rest(use);
}

// A page that changed as a whole is read once where no mutator meets it: by who takes it.
Status LineSnapshot::write_page(u64 page, u64 mask, PageSink& sink, std::byte* calm) {
  const std::byte* const bytes = base_ + page * kPageBytes;
  const u64 first = page * kLinesPerPage;
  const bool in_place = track::kRacingReadsAllowed && mask == kAllLines && !sink.whole_pages();
  if (in_place) {
    PERDURA_TRY(sink.take(page, mask, bytes));
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!any_marked(first)) {
      window_.publish(first + kLinesPerPage);
      return {};
    }
  }
  for (u64 bits = mask; bits != 0; bits &= bits - 1) {
    const auto at = static_cast<u64>(std::countr_zero(bits)) * kLineBytes;
    track::copy_racing_line(calm + at, bytes + at);
  }
  replace_marked(first, mask, calm);
  window_.publish(first + kLinesPerPage);
  return in_place ? sink.take_again(page, calm) : sink.take(page, mask, calm);
}

bool LineSnapshot::any_marked(u64 first_line) const {
  bool any = false;
  for (u64 i = 0; window_.any_mark() && i < kLinesPerPage; ++i)
    any |= window_.marked(first_line + i);
  return any;
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
