#include "commit/staged_snapshot.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
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

Result<std::unique_ptr<StagedSnapshot>> StagedSnapshot::create(track::Tracker& tracker,
                                                               track::Mutators& mutators,
                                                               const std::byte* base,
                                                               u64 unit_bytes, u64 memory_max) {
  const u64 bytes =
      round_up(memory_max != 0 ? memory_max : memory_limit() / kMemoryShare, kPieceBytes);
  PERDURA_ASSIGN(Mapping memory, Mapping::aligned(bytes, kPieceBytes));
  ::madvise(memory.as(), memory.length(), MADV_HUGEPAGE);
  return std::unique_ptr<StagedSnapshot>(
      new StagedSnapshot(tracker, mutators, base, unit_bytes, std::move(memory)));
}

Result<bool> StagedSnapshot::open() {
  PERDURA_ASSERT(listed_.empty());  // the one before was closed
  listed_ = units_of(tracker_.collect(), unit_bytes_);
  const u64 bytes = listed_.size() * unit_bytes_;
  if (bytes > memory_.length()) {
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
  ready_ = std::max(ready_, round_up(bytes, kPieceBytes));
  return true;
}

// By several threads.
void StagedSnapshot::help() noexcept {
  const u64 units = std::max<u64>(kPieceBytes / unit_bytes_, 1);
  for (;;) {
    const u64 begin = next_.fetch_add(1, std::memory_order_relaxed) * units;
    const u64 end = std::min<u64>(begin + units, listed_.size());
    if (begin >= end) return;
    if (!have_memory(begin * unit_bytes_, round_up(end * unit_bytes_, kPieceBytes))) {
      lacks_memory_.store(true, std::memory_order_relaxed);
      return;
    }
    for (u64 i = begin; i < end; ++i)
      std::memcpy(memory_.as<std::byte>() + i * unit_bytes_, base_ + listed_[i] * unit_bytes_,
                  unit_bytes_);
  }
}

// Where there is none an access would end the program. An older system takes it with the accesses.
bool StagedSnapshot::have_memory(u64 begin, u64 end) const noexcept {
  if (end <= ready_) return true;
  return ::madvise(memory_.as<std::byte>() + begin, end - begin, MADV_POPULATE_WRITE) == 0 ||
         errno == EINVAL;
}

// Calls visit(page, mask, bytes, ahead) for each page that was copied aside and has lines in
// `changes`, which may lack some that changed. `ahead`: what is likely to come next, or nullptr.
template <class Visit>
Status StagedSnapshot::for_each_page(const track::DirtyMap& changes, Visit&& visit) const {
  const u64 pages = unit_bytes_ / kPageBytes;
  const u64 count = listed_.size() * pages;
  for (u64 i = 0; i < count; ++i) {
    const u64 page = listed_[i / pages] * pages + i % pages;
    const u64 mask = changes.page_mask(page);
    const std::byte* const bytes = staged(0) + i * kPageBytes;
    const std::byte* const ahead = i + 1 < count ? bytes + kPageBytes : nullptr;
    if (mask != 0) PERDURA_TRY(visit(page, mask, bytes, ahead));
  }
  return {};
}

Status StagedSnapshot::write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                                   Trimmer* trimmer) {
  StagedLines lines(writer);
  const auto add = [&](u64 page, u64 mask, const std::byte* bytes, const std::byte* ahead) {
    if (trimmer != nullptr) mask = trimmer->changed(bytes, page, mask);
    return lines.add(page, mask, bytes, ahead) ? Status{} : writer.finish();
  };
  PERDURA_TRY(for_each_page(changes, add));
  return lines.flush() ? Status{} : writer.finish();
}

// Of those that changed, in rising order as well.
Status StagedSnapshot::write_units(std::span<const u64> units, const Take& take) {
  u64 i = 0;
  for (const u64 unit : units) {
    while (i < listed_.size() && listed_[i] != unit) ++i;
    PERDURA_ASSERT(i < listed_.size());
    PERDURA_TRY(take(unit, staged(i)));
  }
  return {};
}

Status StagedSnapshot::write_pages(const track::DirtyMap& changes, PageSink& sink) {
  return for_each_page(changes, [&](u64 page, u64 mask, const std::byte* bytes, const std::byte*) {
    sink.fetch(page, mask);
    return sink.take(page, mask, bytes);
  });
}

// What the last ones needed stays, and half as much beside it is there before the next one needs
// it: to get memory takes longer than to fill it, and the program would stand still meanwhile.
void StagedSnapshot::close() noexcept {
  if (listed_.empty()) return;
  needed_ = std::max<u64>(listed_.size() * unit_bytes_, needed_ - needed_ / 8);
  listed_.clear();
  const u64 kept = std::min(round_up(needed_ + needed_ / 2, kPieceBytes), memory_.length());
  if (kept > ready_ && have_memory(ready_, kept)) ready_ = kept;
  if (ready_ - std::min(ready_, kept) <= kept / 4) return;
  ::madvise(memory_.as<std::byte>() + kept, ready_ - kept, MADV_DONTNEED);
  ready_ = kept;
}

}  // namespace perdura::commit
