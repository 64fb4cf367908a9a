// Both copies of a region on the medium: where they are, and the checksums of the newest version's
// pages, which are the same in both but for what the older copy lacks.
#pragma once

#include <atomic>
#include <memory>

#include "base/mapping.hpp"
#include "commit/page_set.hpp"
#include "region/region.hpp"

namespace perdura::commit {

class Copies {
 public:
  /// `opened`: the copy that the region views. Both outlive it.
  static Result<std::unique_ptr<Copies>> create(region::Volume& volume,
                                                const region::Region& region, u64 opened);

  u64 opened() const { return opened_; }
  /// The region may have grown. Not while a map is used.
  void look_again();
  const region::HomeMap& at(u64 copy) const { return *maps_[copy]; }
  /// Of the newest version, once they were levelled.
  u64& sum(u64 page) { return sums_.as<u64>()[page]; }

  /// Make the older copy what the newest one is: a crash may have left anything in it. A page of it
  /// stays as it is where it has the checksum of the newest one's, and fits it; all others are
  /// copied, with their checksums, whatever these say. Nobody believes it before a barrier. Where
  /// it fails it may be tried again, and copies again what it had copied: of that some may be in
  /// flight still, so that it reads right and no barrier covers it. `stop` ends it early, without a
  /// failure.
  Status level(u64 newest, const std::atomic<bool>& stop);

 private:
  struct Level;

  Copies(region::Volume& volume, const region::Region& region, u64 opened, Mapping sums,
         PageSet levelled)
      : volume_(volume),
        region_(region),
        opened_(opened),
        sums_(std::move(sums)),
        levelled_(std::move(levelled)) {}
  Status level(Level& work, size_t extent);

  region::Volume& volume_;
  const region::Region& region_;
  const u64 opened_;
  Mapping sums_;
  PageSet levelled_;  ///< pages that level() has copied, or begun to
  std::shared_ptr<const region::HomeMap> seen_;
  std::shared_ptr<const region::HomeMap> maps_[2];
};

}  // namespace perdura::commit
