#include "track/reported.hpp"

#include <algorithm>
#include <bit>

namespace perdura::track {
namespace {
constexpr u64 kAddressMask = (u64{1} << detail::kReportLengthShift) - 1;
constexpr size_t kPrefetchAhead = 24;
constexpr std::ptrdiff_t kAheadStep = 4096;
constexpr std::ptrdiff_t kBacklog = 64 * 1024;
}  // namespace

Result<std::unique_ptr<Reported>> Reported::create(Mutators& mutators, std::byte* region_base,
                                                   u64 region_bytes, Tracking mode,
                                                   u32 granule_bytes) {
  PERDURA_ASSIGN(Window window, Window::create(region_base, region_bytes));
  PERDURA_ASSIGN(DirtyMap a, DirtyMap::create(region_bytes));
  PERDURA_ASSIGN(DirtyMap b, DirtyMap::create(region_bytes));
  return std::unique_ptr<Reported>(new Reported(mutators, region_base, region_bytes, mode,
                                                granule_bytes, std::move(window), std::move(a),
                                                std::move(b)));
}

Reported::Reported(Mutators& mutators, std::byte* base, u64 bytes, Tracking mode, u32 granule_bytes,
                   Window window, DirtyMap a, DirtyMap b)
    : mutators_(mutators),
      base_(base),
      bytes_(bytes),
      mode_(mode),
      granule_shift_(static_cast<unsigned>(std::countr_zero(granule_bytes))),
      window_(std::move(window)),
      maps_{std::move(a), std::move(b)} {
  mutators_.set_sink(this);
}

Reported::~Reported() { mutators_.set_sink(nullptr); }

// Calls add(first line, count) for every report, widened to granules.
template <class Add>
void Reported::fold(Range range, Add&& add) const {
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  const unsigned lines_shift = granule_shift_ - 6;
  for (const u64* at = range.begin; at != range.end; ++at) {
    const u64 offset = (*at & kAddressMask) - base;
    if (offset >= bytes_) continue;
    // Of a vector that is stored in part, the part that is not may lie behind the region.
    const u64 length = std::min(*at >> detail::kReportLengthShift, bytes_ - offset);
    if (length == 0) continue;
    const u64 first = offset >> granule_shift_;
    const u64 last = (offset + length - 1) >> granule_shift_;
    add(first << lines_shift, (last - first + 1) << lines_shift);
  }
}

void Reported::collect_ahead() {
  if (mode_ == Tracking::kBitmap) return;
  for (MutatorSlot* mutator : mutators_.snapshot())
    while (collect_step(*mutator)) {
    }
}

// A cut does not wait for the step that is under way, which may have lost its core: the reports
// belong to the epoch that was cut all the same, and collect() waits for them. True when there may
// be more to collect.
bool Reported::collect_step(MutatorSlot& mutator) {
  std::lock_guard lock(collecting_);
  const u64 cuts = cuts_.load(std::memory_order_acquire);
  u64* begin = mutator.collected.load(std::memory_order_acquire);
  u64* const cursor = std::atomic_ref(mutator.cursor).load(std::memory_order_acquire);
  DirtyMap& map = maps_[filling_.load(std::memory_order_acquire)];
  if (cuts % 2 != 0 || cuts_.load() != cuts) return true;  // these are not of one epoch
  u64* const end = std::min(cursor, begin + kAheadStep);
  add_all({begin, end}, map);
  const bool more = end == begin + kAheadStep;
  mutator.collected.compare_exchange_strong(begin, end);
  return more;
}

// Into a map that no other thread adds to.
void Reported::add_all(Range range, DirtyMap& map) const {
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  const u64* ahead = range.begin;
  fold(range, [&](u64 first, u64 count) {
    if (ahead + kPrefetchAhead < range.end) {
      const u64 offset = (ahead[kPrefetchAhead] & kAddressMask) - base;
      if (offset < bytes_) map.prefetch(offset / kLineBytes);
      ++ahead;
    }
    map.add(first, count);
  });
}

Status Reported::cut() {
  cut_.clear();
  cut_.reserve(mutators_.all().size());  // from here on nothing may fail
  cuts_.fetch_add(1);  // before anything that collect_step reads, and again after it
  overflowed_cut_ = overflowed_.exchange(false, std::memory_order_relaxed);
  for (const auto& mutator : mutators_.all()) {
    if (mutator->cursor == mutator->begin()) continue;
    cut_.push_back({mutator->collected, mutator->cursor});
    mutator->filling ^= 1;
    mutator->collected = mutator->begin();
    std::atomic_ref(mutator->cursor).store(mutator->begin(), std::memory_order_release);
    mutator->limit = nullptr;  // the first report finds the new end
  }
  filling_.store(filling_.load(std::memory_order_relaxed) ^ 1, std::memory_order_release);
  cuts_.fetch_add(1);
  return {};
}

const DirtyMap& Reported::collect() {
  DirtyMap& map = maps_[filling_.load(std::memory_order_relaxed) ^ 1];
  if (mode_ == Tracking::kBitmap) {
    return map;  // the bits are in it already; the lists say where
  }
  {
    std::lock_guard lock(collecting_);
  }  // a step that was under way at the cut has ended
  for (const Range& range : cut_) add_all(range, map);
  cut_.clear();
  return map;
}

void Reported::settle(bool durable) {
  const int running = filling_.load(std::memory_order_relaxed);
  DirtyMap& captured = maps_[running ^ 1];
  if (!durable) {
    collect();  // the attempt may have failed before it came to that
    std::lock_guard lock(collecting_);
    maps_[running].merge(captured);
    overflowed_.store(true, std::memory_order_relaxed);  // these lines are in no list any more
  }
  captured.clear();
}

void Reported::open_window() {
  for (const auto& mutator : mutators_.all()) {
    mutator->side->clear();
    mutator->limit = nullptr;
  }
  window_.open();
  window_open_.store(true, std::memory_order_release);
}

void Reported::close_window() {
  window_.finish();
  window_open_.store(false, std::memory_order_release);
}

// Reports come here while a window is open, for the first one after it and after a cut, when the
// buffer is full, and always in bitmap mode.
void Reported::report(MutatorSlot& mutator, const void* address, u64 length) noexcept {
  const u64 offset = static_cast<u64>(static_cast<const std::byte*>(address) - base_);
  if (length == 0 || offset >= bytes_) return;
  length = std::min(length, bytes_ - offset);
  const u64 first = offset / kLineBytes;
  const u64 count = (offset + length - 1) / kLineBytes - first + 1;
  if (window_open_.load(std::memory_order_acquire)) {
    window_.copy_aside(*mutator.side, first, count);
  } else if (mode_ != Tracking::kBitmap) {
    if (mutator.limit != nullptr && tell_backlog_) tell_backlog_();
    mutator.limit = std::min(mutator.end(), mutator.cursor + kBacklog);
  }
  if (mode_ == Tracking::kBitmap) {
    report_bits(mutator, first, count);
    return;
  }
  for (u64 at = offset; length != 0;) {
    const u64 piece = std::min<u64>(length, detail::kReportLengthMax);
    if (mutator.cursor == mutator.end()) fold_full(mutator);
    detail::append_report(mutator, base_ + at, piece);
    at += piece;
    length -= piece;
  }
}

void Reported::report_bits(MutatorSlot& mutator, u64 first, u64 count) {
  const unsigned lines_shift = granule_shift_ - 6;
  const u64 begin = round_down(first, u64{1} << lines_shift);
  const u64 end = round_up(first + count, u64{1} << lines_shift);
  DirtyMap& map = maps_[filling_.load(std::memory_order_relaxed)];
  for (u64 line = begin; line < end; ++line) {
    if (!map.add_first(line)) continue;
    if (mutator.cursor == mutator.end()) {
      overflowed_.store(true, std::memory_order_relaxed);
      mutator.cursor = mutator.begin();
    }
    *mutator.cursor++ = line;
  }
}

// More reports of one epoch than the buffer holds go to the shared map of that epoch, so memory
// stays bounded however rarely checkpoints are taken.
void Reported::fold_full(MutatorSlot& mutator) {
  std::lock_guard lock(collecting_);
  add_all({mutator.collected, mutator.cursor}, maps_[filling_.load(std::memory_order_relaxed)]);
  mutator.collected = mutator.begin();
  std::atomic_ref(mutator.cursor).store(mutator.begin(), std::memory_order_release);
}

}  // namespace perdura::track
