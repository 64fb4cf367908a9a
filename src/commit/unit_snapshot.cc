#include "commit/unit_snapshot.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "base/spin.hpp"
#include "commit/capture.hpp"

namespace perdura::commit {
namespace {

constexpr u64 kAsideBytes = 32 * kMiB;
constexpr size_t kAsideSlotsMin = 8;
constexpr size_t kAsideSlotsMax = 4096;

/// Lines on their way to the log, some pages of them at a time: a unit is given back at once.
class LineBatch {
 public:
  explicit LineBatch(log::VersionWriter& writer) : writer_(writer), bytes_(kLines * kLineBytes) {}

  /// The lines of a page that `mask` has. False when the log failed, which sticks.
  bool add(u64 page, u64 mask, const std::byte* bytes) {
    if (count_ + kLinesPerPage > kLines && !flush()) return false;
    for (; mask != 0; mask &= mask - 1) {
      const auto line = static_cast<u64>(std::countr_zero(mask));
      std::byte* const to = bytes_.data() + count_ * kLineBytes;
      std::memcpy(to, bytes + line * kLineBytes, kLineBytes);
      numbers_[count_] = page * kLinesPerPage + line;
      data_[count_++] = to;
    }
    return true;
  }
  bool flush() {
    const u64 count = std::exchange(count_, 0);
    return write_lines({numbers_.data(), count}, {data_.data(), count}, writer_);
  }

 private:
  static constexpr u64 kLines = 16 * kLinesPerPage;
  log::VersionWriter& writer_;
  AlignedBuffer bytes_;
  u64 count_ = 0;
  std::array<u64, kLines> numbers_;
  std::array<const std::byte*, kLines> data_;
};

}  // namespace

AsidePool::AsidePool(u64 unit_bytes)
    : unit_bytes_(unit_bytes),
      slots_(std::clamp<size_t>(kAsideBytes / unit_bytes, kAsideSlotsMin, kAsideSlotsMax)),
      taken_((slots_ + 63) / 64),
      ready_((slots_ + 63) / 64),
      units_(slots_) {
  for (size_t slot = slots_; slot % 64 != 0; ++slot) taken_[slot / 64] |= u64{1} << slot % 64;
}

Status AsidePool::reserve() {
  PERDURA_ASSIGN(memory_, Mapping::anonymous(slots_ * unit_bytes_));
  return {};
}

size_t AsidePool::claim() noexcept {
  for (size_t i = 0; i < taken_.size(); ++i) {
    u64 word = taken_[i].load(std::memory_order_relaxed);
    while (word != ~u64{0}) {
      const auto bit = static_cast<unsigned>(std::countr_one(word));
      if (taken_[i].compare_exchange_weak(word, word | u64{1} << bit, std::memory_order_acquire))
        return i * 64 + bit;
    }
  }
  return kNone;
}

void AsidePool::publish(size_t slot, u64 unit) noexcept {
  units_[slot] = unit;
  ready_[slot / 64].fetch_or(u64{1} << slot % 64, std::memory_order_release);
}

void AsidePool::release(size_t slot) noexcept {
  taken_[slot / 64].fetch_and(~(u64{1} << slot % 64), std::memory_order_release);
}

size_t AsidePool::take() noexcept {
  for (size_t i = 0; i < ready_.size(); ++i) {
    const u64 word = ready_[i].load(std::memory_order_acquire);
    if (word == 0) continue;
    const auto bit = static_cast<unsigned>(std::countr_zero(word));
    ready_[i].fetch_and(~(u64{1} << bit), std::memory_order_relaxed);
    return i * 64 + bit;
  }
  return kNone;
}

Result<std::unique_ptr<UnitSnapshot>> UnitSnapshot::create(track::Tracker& tracker,
                                                           const region::Region& region,
                                                           u64 unit_bytes) {
  std::unique_ptr<UnitSnapshot> made(new UnitSnapshot(tracker, region.base(), unit_bytes));
  PERDURA_ASSIGN(made->states_, Mapping::anonymous(region.limit() / unit_bytes));
  PERDURA_TRY(made->aside_.reserve());
  tracker.set_guard(made.get());
  return made;
}

Result<bool> UnitSnapshot::open() {
  PERDURA_ASSERT(listed_.empty());  // the one before was closed
  side_copies_ = 0;
  listed_ = units_of(tracker_.collect(), unit_bytes_);
  for (const u64 unit : listed_) state(unit).store(kPending, std::memory_order_relaxed);
  return true;
}

void UnitSnapshot::before_store(const std::byte* begin, const std::byte* end) noexcept {
  const u64 last = (static_cast<u64>(end - base_) - 1) / unit_bytes_;
  for (u64 unit = static_cast<u64>(begin - base_) / unit_bytes_; unit <= last; ++unit) {
    u8 seen = state(unit).load(std::memory_order_acquire);
    while (seen != kIdle) {
      const size_t slot = seen == kPending ? aside_.claim() : AsidePool::kNone;
      if (slot == AsidePool::kNone) {
        give_way();
      } else if (state(unit).compare_exchange_strong(seen, kCopying, std::memory_order_acq_rel)) {
        track::copy_racing(aside_.bytes(slot), address(unit), unit_bytes_);
        aside_.publish(slot, unit);
        state(unit).store(kIdle, std::memory_order_release);
      } else {
        aside_.release(slot);
      }
      seen = state(unit).load(std::memory_order_acquire);
    }
  }
}

// So that who waits for a place gets one.
Status UnitSnapshot::take_aside(const Take& take) {
  for (size_t slot = aside_.take(); slot != AsidePool::kNone; slot = aside_.take()) {
    ++side_copies_;
    const Status taken = guarded([&] { return take(aside_.unit_in(slot), aside_.bytes(slot)); });
    aside_.release(slot);
    PERDURA_TRY(taken);
  }
  return {};
}

Status UnitSnapshot::take_all(const Take& take) {
  // Page protection keeps stores away, which ThreadSanitizer does not see.
  AlignedBuffer unseen(track::kRacingReadsAllowed ? 0 : unit_bytes_);
  u64 captured = 0;
  for (const u64 unit : listed_) {
    PERDURA_TRY(take_aside(take));
    u8 seen = kPending;
    if (!state(unit).compare_exchange_strong(seen, kCopying, std::memory_order_acq_rel)) continue;
    ++captured;
    const std::byte* bytes = address(unit);
    if (!track::kRacingReadsAllowed) {
      track::copy_racing(unseen.data(), bytes, unit_bytes_);
      bytes = unseen.data();
    }
    const Status taken = guarded([&] { return take(unit, bytes); });
    state(unit).store(kIdle, std::memory_order_release);
    PERDURA_TRY(taken);
  }
  while (captured + side_copies_ != listed_.size()) {
    give_way();
    PERDURA_TRY(take_aside(take));
  }
  return {};
}

// They are listed since it was opened.
Status UnitSnapshot::write_units(std::span<const u64> units, const Take& take) {
  PERDURA_ASSERT(units.size() == listed_.size());
  return take_all(take);
}

Status UnitSnapshot::write_pages(const track::DirtyMap& changes, PageSink& sink) {
  PERDURA_ASSERT(unit_bytes_ == kPageBytes);
  return take_all([&](u64 page, const std::byte* bytes) {
    return sink.take(page, changes.page_mask(page), bytes);
  });
}

Status UnitSnapshot::write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                                 Trimmer* trimmer) {
  LineBatch batch(writer);
  const u64 pages = unit_bytes_ / kPageBytes;
  const Status taken = take_all([&](u64 unit, const std::byte* bytes) -> Status {
    for (u64 i = 0; i < pages; ++i) {
      const u64 page = unit * pages + i;
      const std::byte* const from = bytes + i * kPageBytes;
      u64 mask = changes.page_mask(page);
      if (mask != 0 && trimmer != nullptr) mask = trimmer->changed(from, page, mask);
      if (!batch.add(page, mask, from)) return writer.finish();
    }
    return {};
  });
  PERDURA_TRY(taken);
  return batch.flush() ? Status{} : writer.finish();
}

// Whatever is left: nobody waits, and nothing is copied aside any more.
void UnitSnapshot::close() noexcept {
  for (const u64 unit : listed_) {
    u8 seen = kPending;
    while (!state(unit).compare_exchange_weak(seen, kIdle, std::memory_order_acq_rel) &&
           seen != kIdle) {
      give_way();
      seen = kPending;
    }
  }
  listed_.clear();
  for (size_t slot = aside_.take(); slot != AsidePool::kNone; slot = aside_.take())
    aside_.release(slot);
}

}  // namespace perdura::commit
