#include "region/region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "base/threads.hpp"

/// Of a program that ThreadSanitizer watches, also where it does not watch this library.
extern "C" void __tsan_init() __attribute__((weak));  // NOLINT(bugprone-reserved-identifier)

namespace perdura::region {
namespace {

using format::Extent;

// Free in 200 launches of programs of all kinds under address space randomisation: the first
// everywhere but under ThreadSanitizer and MemorySanitizer, the second under these as well. The
// first is where code that reports its stores by itself expects regions
// (track/compiled_reports.hpp); in the second are also globals and small blocks of malloc.
struct Window {
  u64 begin;
  u64 end;
};
constexpr Window kWindows[] = {{0x440000000000, 0x4f0000000000}, {0x550000000000, 0x555000000000}};
constexpr u64 kWindowStep = kGiB;
// Stores are spread over all of the first window, so that those of separate runs can mostly be open
// in one process. Larger regions take the first place that is free: there is room for few of them.
constexpr u64 kSpreadBytesMax = (kWindows[0].end - kWindows[0].begin) / 16;

/// At which of the places of a window the search for a free one begins.
u64 first_place(const Window& window, u64 limit_bytes, u64 places, u64 identity) {
  const bool is_spread = &window == &kWindows[0] && limit_bytes <= kSpreadBytesMax;
  return is_spread ? identity % places : 0;
}

constexpr u64 kLoadBytes = kMiB;

void prefer_huge(std::byte* address, u64 length) {
  ::madvise(address, length, MADV_HUGEPAGE);
  ::madvise(address, length, MADV_DONTFORK);
}

/// Memory that can be mapped several times; takes up RAM where it is stored to.
Result<UniqueFd> shareable_memory(u64 length) {
  UniqueFd memory(::memfd_create("perdura", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(length)) != 0)
    return system_failure(
        errno, "cannot make " + std::to_string(length) + " bytes of memory to map several times");
  // A mapped file that shrinks takes its pages away.
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return system_failure(errno, "cannot seal memory");
  return memory;
}

}  // namespace

Result<u64> Region::choose_address(u64 limit_bytes, const std::vector<format::RegionRecord>& others,
                                   u64 identity) {
  const auto meets = [&](u64 address) {
    return std::any_of(others.begin(), others.end(), [&](const format::RegionRecord& other) {
      return address < other.address + format::reserved_bytes(other) &&
             other.address < address + limit_bytes;
    });
  };
  for (const Window& window : kWindows) {
    if (__tsan_init != nullptr && &window == &kWindows[0]) continue;  // it ends who asks for these
    if (limit_bytes > window.end - window.begin) continue;
    const u64 step = round_up(limit_bytes, kWindowStep);
    const u64 places = (window.end - window.begin - limit_bytes) / step + 1;
    const u64 first = first_place(window, limit_bytes, places, identity);
    for (u64 i = 0; i < places; ++i) {
      const u64 address = window.begin + (first + i) % places * step;
      if (!meets(address) && Mapping::reserve(reinterpret_cast<void*>(address), limit_bytes))
        return address;
    }
  }
  return Failure{Code::kNoMemory, "no free address range of " + std::to_string(limit_bytes) +
                                      " bytes is left for a region; set a smaller "
                                      "region_limit_bytes, or region_address, or raise the limit "
                                      "of address space (ulimit -v)"};
}

// Reserves the recorded range, and makes what is backed accessible.
Result<std::unique_ptr<Region>> Region::map(Volume& volume, const format::RegionRecord& record,
                                            std::unique_ptr<Backing> backing) {
  if (record.limit_bytes == 0 || !is_aligned(record.limit_bytes | record.address, kPageBytes))
    return Failure{Code::kCorrupt,
                   "the directory of '" + volume.name() + "' holds an impossible region"};
  auto range =
      Mapping::reserve(reinterpret_cast<void*>(record.address), format::reserved_bytes(record));
  if (!range) {
    Failure failure = range.failure();
    failure.message = "cannot map the region of '" + volume.name() + "': " + failure.message;
    return failure;
  }
  UniqueFd memory;
  if (record.aliases != 0) {
    PERDURA_ASSIGN(memory, shareable_memory(record.limit_bytes));
  }
  PERDURA_ASSIGN(std::vector<Extent> parts, backing->parts());
  std::unique_ptr<Region> region(
      new Region(&volume, record, std::move(backing), std::move(*range), std::move(memory)));
  region->home_ = std::make_shared<const HomeMap>(std::move(parts));
  for (const Extent& extent : region->home_->extents()) {
    const bool has_home = region->backing_->has_home();
    PERDURA_TRY(has_home ? region->map_extent(extent) : region->map_new(extent));
    if (has_home && record.aliases != 0) PERDURA_TRY(region->load(extent));
  }
  return region;
}

Result<std::unique_ptr<Region>> Region::map(Volume& volume, const format::RegionRecord& record) {
  return map(volume, record, home_backing(volume, record));
}

Result<std::unique_ptr<Region>> Region::map_copy(Volume& volume, const format::RegionRecord& record,
                                                 u64 copy) {
  return map(volume, record, copy_backing(volume, record, copy));
}

Result<std::unique_ptr<Region>> Region::map_chunks(Volume& volume,
                                                   const format::RegionRecord& record,
                                                   ChunkSpace& space, u64 backed_bytes) {
  return map(volume, record, chunk_backing(space, record, backed_bytes));
}

Result<std::unique_ptr<Region>> Region::map_volatile(u64 limit_bytes) {
  format::RegionRecord record{};
  record.limit_bytes = limit_bytes;
  PERDURA_ASSIGN(Mapping range, Mapping::aligned(limit_bytes, kHugeBytes));
  record.address = reinterpret_cast<std::uintptr_t>(range.as());
  for (const Window& window : kWindows)
    if (record.address < window.end && record.address + limit_bytes > window.begin)
      return Failure{Code::kNoMemory, "the address range that is free is one for stores"};
  std::unique_ptr<Region> region(new Region(nullptr, record, no_backing(), std::move(range), {}));
  region->home_ = std::make_shared<const HomeMap>(std::vector<Extent>{});
  return region;
}

Region::Region(Volume* volume, format::RegionRecord record, std::unique_ptr<Backing> backing,
               Mapping range, UniqueFd memory)
    : volume_(volume),
      backing_(std::move(backing)),
      record_(record),
      range_(std::move(range)),
      base_(range_.as()),
      memory_(std::move(memory)),
      stride_(record.aliases == 0 ? 0 : format::alias_stride(record.limit_bytes)),
      offset_mask_(stride_ - 1),
      part_shift_(record.aliases == 0
                      ? 0
                      : static_cast<unsigned>(std::countr_zero(kPageBytes / record.aliases))),
      part_mask_(record.aliases == 0 ? 0 : record.aliases - 1) {}

// What is backed later says so by itself.
void Region::hide_from_children() { ::madvise(base_, range_.length(), MADV_DONTFORK); }

Status Region::map_extent(const Extent& extent) {
  if (aliases() != 0) return map_aliases(extent);
  return volume_->linear().map_home(base_ + extent.region_offset, extent.medium_offset,
                                    extent.length);
}

// Mappings of neighbouring extents merge: each alias takes up a few entries in the kernel's map of
// the process, however large it is.
Status Region::map_aliases(const Extent& extent) {
  for (u64 i = 0; i <= aliases(); ++i) {
    // A child that shared the memory would change its parent's.
    if (map_without_children(base_ + i * stride_ + extent.region_offset, extent.length,
                             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_.get(),
                             static_cast<off_t>(extent.region_offset)) == MAP_FAILED)
      return system_failure(errno, "cannot map " + std::to_string(extent.length) +
                                       " bytes of memory for '" + name() + "'");
  }
  return {};
}

Status Region::load(const Extent& extent) {
  media::LinearMedium& medium = volume_->linear();
  AlignedBuffer buffer(medium.geometry().byte_addressable ? 0 : kLoadBytes);
  for (u64 at = 0; at < extent.length; at += kLoadBytes) {
    const u64 length = std::min(kLoadBytes, extent.length - at);
    const std::byte* from = buffer.data();
    if (medium.geometry().byte_addressable) from = medium.direct(extent.medium_offset + at, length);
    else PERDURA_TRY(medium.read(extent.medium_offset + at, buffer.first(length)));
    std::byte* const to = base_ + extent.region_offset + at;
    for (u64 page = 0; page < length; page += kPageBytes)
      if (!is_zero(from + page, kPageBytes)) std::memcpy(to + page, from + page, kPageBytes);
  }
  return {};
}

Status Region::map_new(const Extent& extent) {
  if (aliases() != 0) return map_aliases(extent);
  std::byte* const place = base_ + extent.region_offset;
  // As for views: a child has no part in the store (docs/guarantees.md, "fork").
  const auto map = volume_ != nullptr && !inherited_ ? map_without_children : ::mmap;
  if (map(place, extent.length, PROT_READ | PROT_WRITE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    return system_failure(errno, "cannot map " + std::to_string(extent.length) +
                                     " bytes of memory for '" + name() + "'");
  // A tracker of pages would find 2 MiB changed for every store, where the system makes them so.
  ::madvise(place, extent.length, is_volatile() || huge_pages_ ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return {};
}

Result<Mapping> Region::prepare_huge(u64 offset) const {
  PERDURA_ASSERT(is_aligned(offset, kHugeBytes) && offset + kHugeBytes <= limit());
  const auto home = this->home();
  for (u64 at = offset; at < offset + kHugeBytes;) {
    const Extent* extent = home->find(at);
    if (extent == nullptr) return Failure{Code::kNotFound, "a part of the chunk is not backed"};
    at = extent->region_offset + extent->length;
  }
  PERDURA_ASSIGN(Mapping page, Mapping::aligned(kHugeBytes, kHugeBytes));
  prefer_huge(page.as(), kHugeBytes);
  // Both for the sake of a short stop; older kernels load the pages later.
  ::madvise(page.as(), kHugeBytes, MADV_POPULATE_WRITE);
  ::madvise(base_ + offset, kHugeBytes, MADV_POPULATE_READ);
  return page;
}

// The kernel exchanges the mappings in one step, as far as other threads see, and refuses before it
// takes anything away.
void Region::promote(u64 offset, Mapping page, void (*copy)(std::byte*, const std::byte*)) {
  std::byte* const place = base_ + offset;
  if (::mprotect(place, kHugeBytes, PROT_READ) == 0) {
    copy(page.as(), place);
    if (::mremap(page.as(), kHugeBytes, kHugeBytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) ==
        place) {
      page.release();
      return;
    }
  }
  // Where this fails, the next store to the chunk tries again.
  reopen(offset);
}

bool Region::reopen(u64 offset) noexcept {
  return ::mprotect(base_ + offset, kHugeBytes, PROT_READ | PROT_WRITE) == 0;
}

Status Region::back(u64 offset, u64 length) {
  PERDURA_ASSERT(is_aligned(offset | length, kPageBytes));
  PERDURA_ASSERT(offset + length <= limit());
  const NotCancelled not_cancelled;
  std::lock_guard lock(mutex_);
  const u64 end = offset + length;
  while (offset < end) {
    if (const Extent* extent = home_->find(offset)) {
      offset = std::min(end, extent->region_offset + extent->length);
      continue;
    }
    PERDURA_ASSIGN(const Extent made, backing_->take(offset, end, *home_));
    std::vector<Extent> extents = home_->extents();
    extents.push_back(made);
    auto home = std::make_shared<const HomeMap>(std::move(extents));
    PERDURA_TRY(map_new(made));
    // The last step that may fail: a tracker knows what it was told of.
    const Status told = backed_ ? backed_(base_ + made.region_offset, made.length, true) : Status{};
    if (!told) {
      Failure failure = told.failure();
      failure.message = "cannot grow the region of '" + volume_->name() + "': " + failure.message;
      if (failure.code == Code::kUnsupported)
        failure.message += "; open it with another Options::tracking";
      return failure;
    }
    home_ = std::move(home);
    offset = made.region_offset + made.length;
  }
  return {};
}

Status Region::on_backed(Backed backed) {
  std::lock_guard lock(mutex_);
  for (const Extent& extent : home_->extents())
    PERDURA_TRY(backed(base_ + extent.region_offset, extent.length, !has_views()));
  backed_ = std::move(backed);
  return {};
}

std::shared_ptr<const HomeMap> Region::home() const {
  std::lock_guard lock(mutex_);
  return home_;
}

}  // namespace perdura::region
