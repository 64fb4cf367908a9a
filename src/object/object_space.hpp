// Which space of a region is nobody's: of a region of objects, or of one in an overflow store.
#pragma once

#include <algorithm>
#include <map>

#include "region/volume.hpp"

namespace perdura::object {

/// Of the region's space, for so many bytes: at least one page.
constexpr u64 pages_bytes(u64 bytes) { return std::max(round_up(bytes, kPageBytes), kPageBytes); }

/// Not thread-safe. Where memory is short nothing is allocated; what was can be given back.
class ObjectSpace {
 public:
  /// `volume` outlives it. `bytes_max`: that the region has in all; 0: what the medium has.
  ObjectSpace(region::Volume& volume, u32 region, u64 bytes_max)
      : volume_(volume), region_(region), bytes_max_(bytes_max == 0 ? ~u64{0} : bytes_max) {}

  /// All of it is free, as far as the region has some already.
  void read();
  /// `bytes` in whole pages, which nobody has until a head names them; given back by who cannot use
  /// them; where it does not move to an overflow store the last piece that is large enough, so that
  /// what stays there divides least of what others need in one piece. kNoSpace where the region has
  /// no such piece left and can have no more.
  Result<u64> allocate(u64 bytes, bool moves = true);
  /// None of it is free already.
  void give_back(u64 place, u64 bytes) noexcept;
  /// False where not all of it is free. Else it is as allocated.
  bool take(u64 place, u64 bytes);

  const std::map<u64, u64>& free() const { return free_; }  ///< by place: bytes
  region::Volume& volume() const { return volume_; }
  u32 region() const { return region_; }

 private:
  Result<u64> place_for(u64 bytes, bool moves) const;
  Status grow(u64 bytes);
  void reserve();

  using Pieces = std::map<u64, u64>;
  region::Volume& volume_;
  const u32 region_;
  const u64 bytes_max_;
  Pieces free_;   ///< by place: bytes
  Pieces spare_;  ///< one for each that is allocated, which may become a piece again
  u64 next_spare_ = 0;
};

}  // namespace perdura::object
