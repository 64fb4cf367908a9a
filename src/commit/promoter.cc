#include "commit/promoter.hpp"

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/mapping.hpp"
#include "base/spin.hpp"

namespace perdura::commit {
namespace {

using region::kHugeBytes;

// Other threads may be storing meanwhile. A part that waits for recovery is recovered by the touch.
void copy_chunk(std::byte* to, const std::byte* from) { track::copy_racing(to, from, kHugeBytes); }

}  // namespace

Promoter::Promoter(region::Region& region, track::Mutators& mutators, track::ClosedParts* closed)
    : region_(region), mutators_(mutators), closed_(closed) {
  const auto home = region.home();
  if (!region.has_huge_pages() || !region.has_views() || home->extents().empty() ||
      !huge_pages_available())
    return;
  states_ = std::vector<std::atomic<u8>>(region.limit() / kHugeBytes);
  for (const format::Extent& extent : home->extents()) {
    const u64 end = extent.region_offset + extent.length;
    for (u64 chunk = extent.region_offset / kHugeBytes; chunk * kHugeBytes < end; ++chunk)
      if (chunk < states_.size() && states_[chunk].exchange(kView) != kView) ++views_;
  }
}

void Promoter::note(const track::DirtyMap& changes) {
  constexpr u64 kGroups = kHugeBytes / track::DirtyMap::kGroupBytes;
  std::lock_guard lock(mutex_);
  if (views_ == 0) return;
  for (u64 group = 0, end = changes.groups(); group < end; ++group) {
    const u64 chunk = group / kGroups;
    if (chunk >= states_.size() || states_[chunk] != kView || !changes.has_group(group)) continue;
    try {
      waiting_.push_back(chunk);
    } catch (const std::bad_alloc&) {
      return;  // a later change is noted again
    }
    states_[chunk] = kWaiting;
    --views_;
  }
}

bool Promoter::pending() const {
  std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

// A chunk that cannot be promoted stays a view, which is as good but for its speed.
std::optional<u64> Promoter::promote_next() {
  u64 chunk = 0;
  {
    std::lock_guard lock(mutex_);
    PERDURA_ASSERT(!waiting_.empty());  // pending() said so, and nobody else takes any
    chunk = waiting_.front();
    waiting_.pop_front();
  }
  if (!watch_) {
    auto watch =
        region::FaultWatch::create(region_.base(), region_.base() + region_.limit(), *this);
    if (!watch) return {};
    watch_.emplace(std::move(*watch));
  }
  const u64 offset = chunk * kHugeBytes;
  // One that is damaged stays closed, and what is beside it a view.
  std::byte* const begin_of = region_.base() + offset;
  if (closed_ != nullptr && !closed_->open_all(begin_of, begin_of + kHugeBytes)) return {};
  auto page = region_.prepare_huge(offset);
  if (!page) return {};
  // Once before, for recovery and to warm the caches: the second time is quick.
  copy_chunk(page->as(), region_.base() + offset);
  const u64 begin = mutators_.stop();
  states_[chunk] = kMoving;
  region_.promote(offset, std::move(*page), copy_chunk);
  states_[chunk] = kMoved;
  mutators_.resume();
  return now_ns() - begin;
}

// A chunk that has moved may be stored to: the store is tried again.
bool Promoter::on_fault(const region::Fault& fault) noexcept {
  const u64 chunk = region_.offset_of(fault.address) / kHugeBytes;
  if (fault.is_bus || !fault.is_store || chunk >= states_.size()) return false;
  await_soon([&] { return states_[chunk].load(std::memory_order_acquire) != kMoving; });
  return states_[chunk].load(std::memory_order_acquire) == kMoved &&
         region_.reopen(chunk * kHugeBytes);
}

}  // namespace perdura::commit
