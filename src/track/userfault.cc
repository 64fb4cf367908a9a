#include "track/userfault.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>

namespace perdura::track {
namespace {

// As kFeatureWpUnpopulated; also linux/fs.h of 6.7.
constexpr u64 kFeatureWpAsync = 1 << 15;
constexpr unsigned kUserModeOnly = 1;

struct PageRegion {
  u64 start;
  u64 end;
  u64 categories;
};
struct ScanArguments {
  u64 size;
  u64 flags;
  u64 start;
  u64 end;
  u64 walk_end;
  u64 vec;
  u64 vec_len;
  u64 max_pages;
  u64 category_inverted;
  u64 category_mask;
  u64 category_anyof_mask;
  u64 return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);
constexpr u64 kScanProtectMatching = 1 << 0;
constexpr u64 kScanCheckAsync = 1 << 1;
constexpr u64 kPageWritten = 1 << 1;
constexpr u64 kPageFile = 1 << 2;
constexpr u64 kPagePresent = 1 << 3;
constexpr u64 kPageSwapped = 1 << 4;

constexpr size_t kRegionsPerScan = 512;  // on the stack

enum class Ask {
  kUnprotected,  ///< pages that are not protected: the kernel has a short way to answer that
  kStored,       ///< the same, and what they are
  kTouched,      ///< pages that there are; also where nothing is watched
};

// Found by kStored and kTouched. A page of a view that was never stored to is its file's, and one
// that nobody touched is not there.
bool was_stored_to(const PageRegion& region) { return (region.categories & kPageFile) == 0; }
bool is_there(const PageRegion& region) {
  return (region.categories & (kPagePresent | kPageSwapped)) != 0;
}

// The kernel refuses to protect where a part is not registered, instead of finding nothing.
ScanArguments scan_arguments(const Part& part, Ask ask, bool protect) {
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.start = reinterpret_cast<std::uintptr_t>(part.address);
  arguments.end = arguments.start + part.length;
  if (protect) arguments.flags = kScanProtectMatching | kScanCheckAsync;
  if (ask == Ask::kTouched) arguments.category_anyof_mask = kPagePresent | kPageSwapped;
  else arguments.category_mask = kPageWritten;
  arguments.return_mask = ask == Ask::kUnprotected
                              ? kPageWritten
                              : kPageWritten | kPageFile | kPagePresent | kPageSwapped;
  return arguments;
}

// Calls each(PageRegion) in the order of addresses. A call that fails may have protected pages that
// it does not tell: behind a failure all that may have been stored to is told.
template <class Each>
Status scan_pages(int pagemap, const Part& part, Ask ask, bool protect, Each&& each) {
  PageRegion regions[kRegionsPerScan];
  ScanArguments arguments = scan_arguments(part, ask, protect);
  arguments.vec = reinterpret_cast<std::uintptr_t>(regions);
  arguments.vec_len = kRegionsPerScan;
  while (arguments.start < arguments.end) {
    const int count = ::ioctl(pagemap, kPagemapScan, &arguments);
    if (count < 0) {
      Status failed = system_failure(errno, "cannot scan for written pages");
      const Part rest{reinterpret_cast<std::byte*>(arguments.start),
                      arguments.end - arguments.start};
      const bool is_told =
          protect && ask == Ask::kStored && scan_pages(pagemap, rest, Ask::kTouched, false, each);
      if (protect && !is_told) each({arguments.start, arguments.end, kPageWritten | kPagePresent});
      return failed;
    }
    for (int i = 0; i < count; ++i) each(regions[i]);
    arguments.start = arguments.walk_end;
  }
  return {};
}

// Perhaps in a signal handler, on a small stack.
Status protect_pages(int pagemap, const Part& part) {
  ScanArguments arguments = scan_arguments(part, Ask::kUnprotected, true);
  arguments.return_mask = 0;  // nothing is told
  while (arguments.start < arguments.end) {
    if (::ioctl(pagemap, kPagemapScan, &arguments) < 0)
      return system_failure(errno, "cannot protect pages");
    arguments.start = arguments.walk_end;
  }
  return {};
}

Result<Mapping> map_pages(u64 pages, int flags, int file) {
  void* const data = ::mmap(nullptr, pages * kPageBytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (data == MAP_FAILED) return system_failure(errno, "cannot map pages");
  return Mapping(data, pages * kPageBytes);
}

/// Which of the first pages a scan that protects finds stored to, as bits.
Result<u64> stored_pages(int pagemap, const Mapping& pages, Ask ask) {
  u64 found = 0;
  const Part part{pages.as(), pages.length()};
  PERDURA_TRY(scan_pages(pagemap, part, ask, true, [&](const PageRegion& region) {
    if (ask == Ask::kStored && !(was_stored_to(region) && is_there(region))) return;
    for (u64 at = region.start; at < region.end; at += kPageBytes)
      found |= u64{1} << (at - reinterpret_cast<std::uintptr_t>(part.address)) / kPageBytes;
  }));
  return found;
}

constexpr u64 kViewUnitsMax = 1024;           // about
constexpr u64 kNearBytes = 128 * kPageBytes;  // scanned in the time of a call
constexpr u64 kUnitBytesMin = 2 * kMiB;       // what one page table maps

// A fault costs about as much as to capture two pages.
constexpr u8 kHotAfter = 3;        // epochs
constexpr u64 kHotLeaves = 8;      // of so many pages one may be as it was
constexpr u64 kHotPagesMin = 128;  // smaller units are not worth it
constexpr u64 kSamplePages = 16;
constexpr u64 kSampleStep = 37;  // pages

// What the system has, though not now: no reason to be content with another tracker.
bool lacks_descriptors(int error_number) {
  return error_number == EMFILE || error_number == ENFILE;
}

Failure pagemap_failure() {
  const int error_number = errno;
  if (lacks_descriptors(error_number))
    return system_failure(error_number, "cannot open /proc/self/pagemap");
  Failure failure = userfault_unsupported("/proc/self/pagemap cannot be opened");
  if (error_number == ENOENT) failure.message += " (mount /proc)";
  if (error_number == EACCES)
    failure.message +=
        " (a program that has changed its user must call prctl(PR_SET_DUMPABLE, 1) before it opens "
        "the store)";
  return failure;
}

}  // namespace

// Not system_failure: it would have the permissions of a file looked at.
Failure userfault_unsupported(const char* what) {
  return {Code::kUnsupported, what + (": " + std::generic_category().message(errno))};
}

Result<UniqueFd> open_userfault() {
  const long fd = ::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  const int error_number = errno;
  if (lacks_descriptors(error_number))
    return system_failure(error_number, "cannot have userfaultfd");
  UniqueFd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device) {
    const int from_device = ::ioctl(device.get(), _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
    if (from_device >= 0) return UniqueFd(from_device);
  }
  errno = error_number;
  Failure refused = userfault_unsupported("userfaultfd is refused");
  if (error_number == EPERM || error_number == EACCES)
    refused.message += " (a sandbox may forbid the system call: allow it, or /dev/userfaultfd)";
  return refused;
}

Status register_write_protect(int userfault, void* address, u64 length) {
  uffdio_register request{};
  request.range.start = reinterpret_cast<std::uintptr_t>(address);
  request.range.len = length;
  request.mode = UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(userfault, UFFDIO_REGISTER, &request) != 0)
    return userfault_unsupported("userfaultfd cannot watch this memory");
  return {};
}

Result<std::unique_ptr<Userfault>> Userfault::create(std::byte* region_base, u64 region_bytes,
                                                     Memory memory) {
  PERDURA_ASSIGN(UniqueFd userfault, open_userfault());
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatureWpAsync | kFeatureWpUnpopulated;
  if (memory == Memory::kShared) api.features |= UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
  if (::ioctl(userfault.get(), UFFDIO_API, &api) != 0)
    return userfault_unsupported(
        "this kernel has no asynchronous write protection (Linux 6.7 has)");
  UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pagemap) return pagemap_failure();
  PERDURA_TRY(self_test(userfault.get(), pagemap.get(), memory));
  PERDURA_ASSIGN(DirtyMap map, DirtyMap::create(region_bytes));
  return std::unique_ptr<Userfault>(
      new Userfault(region_base, memory, std::move(userfault), std::move(pagemap), std::move(map)));
}

// Store to one page of two, and see exactly that one; also where the pages are a file's, and one of
// them was read.
Status Userfault::self_test(int userfault, int pagemap, Memory memory) {
  const Failure wrong{Code::kUnsupported, "the scan for written pages gives wrong answers here"};
  const int kind = memory == Memory::kShared ? MAP_SHARED : MAP_PRIVATE;
  PERDURA_ASSIGN(const Mapping two, map_pages(2, kind | MAP_ANONYMOUS, -1));
  const Part part{two.as(), two.length()};
  PERDURA_TRY(register_write_protect(userfault, part.address, part.length));
  volatile char* pages = two.as<char>();
  pages[0] = 1;
  pages[kPageBytes] = 1;
  if (!protect_pages(pagemap, part))
    return userfault_unsupported("this kernel cannot scan for written pages (Linux 6.7 can)");
  pages[kPageBytes] = 2;
  const auto found = stored_pages(pagemap, two, Ask::kUnprotected);
  if (!found) return userfault_unsupported("the scan for written pages is refused");
  if (*found != 2) return wrong;
  if (memory != Memory::kPrivate) return {};

  const UniqueFd file(::memfd_create("perdura", MFD_CLOEXEC));
  if (!file && lacks_descriptors(errno))
    return system_failure(errno, "cannot have a file in memory");
  if (!file || ::ftruncate(file.get(), 3 * kPageBytes) != 0)
    return userfault_unsupported("there is no memory for a file");
  PERDURA_ASSIGN(const Mapping view, map_pages(3, MAP_PRIVATE, file.get()));
  pages = view.as<char>();
  if (pages[0] != 0) return wrong;
  pages[kPageBytes] = 1;
  PERDURA_TRY(register_write_protect(userfault, view.as(), view.length()));
  for (const u64 stored : {2, 5}) {
    PERDURA_ASSIGN(const u64 seen, stored_pages(pagemap, view, Ask::kStored));
    if (seen != stored) return wrong;
    pages[0] = 1;
    pages[2 * kPageBytes] = 1;
  }
  return {};
}

Status Userfault::backed(std::span<const Part> parts) {
  std::lock_guard lock(mutex_);
  std::vector<Stretch> views;
  std::vector<Stretch> others;
  for (const Part& part : parts) {
    (is_view(part) ? views : others).push_back(stretch_of(part));
    if (is_view(part)) continue;
    PERDURA_TRY(register_write_protect(userfault_.get(), part.address, part.length));
    // Memory that was never protected would count as stored to.
    PERDURA_TRY(protect_pages(pagemap_.get(), part));
  }
  views_.reserve(views_.size() + views.size());
  parts_.reserve(parts_.size() + others.size());
  std::move(views.begin(), views.end(), std::back_inserter(views_));
  std::move(others.begin(), others.end(), std::back_inserter(parts_));
  return {};
}

Userfault::Stretch Userfault::stretch_of(const Part& part) const {
  u64 unit_bytes = kUnitBytesMin;
  if (is_view(part)) unit_bytes = std::max(unit_bytes, std::bit_ceil(part.length / kViewUnitsMax));
  Stretch stretch{part.address, part.address + part.length, unit_bytes, is_view(part), {}};
  stretch.units = std::make_unique<Unit[]>(stretch.unit_count());
  if (!stretch.is_view)
    for (size_t unit = 0; unit < stretch.unit_count(); ++unit)
      stretch.units[unit].watch = Watch::kAll;
  return stretch;
}

Part Userfault::Stretch::units_from(size_t first, size_t last) const {
  std::byte* const from = begin + first * unit_bytes;
  return {from, std::min(last * unit_bytes, static_cast<u64>(end - begin)) - first * unit_bytes};
}

void Userfault::Stretch::count_changed(u64 from, u64 to) {
  const auto base = reinterpret_cast<std::uintptr_t>(begin);
  while (from < to) {
    const u64 unit = (from - base) / unit_bytes;
    const u64 here = std::min(to, base + (unit + 1) * unit_bytes) - from;
    units[unit].changed += static_cast<u32>(here / kPageBytes);
    from += here;
  }
}

Part Userfault::Stretch::sample_of(size_t unit) const {
  const Part all = units_from(unit, unit + 1);
  return {all.address + units[unit].sample * kPageBytes, kSamplePages * kPageBytes};
}

Status Userfault::add_changes(DirtyMap& into) {
  std::lock_guard lock(mutex_);
  into.merge(map_);
  return scan(false, [&](u64 first, u64 count) { into.add(first, count); });
}

Status Userfault::cut() {
  std::lock_guard lock(mutex_);
  return scan(true, [this](u64 first, u64 count) { map_.add(first, count); });
}

// Of a view, what was filled in and cannot be watched counts as stored to: more than that is not
// lost. Other parts are watched since they were backed.
Status Userfault::after_fill(std::byte* address, u64 length) {
  for (Stretch& view : views_) {
    if (address < view.begin || address >= view.end) continue;
    const size_t last = view.unit_of(address + length - 1) + 1;
    if (!watch(view, view.unit_of(address), last)) return {};
    break;
  }
  return protect_pages(pagemap_.get(), {address, length});
}

// All of these units are watched from now on, what was stored to them before is seen as well;
// false, and nothing is lost, where the kernel refuses it. In any thread.
bool Userfault::watch(Stretch& view, size_t first, size_t last) {
  const Part part = view.units_from(first, last);
  if (!register_write_protect(userfault_.get(), part.address, part.length)) return false;
  for (size_t unit = first; unit < last; ++unit) {
    Watch seen = Watch::kNot;
    view.units[unit].watch.compare_exchange_strong(seen, Watch::kFilled);
  }
  return true;
}

// Calls found(first line, lines) for what was stored to in the epoch.
template <class Found>
Status Userfault::scan(bool ends_epoch, Found&& found) {
  const auto changed = [&](const PageRegion& region) {
    found((region.start - reinterpret_cast<std::uintptr_t>(base_)) / kLineBytes,
          (region.end - region.start) / kLineBytes);
  };
  for (std::vector<Stretch>* const stretches : {&views_, &parts_})
    for (Stretch& each : *stretches) PERDURA_TRY(scan_stretch(each, ends_epoch, changed));
  return {};
}

template <class Found>
Status Userfault::scan_stretch(Stretch& stretch, bool ends_epoch, Found&& found) {
  const size_t count = stretch.unit_count();
  for (size_t unit = 0; unit < count;) {
    const size_t first = unit;
    const Watch watch = stretch.units[first].watch;
    while (unit < count && stretch.units[unit].watch == watch) ++unit;
    switch (watch) {
      case Watch::kNot:
        PERDURA_TRY(scan_unwatched(stretch, first, unit, ends_epoch, found));
        break;
      case Watch::kFilled:
        PERDURA_TRY(scan_filled(stretch, first, unit, ends_epoch, found));
        break;
      case Watch::kAll:
        PERDURA_TRY(scan_all(stretch, first, unit, ends_epoch, found));
        break;
      case Watch::kHot:
        PERDURA_TRY(scan_hot(stretch, first, unit, ends_epoch, found));
        break;
    }
  }
  return {};
}

// What was stored to in the part, in units that were protected; in the step in which it is found it
// is protected, if that is wanted.
//
// The system takes protections of a view away where pages are its file's: with large pages of its
// cache, when one of these is written beside it, or split. So the quick answer, which pages are not
// protected, is looked at once more.
template <class Found>
Status Userfault::scan_changed(const Stretch& stretch, const Part& part, bool protect,
                               Found&& found) {
  if (!stretch.is_view) return scan_pages(pagemap_.get(), part, Ask::kUnprotected, protect, found);
  Status status;
  PageRegion near{};  // regions that lie together, with what is between them
  const auto look = [&]() -> Status {
    if (near.start == near.end) return {};
    const Part again{reinterpret_cast<std::byte*>(near.start), near.end - near.start};
    return scan_stored(again, protect, found);
  };
  PERDURA_TRY(
      scan_pages(pagemap_.get(), part, Ask::kUnprotected, false, [&](const PageRegion& region) {
        if (near.start != near.end && region.start - near.end <= kNearBytes) {
          near.end = region.end;
          return;
        }
        if (status) status = look();
        near = region;
      }));
  return status ? look() : std::move(status);
}

// The same of parts of a view, some of which may never have been protected.
template <class Found>
Status Userfault::scan_stored(const Part& part, bool protect, Found&& found) {
  return scan_pages(pagemap_.get(), part, Ask::kStored, protect, [&](const PageRegion& region) {
    if (was_stored_to(region) && is_there(region)) found(region);
  });
}

template <class Found>
Status Userfault::scan_all(Stretch& stretch, size_t first, size_t last, bool ends_epoch,
                           Found&& found) {
  PERDURA_TRY(scan_changed(stretch, stretch.units_from(first, last), ends_epoch,
                           [&](const PageRegion& region) {
                             found(region);
                             if (ends_epoch) stretch.count_changed(region.start, region.end);
                           }));
  if (!ends_epoch || memory_ == Memory::kShared) return {};
  for (size_t unit = first; unit < last; ++unit) note_heat(stretch, unit);
  return {};
}

// Its pages are protected once more, the next epoch's first store to each finds that out.
void Userfault::note_heat(Stretch& stretch, size_t number) const {
  Unit& unit = stretch.units[number];
  const u64 pages = stretch.pages_of(number);
  const u64 changed = std::exchange(unit.changed, 0);
  if (pages < kHotPagesMin || changed < pages - pages / kHotLeaves) {
    unit.hot_epochs = 0;
  } else if (++unit.hot_epochs == kHotAfter) {
    unit.hot_epochs = 0;
    unit.watch = Watch::kHot;
  }
}

// Nothing but samples is protected, so all that was stored to since the unit is hot is found.
template <class Found>
Status Userfault::scan_hot(Stretch& stretch, size_t first, size_t last, bool ends_epoch,
                           Found&& found) {
  PERDURA_TRY(scan_changed(stretch, stretch.units_from(first, last), false, found));
  if (ends_epoch)
    for (size_t unit = first; unit < last; ++unit) PERDURA_TRY(take_sample(stretch, unit, found));
  return {};
}

// The next sample is elsewhere: pages that lie together may fare alike. A unit that has become cold
// is protected as a whole.
template <class Found>
Status Userfault::take_sample(Stretch& stretch, size_t number, Found&& found) {
  Unit& unit = stretch.units[number];
  u64 changed = 0;
  PERDURA_TRY(scan_changed(
      stretch, stretch.sample_of(number), false,
      [&](const PageRegion& region) { changed += (region.end - region.start) / kPageBytes; }));
  unit.sample = (unit.sample + kSampleStep) % (stretch.pages_of(number) - kSamplePages);
  if (changed >= kSamplePages / 2)
    return scan_changed(stretch, stretch.sample_of(number), true, found);
  PERDURA_TRY(scan_changed(stretch, stretch.units_from(number, number + 1), true, found));
  unit.watch = Watch::kAll;
  return {};
}

// Units in which a page is there, and be it because it was read, are watched from now on. They are
// looked at again then: a thread that the cut does not wait for may store to them at any time.
template <class Found>
Status Userfault::scan_unwatched(Stretch& view, size_t first, size_t last, bool ends_epoch,
                                 Found&& found) {
  size_t touched = first;      // the first unit of those that follow each other
  size_t touched_end = first;  // none
  const auto take = [&]() -> Status {
    const bool watched = touched != touched_end && watch(view, touched, touched_end);
    if (!watched) return {};
    return scan_filled(view, touched, touched_end, true, found);
  };
  Status status;
  PERDURA_TRY(scan_pages(pagemap_.get(), view.units_from(first, last), Ask::kTouched, false,
                         [&](const PageRegion& region) {
                           if (was_stored_to(region)) found(region);
                           if (!ends_epoch || !status) return;
                           const auto* const begin =
                               reinterpret_cast<const std::byte*>(region.start);
                           const auto* const end = reinterpret_cast<const std::byte*>(region.end);
                           const size_t from = view.unit_of(begin);
                           if (from > touched_end) {
                             status = take();
                             touched = from;
                           }
                           touched_end = view.unit_of(end - 1) + 1;
                         }));
  if (status) status = take();
  return status;
}

// All of it is protected at the end of an epoch, also where nothing was there.
template <class Found>
Status Userfault::scan_filled(Stretch& view, size_t first, size_t last, bool ends_epoch,
                              Found&& found) {
  PERDURA_TRY(scan_stored(view.units_from(first, last), ends_epoch, found));
  if (ends_epoch)
    for (size_t unit = first; unit < last; ++unit) view.units[unit].watch = Watch::kAll;
  return {};
}

void Userfault::settle(bool durable) {
  if (durable) map_.clear();
}

}  // namespace perdura::track
