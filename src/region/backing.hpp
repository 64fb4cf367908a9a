// What is behind a region's memory: which of its parts are there when it is mapped, whether these
// are views of what is durable, and where a part that is new will be.
#pragma once

#include <memory>
#include <vector>

#include "region/chunk_space.hpp"
#include "region/home_map.hpp"
#include "region/volume.hpp"

namespace perdura::region {

/// Called by one thread at a time.
class Backing {
 public:
  virtual ~Backing() = default;

  /// When the region is mapped.
  virtual Result<std::vector<format::Extent>> parts() const = 0;
  /// Parts that are there are private views of their extents on the medium; else memory that
  /// whoever opens the region loads.
  virtual bool has_home() const = 0;
  /// Space for a part of [offset, end), of which the region has none: from its beginning on, but as
  /// long, and with as much around it, as the medium wants. `now` is what the region has.
  virtual Result<format::Extent> take(u64 offset, u64 end, const HomeMap& now) = 0;
};

/// A home image. `volume` outlives it, in all of these.
std::unique_ptr<Backing> home_backing(Volume& volume, const format::RegionRecord& record);
/// One copy of a region that has two.
std::unique_ptr<Backing> copy_backing(Volume& volume, const format::RegionRecord& record, u64 copy);
/// Chunks, of which the first `backed_bytes` hold something.
std::unique_ptr<Backing> chunk_backing(ChunkSpace& space, const format::RegionRecord& record,
                                       u64 backed_bytes);
/// Nothing: of a region without a medium.
std::unique_ptr<Backing> no_backing();

}  // namespace perdura::region
