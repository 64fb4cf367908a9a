#include "commit/last_pages.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/memory_limit.hpp"
#include "region/region.hpp"

namespace perdura::commit {
namespace {

// Memory is taken by the huge page, where the system has these.
using region::kHugeBytes;

constexpr u64 kCopiesShare = 16;  ///< of the process's memory one part

}  // namespace

Result<std::unique_ptr<LastPages>> LastPages::create(u64 region_bytes, u64 memory_max) {
  const u64 pages = region_bytes / kPageBytes;
  const u64 wanted = memory_max != 0 ? memory_max : memory_limit() / kCopiesShare;
  const u64 most = u64{std::numeric_limits<Place>::max() - kFirstCopy} * kPageBytes;
  const u64 bytes = round_up(std::min({wanted, region_bytes, most}), kHugeBytes);
  PERDURA_ASSIGN(Mapping places, Mapping::anonymous(pages * sizeof(Place)));
  PERDURA_ASSIGN(Mapping memory, Mapping::aligned(bytes, kHugeBytes));
  PERDURA_ASSIGN(Mapping copies, Mapping::anonymous(bytes / kPageBytes * sizeof(Copy)));
  ::madvise(memory.as(), memory.length(), MADV_HUGEPAGE);
  return std::unique_ptr<LastPages>(
      new LastPages(std::move(places), std::move(memory), std::move(copies)));
}

std::byte* LastPages::find(u64 page) noexcept {
  const Place here = place(page);
  if (here < kFirstCopy) return nullptr;
  copy(here - kFirstCopy).is_recent = true;
  return bytes_of(here - kFirstCopy);
}

void LastPages::offer(u64 page, const std::byte* bytes) noexcept {
  Place& here = place(page);
  if (here == kNeverChanged) {
    here = kChangedOnce;
    return;
  }
  if (used_ == ready_ && !take_memory() && used_ == 0) return;
  const u64 i = used_ < ready_ ? used_++ : give_up_one();
  copy(i) = {page, false};
  std::memcpy(bytes_of(i), bytes, kPageBytes);
  here = static_cast<Place>(kFirstCopy + i);
}

bool LastPages::take_memory() noexcept {
  if (ready_ * kPageBytes == bytes_.length() || !populate(bytes_of(ready_), kHugeBytes))
    return false;
  ready_ += kHugeBytes / kPageBytes;
  return true;
}

// Of a page that has not changed since the hand was there last.
u64 LastPages::give_up_one() noexcept {
  for (;;) {
    const u64 i = std::exchange(hand_, (hand_ + 1) % used_);
    if (std::exchange(copy(i).is_recent, false)) continue;
    place(copy(i).page) = kChangedOnce;
    return i;
  }
}

void LastPages::forget() noexcept {
  for (u64 i = 0; i < used_; ++i) place(copy(i).page) = kChangedOnce;
  used_ = hand_ = 0;
}

}  // namespace perdura::commit
