// Where the chunks of a region are on the medium, and which places are free.
//
//   pieces   | chunk | chunk | nodes.... | chunk | free | free |   | chunk | …
//                                                  ^ next
//
// Nothing is overwritten that a kept version refers to. Places are given out in rising order from
// the last one on and around (next fit, SoftPM §4), so that what belongs to a version lies
// together. Map nodes share chunks of their own. What is free is known in memory only: opening
// derives it from the maps of the kept versions.
#pragma once

#include <mutex>
#include <vector>

#include "format/remap_format.hpp"
#include "region/volume.hpp"

namespace perdura::region {

/// Thread-safe.
class ChunkSpace {
 public:
  /// `over_provisioning`: space beyond what the region's content needs, percent. One that is
  /// `read_only` promises what it does not have: nothing is ever written.
  ChunkSpace(Volume& volume, const format::RegionRecord& record, u32 over_provisioning,
             bool read_only = false);

  u64 chunk_bytes() const { return record_.chunk_bytes; }
  u64 region() const { return record_.region; }

  /// Whether all of [place, place + length) is for chunks, and aligned as the length says.
  bool holds(u64 place, u64 length) const;
  /// While opening: what is at `place` is in use. False when it was already.
  bool adopt(u64 place, u64 length);

  /// A place for a chunk, or for a map node. The medium grows where none is free.
  Result<u64> take_chunk();
  Result<u64> take_node();
  /// What is left of the chunk that the last node is in: no node goes there any more.
  struct Rest {
    u64 place = 0;
    u64 length = 0;
  };
  Rest end_node_chunk();
  void release(u64 place, u64 length);
  /// While opening: all that is free, which is in use from then on. Not more than a chunk each.
  struct Free {
    u64 place = 0;
    u64 length = 0;
  };
  std::vector<Free> take_all_free();

  /// Space for `length` more bytes of the region's content.
  Status promise(u64 length);

  u64 total_bytes() const;
  u64 free_bytes() const;

 private:
  struct Piece {
    u64 medium_offset;
    u64 length;
    u64 first_unit;
  };
  static constexpr u64 kUnitBytes = format::kNodeBytes;
  static constexpr u64 kNone = ~u64{0};

  u64 unit_of(u64 place, u64 length) const;
  u64 place_of(u64 unit) const;
  void expect_piece(u64 length);
  void add_piece(const format::Extent& extent) noexcept;
  Status grow(u64 chunks);
  Result<u64> take_chunk_locked();
  u64 find_free_chunk();
  bool is_free(u64 first_unit, u64 count) const;
  void mark(u64 first_unit, u64 count, bool used);

  Volume& volume_;
  const format::RegionRecord record_;
  const u32 over_provisioning_;
  const bool read_only_;
  const u64 chunk_units_;
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;  ///< in the order in which they came
  std::vector<u64> used_;      ///< a bit for each unit
  u64 units_ = 0;
  u64 next_ = 0;       ///< unit at which the search for a free chunk begins
  u64 node_unit_ = 0;  ///< the next map node goes there
  u64 node_units_left_ = 0;
  u64 promised_bytes_ = 0;
};

}  // namespace perdura::region
