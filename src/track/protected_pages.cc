#include "track/protected_pages.hpp"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/mutant.hpp"
#include "base/spin.hpp"
#include "track/userfault.hpp"

namespace perdura::track {

Result<std::unique_ptr<ProtectedPages>> ProtectedPages::create(std::byte* region_base,
                                                               u64 region_bytes, Tracking mode,
                                                               Memory memory, u64 chunk_bytes) {
  UniqueFd userfault;
  if (mode == Tracking::kSigbus) {
    PERDURA_ASSIGN(userfault, open_userfault());
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
    if (memory != Memory::kShared) api.features |= kFeatureWpUnpopulated;
    if (memory == Memory::kShared) api.features |= UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
    if (::ioctl(userfault.get(), UFFDIO_API, &api) != 0)
      return userfault_unsupported("userfaultfd has no write protection by SIGBUS here");
  }
  PERDURA_ASSIGN(DirtyMap a, DirtyMap::create(region_bytes));
  PERDURA_ASSIGN(DirtyMap b, DirtyMap::create(region_bytes));
  std::unique_ptr<ProtectedPages> tracker(new ProtectedPages(
      region_base, mode, memory, chunk_bytes, std::move(userfault), std::move(a), std::move(b)));
  PERDURA_ASSIGN(region::FaultWatch watch,
                 region::FaultWatch::create(region_base, region_base + region_bytes, *tracker));
  tracker->watch_.emplace(std::move(watch));
  return tracker;
}

ProtectedPages::ProtectedPages(std::byte* base, Tracking mode, Memory memory, u64 chunk_bytes,
                               UniqueFd userfault, DirtyMap a, DirtyMap b)
    : base_(base),
      mode_(mode),
      memory_(memory),
      first_chunk_bytes_(memory == Memory::kShared ? kPageBytes : chunk_bytes),
      userfault_(std::move(userfault)),
      maps_{std::move(a), std::move(b)},
      parts_(std::make_unique<Listed[]>(kPartsMax)) {}

Status ProtectedPages::protect(std::byte* address, u64 length) const {
  if (set_protected(address, length, true)) return {};
  return system_failure(errno, "cannot write-protect the region");
}

bool ProtectedPages::set_protected(std::byte* address, u64 length, bool on) const noexcept {
  if (mode_ == Tracking::kProtect)
    return ::mprotect(address, length, on ? PROT_READ : PROT_READ | PROT_WRITE) == 0;
  uffdio_writeprotect request{};
  request.range.start = reinterpret_cast<std::uintptr_t>(address);
  request.range.len = length;
  request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  return ::ioctl(userfault_.get(), UFFDIO_WRITEPROTECT, &request) == 0;
}

bool ProtectedPages::open(std::byte* address, u64 length) const noexcept {
  if (StoreGuard* const guard = guard_.load(std::memory_order_acquire); guard != nullptr)
    guard->before_store(address, address + length);
  return set_protected(address, length, false);
}

Status ProtectedPages::backed(std::span<const Part> parts) {
  std::lock_guard lock(mutex_);
  if (part_count_ + parts.size() > kPartsMax)
    return Failure{Code::kNoSpace, "the region grew in too many pieces for this tracker"};
  for (const Part& part : parts) {
    if (mode_ == Tracking::kSigbus)
      PERDURA_TRY(register_write_protect(userfault_.get(), part.address, part.length));
    PERDURA_TRY(protect(part.address, part.length));
  }
  // Last: a part that is listed must stay one that can be protected.
  for (const Part& part : parts) list(part);
  return {};
}

void ProtectedPages::list(const Part& part) {
  // Older kernels protect no range of several mappings by userfaultfd; those of an alias are one.
  const bool grows = mode_ == Tracking::kProtect || memory_ == Memory::kShared;
  const size_t count = part_count_.load();
  size_t i = grows ? 0 : count;
  while (i < count && parts_[i].address + parts_[i].length != part.address) ++i;
  if (i == count) parts_[i].address = part.address;
  parts_[i].length.fetch_add(part.length, std::memory_order_release);
  if (i == count) part_count_.store(count + 1, std::memory_order_release);
}

Status ProtectedPages::add_changes(DirtyMap& into) {
  into.merge(maps_[filling_.load()]);
  return {};
}

Status ProtectedPages::cut() {
  std::lock_guard lock(mutex_);
  const int ended = filling_.fetch_xor(1);
  await_soon([&] { return answering_[ended].load() == 0; });
  faults_ = 0;
  return protect_opened(maps_[ended]);
}

// What was opened is in the map. Where that is many ranges, whole parts take fewer calls; but not
// while something is closed, which they would open.
Status ProtectedPages::protect_opened(const DirtyMap& map) const {
  std::vector<Part> ranges;
  const ClosedParts* const closed = closed_.load();
  const bool any_number = closed != nullptr && !closed->done();
  map.for_each_page([&](u64 page, u64) {
    std::byte* const address = base_ + page * kPageBytes;
    if (!ranges.empty() && ranges.back().address + ranges.back().length == address)
      ranges.back().length += kPageBytes;
    else if (any_number || ranges.size() <= kRangesMax) ranges.push_back({address, kPageBytes});
  });
  if (any_number || ranges.size() <= kRangesMax) {
    for (const Part& range : ranges) PERDURA_TRY(protect(range.address, range.length));
    return {};
  }
  for (size_t i = 0, count = part_count_.load(); i < count; ++i)
    PERDURA_TRY(protect(parts_[i].address, parts_[i].length));
  return {};
}

Status ProtectedPages::before_fill(std::byte* address, u64 length) {
  if (mode_ == Tracking::kProtect || set_protected(address, length, false)) return {};
  return system_failure(errno, "cannot write to a part of the region");
}

Status ProtectedPages::after_fill(std::byte* address, u64 length) {
  return mode_ == Tracking::kProtect ? Status{} : protect(address, length);
}

int ProtectedPages::protection() const {
  return mode_ == Tracking::kProtect ? PROT_READ : PROT_READ | PROT_WRITE;
}

bool ProtectedPages::set_closed(ClosedParts* parts) {
  closed_.store(parts, std::memory_order_release);
  return true;
}

void ProtectedPages::settle(bool durable) {
  const int running = filling_.load();
  if (!durable) maps_[running].merge(maps_[running ^ 1]);
  maps_[running ^ 1].clear();
}

u64 ProtectedPages::chunk_bytes(u64 faults) const noexcept {
  const bool grows = mode_ == Tracking::kProtect || memory_ != Memory::kShared;
  const u64 doublings = grows ? std::min<u64>(faults / kFaultsPerDoubling, 32) : 0;
  return std::min(first_chunk_bytes_ << doublings, kChunkBytesMax);
}

// Loads, and stores of the other kind, fault in closed parts alone: in one that was opened
// meanwhile they are tried again.
bool ProtectedPages::on_fault(const region::Fault& fault) noexcept {
  ClosedParts* const closed = closed_.load(std::memory_order_acquire);
  if (closed != nullptr && !fault.is_bus) {
    const ClosedParts::Answer closing = closed->on_access(fault.address);
    if (closing != ClosedParts::Answer::kOpen) return closing == ClosedParts::Answer::kOpened;
  }
  if (!fault.is_store || fault.is_bus != (mode_ == Tracking::kSigbus))
    return closed != nullptr && !fault.is_bus;
  return in_epoch([&](DirtyMap& map) {
    const u64 faults = faults_.fetch_add(1, std::memory_order_relaxed);
    // More than what was asked for is not worth waiting for.
    const u64 chunk = chunk_bytes(closed == nullptr || closed->done() ? faults : 0);
    std::byte* const begin = base_ + round_down(static_cast<u64>(fault.address - base_), chunk);
    return mark_and_open(fault.address, begin, begin + chunk, map);
  });
}

// What stays closed is for faults.
void ProtectedPages::before_stores(std::byte* address, u64 length) {
  if (closed_.load(std::memory_order_acquire) != nullptr) return;
  in_epoch([&](DirtyMap& map) { return mark_and_open(address, address, address + length, map); });
}

template <class Open>
bool ProtectedPages::in_epoch(const Open& open) noexcept {
  for (;;) {
    const int epoch = filling_.load();
    answering_[epoch].fetch_add(1);
    const bool still = filling_.load() == epoch;
    const bool good = still && open(maps_[epoch]);
    answering_[epoch].fetch_sub(1);
    if (still) return good;
  }
}

bool ProtectedPages::mark_and_open(const std::byte* address, std::byte* begin, std::byte* end,
                                   DirtyMap& map) noexcept {
  for (size_t i = 0, count = part_count_.load(std::memory_order_acquire); i < count; ++i) {
    std::byte* const part = parts_[i].address;
    const u64 length = parts_[i].length.load(std::memory_order_acquire);
    if (address < part || address >= part + length) continue;
    begin = std::max(begin, part);
    end = std::min(end, part + length);
    // What was not filled yet would be open as well, with what it held before. Where some of it
    // cannot be filled, as damage, the page is opened that is stored to, and it alone.
    ClosedParts* const closed = closed_.load(std::memory_order_acquire);
    if (closed != nullptr && !is_mutant("opens_unfilled_parts") && !closed->open_all(begin, end)) {
      begin += round_down(static_cast<u64>(address - begin), kPageBytes);
      end = begin + kPageBytes;
      if (!closed->open_all(begin, end)) return false;
    }
    // Marked before it opens: another thread may store as soon as it does.
    map.add_shared(static_cast<u64>(begin - base_) / kLineBytes,
                   static_cast<u64>(end - begin) / kLineBytes);
    if (open(begin, static_cast<u64>(end - begin))) return true;
    // The kernel may have no room for another border; the whole part needs none.
    if (closed != nullptr && !closed->open_all(part, part + length)) return false;
    map.add_shared(static_cast<u64>(part - base_) / kLineBytes, length / kLineBytes);
    return open(part, length);
  }
  return false;
}

}  // namespace perdura::track
