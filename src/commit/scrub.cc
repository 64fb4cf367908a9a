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
constexpr size_t kFirstMax = 1000;
static_assert(Scrub::kWindowBytes / kPageBytes * sizeof(u64) <= kPageBytes);
}  // namespace

Failure page_damaged(const region::Volume& volume, u64 region_offset) {
  return {Code::kCorrupt, "the home page at region offset " + std::to_string(region_offset) +
                              " of '" + volume.name() +
                              "' does not fit its checksum; run `perdura check` and restore the "
                              "store from a copy"};
}

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
    note(first, read.failure().message);
    return true;
  }
  for (u64 at = 0; at < length; at += kPageBytes) {
    const u64 page = (first + at) / kPageBytes;
    if (recovered_ != nullptr && recovered_->has_page(page)) continue;
    u64 expected = 0;
    std::memcpy(&expected, table + (sums_place - table_place) + at / kPageBytes * sizeof(u64),
                sizeof expected);
    if (page_checksum(buffer_.data() + at, page * kLinesPerPage) != expected)
      note(first + at, page_damaged(volume_, first + at).message);
  }
  std::lock_guard lock(mutex_);
  findings_.verified_bytes += length;
  return true;
}

void Scrub::note(u64 region_offset, std::string what) {
  std::lock_guard lock(mutex_);
  note_damage(findings_, region_offset, std::move(what));
}

void note_damage(Findings& findings, u64 region_offset, std::string what) {
  ++findings.damaged_pages;
  if (findings.first.size() < kFirstMax)
    findings.first.push_back("region offset " + std::to_string(region_offset) + ": " +
                             std::move(what));
}

Findings Scrub::findings() const {
  std::lock_guard lock(mutex_);
  return findings_;
}

}  // namespace perdura::commit
