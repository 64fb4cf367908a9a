// Where the parts of a region are on the medium.
#pragma once

#include <memory>
#include <vector>

#include "region/volume.hpp"

namespace perdura::region {

/// Where the pages of a region live on the medium. Immutable; sorted by region_offset.
class HomeMap {
 public:
  explicit HomeMap(std::vector<format::Extent> extents);
  static Result<std::shared_ptr<const HomeMap>> of(const Volume& volume,
                                                   const format::RegionRecord& record);

  /// The same of one copy of a region that has two.
  static Result<std::shared_ptr<const HomeMap>> of_copy(const Volume& volume,
                                                        const format::RegionRecord& record,
                                                        u64 copy);

  /// The extent that holds `region_offset`, or nullptr.
  const format::Extent* find(u64 region_offset) const;
  /// Of a page in `extent`: where its bytes and its checksum are.
  static u64 page_place(const format::Extent& extent, u64 region_offset) {
    return extent.medium_offset + (region_offset - extent.region_offset);
  }
  static u64 checksum_place(const format::Extent& extent, u64 page_offset) {
    return extent.medium_offset + extent.length +
           (page_offset - extent.region_offset) / kPageBytes * sizeof(u64);
  }
  const std::vector<format::Extent>& extents() const { return extents_; }
  /// Where the backed part that holds `region_offset` ends; `region_offset` if none does.
  u64 backed_until(u64 region_offset) const;
  u64 backed_bytes() const;

 private:
  std::vector<format::Extent> extents_;
};

}  // namespace perdura::region
