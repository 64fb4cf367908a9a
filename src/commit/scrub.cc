#include "commit/scrub.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"

namespace perdura::commit {

using format::Extent;
using region::HomeMap;

namespace {
/// The checksums of a window, from the medium's unit in which they begin to the one they end in.
constexpr u64 kTableBytes = 2 * kPageBytes;
static_assert(Scrub::kWindowBytes / kPageBytes * sizeof(u64) <= kPageBytes);
}  // namespace

bool Scrub::step(const HomeMap& home) {
  const auto extent = std::find_if(
      home.extents().begin(), home.extents().end(),
      [this](const Extent& each) { return each.region_offset + each.length > position_; });
  if (extent == home.extents().end()) {
    buffer_ = {};
    return false;
  }
  if (buffer_.size() == 0) buffer_ = AlignedBuffer(kWindowBytes + kTableBytes);
  const u64 first = std::max(position_, extent->region_offset);
  const u64 length = std::min(kWindowBytes, extent->region_offset + extent->length - first);
  position_ = first + length;
  const u64 unit = volume_.medium().geometry().write_bytes;
  const u64 sums_place = HomeMap::checksum_place(*extent, first);
  const u64 table_place = round_down(sums_place, unit);
  const u64 table_end = round_up(sums_place + length / kPageBytes * sizeof(u64), unit);
  std::byte* const table = buffer_.data() + kWindowBytes;
  const media::ReadRequest reads[] = {
      {HomeMap::page_place(*extent, first), {buffer_.data(), length}},
      {table_place, {table, table_end - table_place}}};
  if (const Status read = volume_.medium().read_all(reads); !read) {
    guard_.note(first / kPageBytes, read.failure().message);
    return true;
  }
  for (u64 at = 0; at < length; at += kPageBytes) {
    const u64 page = (first + at) / kPageBytes;
    u64 expected = 0;
    std::memcpy(&expected, table + (sums_place - table_place) + at / kPageBytes * sizeof(u64),
                sizeof expected);
    // The next replay gives such a page a new checksum, unless it was found damaged before.
    if (guard_.may_be_half_replayed(page) && expected != format::kCondemnedPage) continue;
    const bool good = page_checksum(buffer_.data() + at, page * kLinesPerPage) == expected;
    if (beside_writes_ && guard_.knows(page)) continue;
    if (!good) guard_.note(page, page_damaged(volume_, first + at).message);
  }
  guard_.scrubbed(length);
  return true;
}

}  // namespace perdura::commit
