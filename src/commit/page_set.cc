#include "commit/page_set.hpp"

namespace perdura::commit {

Result<PageSet> PageSet::create(u64 region_bytes) {
  const u64 words = 1 + (region_bytes / kPageBytes + 63) / 64;
  PERDURA_ASSIGN(Mapping mapping, Mapping::anonymous(words * sizeof(u64)));
  return PageSet(std::move(mapping), region_bytes);
}

Result<track::DirtyMap> PageSet::leave_out_of(const track::DirtyMap& changes) const {
  PERDURA_ASSIGN(track::DirtyMap rest, track::DirtyMap::create(region_bytes_));
  changes.for_each_page([&](u64 page, u64 mask) {
    if (!contains(page)) rest.add_mask(page, mask);
  });
  return rest;
}

}  // namespace perdura::commit
