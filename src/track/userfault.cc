#include "track/userfault.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

// Pages stored to since they were last protected. Where all pages were protected first, `exact`,
// those that are not: the kernel has a short way to answer that, and needs page tables for it. Else
// pages that were copied (not FILE) and written, so that a view that was never touched needs none.
// The kernel refuses the call where a part is not registered, instead of finding nothing.
ScanArguments scan_arguments(const std::byte* begin, u64 length, PageRegion* into, size_t count,
                             bool exact) {
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.flags = kScanProtectMatching | kScanCheckAsync;
  arguments.start = reinterpret_cast<std::uintptr_t>(begin);
  arguments.end = arguments.start + length;
  arguments.vec = reinterpret_cast<std::uintptr_t>(into);
  arguments.vec_len = count;  // 0: protect, and tell nothing
  arguments.category_mask = kPageWritten;
  if (!exact) {
    arguments.category_mask |= kPageFile;
    arguments.category_inverted = kPageFile;
    arguments.category_anyof_mask = kPagePresent | kPageSwapped;
  }
  arguments.return_mask = into == nullptr ? 0 : kPageWritten;
  return arguments;
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
  if (!pagemap) return userfault_unsupported("/proc/self/pagemap cannot be opened");
  PERDURA_TRY(self_test(userfault.get(), pagemap.get(), memory));
  PERDURA_ASSIGN(DirtyMap map, DirtyMap::create(region_bytes));
  return std::unique_ptr<Userfault>(
      new Userfault(region_base, memory, std::move(userfault), std::move(pagemap), std::move(map)));
}

// Register two pages, store to one, and see exactly that one.
Status Userfault::self_test(int userfault, int pagemap, Memory memory) {
  const int kind = memory == Memory::kShared ? MAP_SHARED : MAP_PRIVATE;
  const bool exact = memory != Memory::kPrivate;
  void* data = ::mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return system_failure(errno, "cannot map two pages");
  const Mapping two(data, 2 * kPageBytes);
  PERDURA_TRY(register_write_protect(userfault, two.as(), two.length()));
  volatile char* pages = two.as<char>();
  pages[0] = 1;
  pages[kPageBytes] = 1;
  PageRegion found[4];
  ScanArguments all = scan_arguments(two.as(), two.length(), nullptr, 0, exact);
  if (::ioctl(pagemap, kPagemapScan, &all) < 0)
    return userfault_unsupported("this kernel cannot scan for written pages (Linux 6.7 can)");
  pages[kPageBytes] = 2;
  ScanArguments second = scan_arguments(two.as(), two.length(), found, 4, exact);
  const int regions = ::ioctl(pagemap, kPagemapScan, &second);
  if (regions < 0) return userfault_unsupported("the scan for written pages is refused");
  const u64 expected = reinterpret_cast<std::uintptr_t>(two.as()) + kPageBytes;
  if (regions != 1 || found[0].start != expected)
    return Failure{Code::kUnsupported, "the scan for written pages gives wrong answers here"};
  return {};
}

Status Userfault::backed(std::span<const Part> parts) {
  std::lock_guard lock(mutex_);
  parts_.reserve(parts_.size() + parts.size());
  for (const Part& part : parts) {
    PERDURA_TRY(register_write_protect(userfault_.get(), part.address, part.length));
    // Memory that was never protected would count as stored to.
    if (is_exact(part)) PERDURA_TRY(protect(part));
  }
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  return {};
}

Status Userfault::add_changes(DirtyMap& into) {
  std::lock_guard lock(mutex_);
  into.merge(map_);
  for (const Part& part : parts_)
    PERDURA_TRY(scan(part, false, [&](u64 first, u64 count) { into.add(first, count); }));
  return {};
}

Status Userfault::cut() {
  std::lock_guard lock(mutex_);
  for (const Part& part : parts_)
    PERDURA_TRY(scan(part, true, [this](u64 first, u64 count) { map_.add(first, count); }));
  return {};
}

Status Userfault::after_fill(std::byte* address, u64 length) {
  return protect({address, length, false});
}

// Perhaps in a signal handler, on a small stack.
Status Userfault::protect(const Part& part) {
  const std::byte* begin = part.address;
  const std::byte* const end = part.address + part.length;
  while (begin < end) {
    ScanArguments arguments =
        scan_arguments(begin, static_cast<u64>(end - begin), nullptr, 0, is_exact(part));
    if (::ioctl(pagemap_.get(), kPagemapScan, &arguments) < 0)
      return system_failure(errno, "cannot protect pages");
    begin = reinterpret_cast<const std::byte*>(arguments.walk_end);
  }
  return {};
}

template <class Found>
Status Userfault::scan(const Part& part, bool protect, Found&& found) {
  PageRegion regions[kRegionsPerScan];
  const std::byte* begin = part.address;
  const std::byte* const end = part.address + part.length;
  while (begin < end) {
    ScanArguments arguments = scan_arguments(begin, static_cast<u64>(end - begin), regions,
                                             kRegionsPerScan, is_exact(part));
    if (!protect) arguments.flags &= ~kScanProtectMatching;
    const int count = ::ioctl(pagemap_.get(), kPagemapScan, &arguments);
    if (count < 0) return system_failure(errno, "cannot scan for written pages");
    for (int i = 0; i < count; ++i)
      found((regions[i].start - reinterpret_cast<std::uintptr_t>(base_)) / kLineBytes,
            (regions[i].end - regions[i].start) / kLineBytes);
    begin = reinterpret_cast<const std::byte*>(arguments.walk_end);
  }
  return {};
}

void Userfault::settle(bool durable) {
  if (durable) map_.clear();
}

}  // namespace perdura::track
