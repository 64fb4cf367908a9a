// Where an object's copy goes when another object needs its place: a region of another store,
// usually on an SSD, which holds copies and nothing else. What of it is an object's the heads in
// the first store say; so a move there or back is one head, and the space of what never became one
// is free by itself.
//
//   the first store   [head: copy in store 7, at 1 MiB]      ...
//   the overflow      [whose copies these are]  [copy]  [free]  [copy]  ...
//
// Invariants:
//  - The region of an overflow store is one other region's, whose store and number it has durably
//    before it has a copy. A head names the overflow store by its id. So each is refused with
//    another one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "format/object_format.hpp"
#include "object/object_space.hpp"

namespace perdura::object {

/// Used by one thread at a time.
class OverflowStore {
 public:
  /// `volume` outlives it. The region is new, or was one before.
  OverflowStore(region::Volume& volume, u32 region)
      : volume_(volume), region_(region), space_(volume, region, 0) {}

  /// It is that of region `number` of the store with this superblock, or can become so: it has been
  /// nobody's; nullptr: of one that is not there yet. kMisuse where it is another one's.
  Status check_whose(const format::Superblock* first, u32 number);
  bool is_bound() const { return is_bound_; }
  /// After that: it is so from now on.
  Status bind(const format::Superblock& first, u32 number);

  /// As heads name it.
  u64 id() const { return volume_.store_id(); }
  const std::string& name() const { return volume_.name(); }
  ObjectSpace& space() { return space_; }
  media::LinearMedium& medium() const { return volume_.linear(); }

  /// An image, durable when this returns. `page_sums`: the checksums of exactly what was written.
  Status write(u64 place, std::span<const std::byte> image, std::vector<u64>& page_sums);

 private:
  static constexpr u64 kPieceBytes = 256 * kKiB;
  static constexpr u64 kPieces = 16;  ///< in flight

  Status write_record(u64 place, const format::Superblock& first, u32 number);
  Status submit(u64 place, std::span<const std::byte> image, std::vector<u64>& page_sums);
  Failure is_anothers() const;

  region::Volume& volume_;
  const u32 region_;
  ObjectSpace space_;
  bool is_bound_ = false;
  AlignedBuffer buffer_;
  std::unique_ptr<media::WriteQueue> queue_;
};

/// What the beginning of an overflow region's heads says; all zeros where it is not whole.
Result<format::OverflowRecord> read_overflow_record(region::Volume& volume, u32 region);

}  // namespace perdura::object
