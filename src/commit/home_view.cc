#include "commit/home_view.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "base/checksum.hpp"

namespace perdura::commit {
namespace {

// An access would be a signal otherwise. What else keeps the system from it, and older kernels do
// not know the call, does not keep us from looking.
bool can_load(std::byte* begin, u64 length) noexcept {
  return ::madvise(begin, length, MADV_POPULATE_READ) == 0 ||
         (errno != EFAULT && errno != EHWPOISON);
}

}  // namespace

Result<HomeView> HomeView::create(region::Volume& volume, const region::HomeMap& home) {
  HomeView view;
  view.parts_.reserve(home.extents().size());
  for (const format::Extent& extent : home.extents()) {
    Part part;
    part.begin = extent.region_offset;
    part.end = extent.region_offset + extent.length;
    const u64 length = extent.length + format::table_bytes(extent.length);
    PERDURA_ASSIGN(part.memory, Mapping::reserve(nullptr, length));
    PERDURA_TRY(volume.medium().map_home(part.memory.as(), extent.medium_offset, length));
    view.parts_.push_back(std::move(part));
  }
  return view;
}

bool HomeView::is_readable(const Part& part, u64 begin, u64 end) noexcept {
  std::byte* const pages = part.memory.as();
  const u64 sums = part.end - part.begin;
  const u64 first_sum = sums + (begin - part.begin) / kPageBytes * sizeof(u64);
  const u64 last_sum = sums + (end - part.begin) / kPageBytes * sizeof(u64);
  const u64 table = round_down(first_sum, kPageBytes);
  return can_load(pages + (begin - part.begin), end - begin) &&
         can_load(pages + table, round_up(last_sum, kPageBytes) - table);
}

HomeView::Page HomeView::compare(const Part& part, u64 offset) noexcept {
  const std::byte* const page = part.memory.as() + (offset - part.begin);
  const u64* const sums = part.memory.as<u64>() + (part.end - part.begin) / sizeof(u64);
  const u64 sum = sums[(offset - part.begin) / kPageBytes];
  if (sum == format::kDamagedPage) return Page::kMarked;
  return page_checksum(page, offset / kLineBytes) == sum ? Page::kGood : Page::kDamaged;
}

}  // namespace perdura::commit
