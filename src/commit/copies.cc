#include "commit/copies.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "commit/write_buffers.hpp"

namespace perdura::commit {

using format::Extent;
using region::HomeMap;

namespace {
constexpr u64 kLevelBytes = kMiB;
}  // namespace

Result<std::unique_ptr<Copies>> Copies::create(region::Volume& volume, const region::Region& region,
                                               u64 opened) {
  PERDURA_ASSIGN(Mapping sums, Mapping::anonymous(region.limit() / kPageBytes * sizeof(u64)));
  PERDURA_ASSIGN(PageSet levelled, PageSet::create(region.limit()));
  std::unique_ptr<Copies> copies(
      new Copies(volume, region, opened, std::move(sums), std::move(levelled)));
  copies->look_again();
  return copies;
}

void Copies::look_again() {
  auto home = region_.home();
  if (home == seen_) return;
  std::vector<Extent> other = home->extents();
  for (Extent& extent : other) {
    const u64 distance = format::home_bytes(extent.length);
    extent.medium_offset += opened_ == 0 ? distance : -distance;
  }
  maps_[opened_] = home;
  maps_[opened_ ^ 1] = std::make_shared<const HomeMap>(std::move(other));
  seen_ = std::move(home);
}

struct Copies::Level {
  const HomeMap& newest;
  const HomeMap& older;
  const std::atomic<bool>& stop;
  AlignedBuffer window{kLevelBytes};
  WriteBuffers writes;
};

Status Copies::level(u64 newest, const std::atomic<bool>& stop) {
  look_again();
  Level work{.newest = at(format::copy_of(newest)),
             .older = at(format::copy_of(newest) ^ 1),
             .stop = stop,
             .writes = {volume_.medium(), kLevelBytes, PERDURA_SITE("levelled copy")}};
  for (size_t i = 0; i < work.newest.extents().size(); ++i) PERDURA_TRY(level(work, i));
  return work.writes.drain();
}

Status Copies::level(Level& work, size_t extent) {
  const Extent& from = work.newest.extents()[extent];
  const Extent& to = work.older.extents()[extent];
  media::LinearMedium& medium = volume_.linear();
  const u64 table_bytes = format::table_bytes(from.length);
  AlignedBuffer right(table_bytes);
  AlignedBuffer found(table_bytes);
  std::vector<bool> has_copied(table_bytes / kPageBytes);  // pages whose sums are there
  PERDURA_TRY(medium.read(from.medium_offset + from.length, right.span()));
  // What cannot be read is written anew, as is what does not fit.
  const u64 table_place = to.medium_offset + to.length;
  const media::ReadRequest table{table_place, found.span()};
  const bool readable = bool(medium.load({&table, 1}));
  const auto sum_in = [](const AlignedBuffer& table, u64 index) {
    u64 value = 0;
    std::memcpy(&value, table.data() + index * sizeof value, sizeof value);
    return value;
  };
  for (u64 at = 0; at < from.length && !work.stop.load(); at += kLevelBytes) {
    const u64 length = std::min(kLevelBytes, from.length - at);
    const media::ReadRequest older{to.medium_offset + at, work.window.first(length)};
    const bool loaded = readable && medium.load({&older, 1});
    for (u64 page = 0; page < length; page += kPageBytes) {
      const u64 index = (at + page) / kPageBytes;
      const u64 number = from.region_offset / kPageBytes + index;
      const u64 sum = this->sum(number) = sum_in(right, index);
      if (loaded && sum == sum_in(found, index) && !levelled_.contains(number) &&
          medium.whole(older.offset + page, work.window.data() + page, kPageBytes,
                       PERDURA_SITE("page of the older copy"), [&](const std::byte* bytes) {
                         return page_checksum(bytes, number * kLinesPerPage) == sum;
                       }))
        continue;
      // Before it is in flight: where the rest fails no barrier need cover it, however it reads.
      levelled_.add(number);
      has_copied[index * sizeof(u64) / kPageBytes] = true;
      PERDURA_ASSIGN(std::byte* const into, work.writes.room(older.offset + page, kPageBytes));
      PERDURA_TRY(medium.read(from.medium_offset + at + page, {into, kPageBytes}));
    }
  }
  for (u64 at = 0; at < table_bytes && !work.stop.load(); at += kPageBytes) {
    if (readable && !has_copied[at / kPageBytes] &&
        medium.whole(table_place + at, found.data() + at, kPageBytes,
                     PERDURA_SITE("page sums of the older copy"), [&](const std::byte* bytes) {
                       return std::memcmp(right.data() + at, bytes, kPageBytes) == 0;
                     }))
      continue;
    PERDURA_ASSIGN(std::byte* const into, work.writes.room(table_place + at, kPageBytes));
    std::memcpy(into, right.data() + at, kPageBytes);
  }
  return {};
}

}  // namespace perdura::commit
