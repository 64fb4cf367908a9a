#include "region/home_map.hpp"

#include <algorithm>

namespace perdura::region {

using format::Extent;

HomeMap::HomeMap(std::vector<Extent> extents) : extents_(std::move(extents)) {
  std::sort(extents_.begin(), extents_.end(),
            [](const Extent& a, const Extent& b) { return a.region_offset < b.region_offset; });
}

namespace {

Result<std::shared_ptr<const HomeMap>> checked(const Volume& volume,
                                               const format::RegionRecord& record,
                                               std::vector<Extent> mine) {
  for (const Extent& extent : mine) {
    if (extent.region_offset > record.limit_bytes ||
        extent.length > record.limit_bytes - extent.region_offset)
      return Failure{Code::kCorrupt, "the directory of '" + volume.name() +
                                         "' places an extent outside its region"};
  }
  return std::make_shared<const HomeMap>(std::move(mine));
}

}  // namespace

Result<std::shared_ptr<const HomeMap>> HomeMap::of(const Volume& volume,
                                                   const format::RegionRecord& record) {
  return checked(volume, record, volume.extents(format::ExtentKind::kHome, record.region));
}

Result<std::shared_ptr<const HomeMap>> HomeMap::of_copy(const Volume& volume,
                                                        const format::RegionRecord& record,
                                                        u64 copy) {
  std::vector<Extent> mine = volume.extents(format::ExtentKind::kCopies, record.region);
  for (Extent& extent : mine) extent = format::home_in_copy(extent, copy);
  return checked(volume, record, std::move(mine));
}

const Extent* HomeMap::find(u64 region_offset) const {
  auto after = std::upper_bound(
      extents_.begin(), extents_.end(), region_offset,
      [](u64 offset, const Extent& extent) { return offset < extent.region_offset; });
  if (after == extents_.begin()) return nullptr;
  const Extent& extent = *(after - 1);
  return region_offset < extent.region_offset + extent.length ? &extent : nullptr;
}

u64 HomeMap::backed_until(u64 region_offset) const {
  while (const Extent* extent = find(region_offset))
    region_offset = extent->region_offset + extent->length;
  return region_offset;
}

u64 HomeMap::backed_bytes() const {
  u64 sum = 0;
  for (const Extent& extent : extents_) sum += extent.length;
  return sum;
}

}  // namespace perdura::region
