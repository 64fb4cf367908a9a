#include "log/space.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "log/block.hpp"

namespace perdura::log {
namespace {

constexpr u64 kGrowthBytesMax = 16 * kMiB;
/// Less is taken in no time.
constexpr u64 kAheadBytesMin = 2 * kMiB;

}  // namespace

Space::Space(region::Volume& volume, u32 region, u64 limit_bytes)
    : volume_(volume),
      region_(region),
      limit_bytes_(limit_bytes),
      segment_bytes_(volume.segment_bytes()),
      session_(volume.superblock().session),
      lines_of_segment_(lines_of_segment(segment_bytes_)),
      kept_for_versions_(std::clamp<u64>(limit_bytes / volume.segment_bytes() / 4, 1, 2)) {
  for (const format::Extent& extent : volume.extents(format::ExtentKind::kLog, region))
    for (u64 at = 0; at + segment_bytes_ <= extent.length; at += segment_bytes_)
      segments_.push_back(Segment{.offset = extent.medium_offset + at});
  next_generation_ = std::max<u64>(1, volume.state(region).live_generation);
}

void Space::adopt(u64 offset, u64 generation, u64 version_max) {
  std::lock_guard lock(mutex_);
  next_generation_ = std::max(next_generation_, generation + 1);
  for (Segment& segment : segments_) {
    if (segment.offset != offset) continue;
    PERDURA_ASSERT(!segment.owned);
    segment.generation = generation;
    segment.version_max = std::max(segment.version_max, version_max);
    segment.live = version_max != 0;
    segment.has_transactions = version_max == kHeld;
    has_transactions_ = has_transactions_ || segment.has_transactions;
  }
}

void Space::free_held(u64 version, std::span<const u64> needed) {
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_)
    if (segment.version_max == kHeld && !std::ranges::binary_search(needed, segment.offset))
      segment.version_max = version;
}

// Whoever reads them before they are used again finds the same, and takes it for the same.
void Space::free_torn(u64 durable, u64 replayed) {
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_) {
    PERDURA_ASSERT(!segment.owned || segment.has_transactions);
    if (segment.has_transactions || segment.version_max <= durable) continue;
    segment.version_max = durable;  // of which it may have blocks as well
    segment.live = segment.live && durable > replayed && segment.version_min <= durable;
  }
}

u64 Space::free_segments() const {
  return static_cast<u64>(std::count_if(segments_.begin(), segments_.end(),
                                        [](const Segment& each) { return !each.live; }));
}

u64 Space::lines_in(u64 segments) const {
  const u64 lines = segments * lines_of_segment_;
  return lines - std::min(lines, kLinesOfEnd);
}

u64 Space::segments_for(u64 lines) const {
  return (lines + kLinesOfEnd + lines_of_segment_ - 1) / lines_of_segment_;
}

bool Space::fits(u64 lines) const {
  std::lock_guard lock(mutex_);
  return segments_for(lines) <= free_segments();
}

Status Space::make_room(u64 lines) {
  std::unique_lock lock(mutex_);
  PERDURA_TRY(have_free(lock, segments_for(lines)));
  is_short_ = false;
  return {};
}

Status Space::reserve(u64 lines) {
  std::unique_lock lock(mutex_);
  const u64 wanted = std::max(kept_for_versions_, segments_for(lines));
  has_transactions_ = true;
  PERDURA_TRY(have_free(lock, wanted));
  kept_for_versions_ = std::max(kept_for_versions_, wanted);
  reserved_lines_ = lines_in(kept_for_versions_);
  return {};
}

void Space::on_shortage(std::function<bool()> relieve) {
  std::lock_guard lock(mutex_);
  relieve_ = std::move(relieve);
}

void Space::on_scarcity(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

// Growth is by half, so that an eighth is left when three quarters of the last one are used.
bool Space::is_scarce() const {
  const u64 growth = growth_bytes();
  const u64 spare = 1 + segments_.size() / 8 + (has_transactions_ ? kept_for_versions_ : 0);
  return growth >= kAheadBytesMin && free_segments() < spare &&
         segments_.size() * segment_bytes_ + growth <= limit_bytes_;
}

void Space::grow_ahead() {
  std::unique_lock lock(mutex_);
  if (growing_ || !is_scarce()) return;
  const Status grown = guarded([&] { return grow(lock, false); });
  (void)grown;  // woken_ stays, so that nobody tries again before somebody needs it
}

// Not under the lock: what brings versions home gives their segments back.
Status Space::have_free(std::unique_lock<std::mutex>& lock, u64 segments) {
  bool relieved = false;
  while (free_segments() < segments) {
    Status grown = grow(lock, true);
    is_short_ = !grown && grown.failure().code == Code::kNoSpace;
    if (grown) continue;
    if (!is_short_ || relieved || !relieve_) return grown;
    relieved = true;
    const std::function<bool()> relieve = relieve_;
    lock.unlock();
    const bool any = relieve();
    lock.lock();
    if (!any) return grown;
  }
  return {};
}

Result<Space::Place> Space::take(Content content, u64 version) {
  const bool for_transactions = content == Content::kTransactions;
  std::unique_lock lock(mutex_);
  const std::function<void()> wake = wake_;  // nothing may fail once the segment is the caller's
  has_transactions_ = has_transactions_ || for_transactions;
  // More may be kept by the time that there is space.
  const auto wanted = [&] { return 1 + (for_transactions ? kept_for_versions_ : 0); };
  do {
    PERDURA_TRY(have_free(lock, wanted()));
  } while (free_segments() < wanted());
  const auto segment = std::find_if(segments_.begin(), segments_.end(),
                                    [](const Segment& each) { return !each.live; });
  segment->generation = next_generation_++;
  segment->version_max = segment->version_min = version;
  segment->live = segment->owned = true;
  segment->has_transactions = for_transactions;
  const Place place{segment->offset,
                    {session_, segment->generation},
                    static_cast<u32>(segment - segments_.begin())};
  if (wake && !woken_ && !growing_ && is_scarce()) {
    woken_ = true;
    lock.unlock();
    wake();
  }
  return place;
}

// By half, so that a growing store asks rarely.
u64 Space::growth_bytes() const {
  const u64 capacity = segments_.size() * segment_bytes_;
  return std::clamp<u64>(round_up(capacity / 2, segment_bytes_), segment_bytes_, kGrowthBytesMax);
}

// One segment where that is needed and space is short. At least one is free then, or was when
// somebody else had grown it, for whom this waits. Without the lock: what others append to and give
// back meanwhile is theirs already.
Status Space::grow(std::unique_lock<std::mutex>& lock, bool in_need) {
  if (growing_) {
    grown_.wait(lock, [this] { return !growing_; });
    return {};
  }
  u64 length = growth_bytes();
  segments_.reserve(segments_.size() + length / segment_bytes_);
  growing_ = true;
  lock.unlock();
  auto extent = guarded([&] { return volume_.allocate_log(region_, length); });
  if (!extent && in_need && extent.failure().code == Code::kNoSpace && length > segment_bytes_) {
    length = segment_bytes_;
    extent = guarded([&] { return volume_.allocate_log(region_, length); });
  }
  lock.lock();
  growing_ = false;
  grown_.notify_all();
  if (!extent) return extent.failure();
  woken_ = false;
  for (u64 at = 0; at < length; at += segment_bytes_)
    segments_.push_back(Segment{.offset = extent->medium_offset + at});
  return {};
}

void Space::note_version(u32 index, u64 version) {
  std::lock_guard lock(mutex_);
  segments_[index].version_max = version;
}

void Space::release(u32 index) {
  std::lock_guard lock(mutex_);
  segments_[index].owned = false;
}

u64 Space::live_generation_after(u64 replayed) const {
  std::lock_guard lock(mutex_);
  u64 lowest = next_generation_;
  for (const Segment& segment : segments_)
    if (segment.owned || (segment.live && segment.version_max > replayed))
      lowest = std::min(lowest, segment.generation);
  return lowest;
}

u64 Space::live_generation_at_end() const {
  std::lock_guard lock(mutex_);
  return next_generation_;
}

void Space::recycle(u64 replayed) {
  std::lock_guard lock(mutex_);
  free_segments_until(replayed);
}

void Space::retire(u64 replayed) {
  std::lock_guard lock(mutex_);
  free_segments_until(replayed);
  give_back();
}

void Space::free_segments_until(u64 replayed) {
  for (Segment& segment : segments_)
    if (segment.live && !segment.owned && segment.version_max <= replayed) segment.live = false;
}

// Only the youngest segments leave: a place held by a writer is an index. What is kept for versions
// stays, since on a full medium it may not be had again; recovery, which does not know how much of
// it the transactions need that it found, gives nothing back before it has repeated them. A failure
// may have reached the medium all the same, so these segments are not used again; where they are
// still in the directory the next opening finds them.
void Space::give_back() {
  const bool recovers = std::any_of(segments_.begin(), segments_.end(), [](const Segment& each) {
    return each.live && each.version_max == kHeld;
  });
  if (recovers) return;
  u64 free = free_segments();
  const u64 kept = has_transactions_ ? kept_for_versions_ : 0;
  const auto leaves = [&] {
    return segments_.size() * segment_bytes_ > limit_bytes_ && !segments_.back().live &&
           free > kept;
  };
  while (leaves()) {
    u64 begin = segments_.back().offset;
    u64 length = segment_bytes_;
    segments_.pop_back();
    --free;
    // Neighbours leave together: each removal writes the directory.
    while (leaves() && segments_.back().offset + segment_bytes_ == begin) {
      begin -= segment_bytes_;
      length += segment_bytes_;
      segments_.pop_back();
      --free;
    }
    if (!guarded([&] { return volume_.release_log(begin, length); })) return;
  }
}

u64 Space::capacity_bytes() const {
  std::lock_guard lock(mutex_);
  return segments_.size() * segment_bytes_;
}

u64 Space::transaction_bytes(u64 version) const {
  std::lock_guard lock(mutex_);
  const auto count = std::count_if(segments_.begin(), segments_.end(), [&](const Segment& each) {
    return each.live && !each.owned && each.has_transactions && each.version_max <= version;
  });
  return static_cast<u64>(count) * segment_bytes_;
}

}  // namespace perdura::log
