#include "commit/staged_snapshot.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "base/line_mask.hpp"
#include "base/memory_limit.hpp"
#include "commit/capture.hpp"

namespace perdura::commit {
namespace {

/// Copied by one thread at a time, into a huge page where the system has one.
constexpr u64 kPieceBytes = 2 * kMiB;
constexpr u64 kMemoryShare = 8;  ///< of the process's memory one part

/// Lines on their way to the log from where they were copied to.
class StagedLines {
 public:
  explicit StagedLines(log::VersionWriter& writer) : writer_(writer) {}

  /// The lines of a page that `mask` has; `ahead`: the page that comes next. False when the log
  /// failed, which sticks.
  bool add(u64 page, u64 mask, const std::byte* bytes, const std::byte* ahead) {
    if (mask == kAllLines) {
      if (!writer_.make_room()) return false;
      const u64 sum = writer_.write({.page = bytes, .page_ahead = ahead});
      writer_.keep_run(page * kLinesPerPage, kLinesPerPage, sum);
      return true;
    }
    for (; mask != 0; mask &= mask - 1) {
      const auto line = static_cast<u64>(std::countr_zero(mask));
      numbers_[count_] = page * kLinesPerPage + line;
      data_[count_] = bytes + line * kLineBytes;
      if (++count_ == kLines && !flush()) return false;
    }
    return true;
  }
  bool flush() {
    const u64 count = std::exchange(count_, 0);
    return write_lines({numbers_.data(), count}, {data_.data(), count}, writer_);
  }

 private:
  static constexpr u64 kLines = log::kPieceLines;
  log::VersionWriter& writer_;
  u64 count_ = 0;
  std::array<u64, kLines> numbers_;
  std::array<const std::byte*, kLines> data_;
};

}  // namespace

Result<std::unique_ptr<StagedSnapshot>> StagedSnapshot::create(
    track::Tracker& tracker, track::Mutators& mutators, const std::byte* base, u64 unit_bytes,
    u64 memory_max, std::unique_ptr<LastPages> last_pages) {
  PERDURA_ASSERT(last_pages == nullptr || unit_bytes == kPageBytes);
  const u64 bytes =
      round_up(memory_max != 0 ? memory_max : memory_limit() / kMemoryShare, kPieceBytes);
  PERDURA_ASSIGN(Mapping memory, Mapping::aligned(bytes, kPieceBytes));
  ::madvise(memory.as(), memory.length(), MADV_HUGEPAGE);
  return std::unique_ptr<StagedSnapshot>(new StagedSnapshot(
      tracker, mutators, base, unit_bytes, std::move(memory), std::move(last_pages)));
}

Result<bool> StagedSnapshot::open() {
  PERDURA_ASSERT(listed_.empty());  // the one before was closed
  list_units(tracker_.collect());
  if (staged_bytes_ > memory_.length()) {
    listed_.clear();
    return false;
  }
  next_ = 0;
  lacks_memory_ = false;
  mutators_.share(*this);
  if (lacks_memory_) {
    ::madvise(memory_.as<std::byte>() + ready_, memory_.length() - ready_, MADV_DONTNEED);
    listed_.clear();
    return false;
  }
  ready_ = std::max(ready_, round_up(staged_bytes_, kPieceBytes));
  return true;
}

void StagedSnapshot::list_units(const track::DirtyMap& changes) {
  changes_ = &changes;
  staged_bytes_ = 0;
  const std::vector<u64> numbers = units_of(changes, unit_bytes_);
  listed_.reserve(numbers.size());  // where that fails nothing is listed
  for (const u64 number : numbers) {
    std::byte* const copy = last_pages_ != nullptr ? last_pages_->find(number) : nullptr;
    listed_.push_back({number, copy, kAllLines, copy != nullptr});
    if (copy != nullptr) continue;
    listed_.back().bytes = memory_.as<std::byte>() + staged_bytes_;
    staged_bytes_ += unit_bytes_;
  }
}

// By several threads.
void StagedSnapshot::help() noexcept {
  const u64 units = std::max<u64>(kPieceBytes / unit_bytes_, 1);
  for (;;) {
    const u64 begin = next_.fetch_add(1, std::memory_order_relaxed) * units;
    const u64 end = std::min<u64>(begin + units, listed_.size());
    if (begin >= end) return;
    if (!stage(&listed_[begin], listed_.data() + end)) {
      lacks_memory_.store(true, std::memory_order_relaxed);
      return;
    }
  }
}

// False: there is no memory.
bool StagedSnapshot::stage(Unit* begin, Unit* end) noexcept {
  for (Unit* unit = begin; unit != end; ++unit) {
    const std::byte* const now = base_ + unit->number * unit_bytes_;
    if (unit->has_copy) {
      // The pages are anywhere: waiting for the first bytes of each takes as long as comparing.
      const Unit& next = unit + 1 != end ? unit[1] : *unit;
      const std::byte* const next_now = base_ + next.number * unit_bytes_;
      unit->changed =
          different_lines(now, unit->bytes, changes_->page_mask(unit->number), [&](u64 line) {
            __builtin_prefetch(next_now + line * kLineBytes);
            __builtin_prefetch(next.bytes + line * kLineBytes);
          });
      copy_lines(unit->bytes, now, unit->changed);
      continue;
    }
    const u64 place = static_cast<u64>(unit->bytes - memory_.as<std::byte>());
    if (!have_memory(place, round_up(place + unit_bytes_, kPieceBytes))) return false;
    std::memcpy(unit->bytes, now, unit_bytes_);
  }
  return true;
}

bool StagedSnapshot::have_memory(u64 begin, u64 end) const noexcept {
  return end <= ready_ || populate(memory_.as<std::byte>() + begin, end - begin);
}

// Calls visit(unit, page, mask, bytes) for each page that was copied aside and has lines in
// `changes`, which may lack some that changed.
template <class Visit>
Status StagedSnapshot::for_each_page(const track::DirtyMap& changes, Visit&& visit) const {
  const u64 pages = unit_bytes_ / kPageBytes;
  for (const Unit& unit : listed_)
    for (u64 i = 0; i < pages; ++i) {
      const u64 page = unit.number * pages + i;
      const u64 mask = changes.page_mask(page) & unit.changed;
      if (mask != 0) PERDURA_TRY(visit(unit, page, mask, unit.bytes + i * kPageBytes));
    }
  return {};
}

Status StagedSnapshot::write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                                   Trimmer* trimmer) {
  StagedLines lines(writer);
  const auto add = [&](const Unit& unit, u64 page, u64 mask, const std::byte* bytes) {
    if (trimmer != nullptr) mask = trimmer->changed(bytes, page, mask);
    else if (last_pages_ != nullptr && !unit.has_copy && mask == kAllLines)
      last_pages_->offer(page, bytes);
    const std::byte* const ahead = &unit != &listed_.back() ? (&unit + 1)->bytes : nullptr;
    return lines.add(page, mask, bytes, ahead) ? Status{} : writer.finish();
  };
  PERDURA_TRY(for_each_page(changes, add));
  return lines.flush() ? Status{} : writer.finish();
}

// Of those that changed, in rising order as well.
Status StagedSnapshot::write_units(std::span<const u64> units, const Take& take) {
  u64 i = 0;
  for (const u64 unit : units) {
    while (i < listed_.size() && listed_[i].number != unit) ++i;
    PERDURA_ASSERT(i < listed_.size());
    PERDURA_TRY(take(unit, listed_[i].bytes));
  }
  return {};
}

Status StagedSnapshot::write_pages(const track::DirtyMap& changes, PageSink& sink) {
  return for_each_page(changes, [&](const Unit&, u64 page, u64 mask, const std::byte* bytes) {
    sink.fetch(page, mask);
    return sink.take(page, mask, bytes);
  });
}

void StagedSnapshot::forget() noexcept {
  if (last_pages_ != nullptr) last_pages_->forget();
}

// What the last ones needed stays, and half as much beside it is there before the next one needs
// it: to get memory takes longer than to fill it, and the program would stand still meanwhile.
void StagedSnapshot::close() noexcept {
  if (listed_.empty()) return;
  needed_ = std::max(staged_bytes_, needed_ - needed_ / 8);
  listed_.clear();
  const u64 kept = std::min(round_up(needed_ + needed_ / 2, kPieceBytes), memory_.length());
  if (kept > ready_ && have_memory(ready_, kept)) ready_ = kept;
  if (ready_ - std::min(ready_, kept) <= kept / 4) return;
  ::madvise(memory_.as<std::byte>() + kept, ready_ - kept, MADV_DONTNEED);
  ready_ = kept;
}

}  // namespace perdura::commit
