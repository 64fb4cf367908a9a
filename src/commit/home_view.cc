#include "commit/home_view.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/checksum.hpp"

namespace perdura::commit {
namespace {

// An access would be a signal otherwise. What else keeps the system from it, and older kernels do
// not know the call, does not keep us from looking.
bool can_load(const std::byte* begin, u64 length) noexcept {
  return ::madvise(const_cast<std::byte*>(begin), length, MADV_POPULATE_READ) == 0 ||
         (errno != EFAULT && errno != EHWPOISON);
}

}  // namespace

Result<HomeView> HomeView::create(region::Volume& volume, const region::HomeMap& home) {
  media::LinearMedium& medium = volume.linear();
  HomeView view;
  view.parts_.reserve(home.extents().size());
  for (const format::Extent& extent : home.extents()) {
    Part part;
    part.begin = extent.region_offset;
    part.end = extent.region_offset + extent.length;
    const u64 length = extent.length + format::table_bytes(extent.length);
    if (medium.geometry().byte_addressable) {
      part.pages = medium.direct(extent.medium_offset, length);
    } else {
      PERDURA_ASSIGN(part.mapped, Mapping::reserve(nullptr, length));
      PERDURA_TRY(medium.map_home(part.mapped.as(), extent.medium_offset, length));
      part.pages = part.mapped.as();
    }
    view.parts_.push_back(std::move(part));
  }
  return view;
}

bool HomeView::is_readable(const Part& part, u64 begin, u64 end) noexcept {
  const std::byte* const pages = part.pages;
  const u64 sums = part.end - part.begin;
  const u64 first_sum = sums + (begin - part.begin) / kPageBytes * sizeof(u64);
  const u64 last_sum = sums + (end - part.begin) / kPageBytes * sizeof(u64);
  const u64 table = round_down(first_sum, kPageBytes);
  return can_load(pages + (begin - part.begin), end - begin) &&
         can_load(pages + table, round_up(last_sum, kPageBytes) - table);
}

HomeView::Page HomeView::compare(const Part& part, u64 offset) noexcept {
  const std::byte* const page = part.pages + (offset - part.begin);
  const std::byte* const sums = part.pages + (part.end - part.begin);
  u64 sum = 0;
  std::memcpy(&sum, sums + (offset - part.begin) / kPageBytes * sizeof sum, sizeof sum);
  if (sum == format::kCondemnedPage) return Page::kCondemned;
  return page_checksum(page, offset / kLineBytes) == sum ? Page::kGood : Page::kDamaged;
}

}  // namespace perdura::commit
