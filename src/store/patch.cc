#include "store/patch.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace perdura::store {
namespace {

// Patching fewer pages at once is quicker than faults.
constexpr u64 kEagerPages = 64;
constexpr u64 kChunkBytesMin = 256 * kKiB;
constexpr u64 kChunksMax = 8192;  // each may split the kernel's map of the process twice

}  // namespace

Result<std::unique_ptr<Patch>> Patch::create(commit::RecoveredLog recovered, u64 region_bytes,
                                             std::vector<commit::LoggedVersion>& versions) {
  PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(region_bytes));
  PERDURA_TRY(index.add(recovered));
  versions = std::move(recovered.versions);
  return std::unique_ptr<Patch>(new Patch(std::move(recovered.image), std::move(index)));
}

Patch::~Patch() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

Status Patch::check_places() const {
  Status status;
  index_->lines().for_each_page([&](u64 page, u64) {
    if (status && home_->find(page * kPageBytes) == nullptr)
      status = Failure{Code::kCorrupt, "the log changes region offset " +
                                           std::to_string(page * kPageBytes) +
                                           ", which has no place on the medium; restore the store "
                                           "from a copy"};
  });
  return status;
}

Status Patch::apply_all(region::Region& region) {
  home_ = region.home();
  PERDURA_TRY(check_places());
  index_->lines().for_each_page([&](u64 page, u64) {
    std::byte* const bytes = region.base() + page * kPageBytes;
    index_->for_each_line(page, [bytes](u64 line, const std::byte* from) {
      std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
    });
  });
  return {};
}

Status Patch::apply_lazily(region::Region& region, track::Tracker& tracker) {
  u64 pages = 0;
  u64 last_page = 0;
  index_->lines().for_each_page([&](u64 page, u64) {
    ++pages;
    last_page = page;
  });
  auto memory = media::SelfMemory::open();
  if (pages <= kEagerPages || !tracker.can_forget() || !memory) return apply_all(region);
  memory_.emplace(std::move(*memory));
  home_ = region.home();
  PERDURA_TRY(check_places());
  base_ = region.base();
  tracker_ = &tracker;
  const u64 bytes = (last_page + 1) * kPageBytes;
  chunk_bytes_ = kChunkBytesMin;
  while (bytes / chunk_bytes_ > kChunksMax) chunk_bytes_ *= 2;
  states_ = std::vector<std::atomic<u8>>(bytes / chunk_bytes_ + 1);
  index_->lines().for_each_page([&](u64 page, u64) {
    std::atomic<u8>& state = states_[page * kPageBytes / chunk_bytes_];
    if (state.exchange(kClosed) == kPlain) remaining_.fetch_add(1);
  });
  PERDURA_ASSIGN(region::FaultWatch watch,
                 region::FaultWatch::create(base_, base_ + states_.size() * chunk_bytes_, *this));
  watch_.emplace(std::move(watch));
  PERDURA_TRY(close_chunks());
  thread_ = std::thread([this] { patch_in_background(); });
  ::pthread_setname_np(thread_.native_handle(), "perdura-patch");
  return {};
}

// Calls visit(address, length) for the parts of [begin, end) of the region that have a home.
template <class Visit>
Status Patch::for_each_backed(u64 begin, u64 end, Visit&& visit) const {
  for (const format::Extent& extent : home_->extents()) {
    const u64 first = std::max(begin, extent.region_offset);
    const u64 last = std::min(end, extent.region_offset + extent.length);
    if (first < last) PERDURA_TRY(visit(base_ + first, last - first));
  }
  return {};
}

// Only the pages of the index need closing, but whole chunks keep the ranges few.
Status Patch::close_chunks() {
  for (u64 chunk = 0; chunk < states_.size();) {
    if (states_[chunk] != kClosed) {
      ++chunk;
      continue;
    }
    const u64 begin = chunk;
    while (chunk < states_.size() && states_[chunk] == kClosed) ++chunk;
    PERDURA_TRY(for_each_backed(
        begin * chunk_bytes_, chunk * chunk_bytes_, [](std::byte* address, u64 length) -> Status {
          if (::mprotect(address, length, PROT_NONE) == 0) return {};
          return system_failure(errno, "cannot close a part of the region for recovery");
        }));
  }
  return {};
}

bool Patch::patch_page(u64 page) noexcept {
  alignas(kLineBytes) std::byte bytes[kPageBytes];
  std::byte* const address = base_ + page * kPageBytes;
  if (index_->lines().page_mask(page) != ~u64{0} && !memory_->read(address, bytes)) return false;
  index_->for_each_line(page, [&bytes](u64 line, const std::byte* from) {
    std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
  });
  return memory_->write(address, bytes);
}

// Patch and open a closed chunk, or wait for the thread that does. What is open may have been
// stored to, so nothing is patched or forgotten once a part of the chunk is.
bool Patch::patch_chunk(u64 chunk) noexcept {
  std::atomic<u8>& state = states_[chunk];
  u8 seen = state.load(std::memory_order_acquire);
  while ((seen == kClosed || seen == kPatched) &&
         !state.compare_exchange_weak(seen, kPatching, std::memory_order_acq_rel)) {
  }
  if (seen != kClosed && seen != kPatched) {
    while (state.load(std::memory_order_acquire) == kPatching) ::sched_yield();
    return state.load(std::memory_order_acquire) == kOpen;
  }
  if (seen == kClosed && !patch_pages(chunk)) {
    state.store(kClosed, std::memory_order_release);
    return false;
  }
  const bool good = static_cast<bool>(
      for_each_backed(chunk * chunk_bytes_, (chunk + 1) * chunk_bytes_,
                      [](std::byte* address, u64 length) -> Status {
                        if (::mprotect(address, length, PROT_READ | PROT_WRITE) == 0) return {};
                        return Failure{};
                      }));
  // A chunk that could not be opened stays closed, and the access ends the program rather than
  // showing it old data.
  state.store(good ? kOpen : kPatched, std::memory_order_release);
  if (good) remaining_.fetch_sub(1, std::memory_order_acq_rel);
  return good;
}

bool Patch::patch_pages(u64 chunk) noexcept {
  const u64 first_page = chunk * chunk_bytes_ / kPageBytes;
  for (u64 page = first_page; page < first_page + chunk_bytes_ / kPageBytes; ++page)
    if (index_->lines().has_page(page) && !patch_page(page)) return false;
  // What was patched is durable in the log: no change of the program's.
  return static_cast<bool>(guarded([&] {
    return for_each_backed(
        chunk * chunk_bytes_, (chunk + 1) * chunk_bytes_,
        [this](std::byte* address, u64 length) { return tracker_->forget(address, length); });
  }));
}

bool Patch::on_fault(std::byte* address) noexcept {
  const u64 chunk = static_cast<u64>(address - base_) / chunk_bytes_;
  const u8 state = states_[chunk].load(std::memory_order_acquire);
  if (state == kPlain) return false;
  // Opened between the fault and now: try again.
  return state == kOpen || patch_chunk(chunk);
}

void Patch::patch_in_background() {
  for (u64 chunk = 0; chunk < states_.size() && !stopping_.load(std::memory_order_relaxed); ++chunk)
    if (states_[chunk].load(std::memory_order_acquire) == kClosed && !patch_chunk(chunk)) return;
  while (!done() && !stopping_.load(std::memory_order_relaxed)) ::sched_yield();
  if (!done()) return;
  // Faults find every chunk open from now on and look at the copies no more.
  index_->keep_only_lines();
  image_.reset();
}

}  // namespace perdura::store
