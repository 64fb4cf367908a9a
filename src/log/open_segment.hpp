// The segment that a stream of blocks or records appends to.
#pragma once

#include "base/assert.hpp"
#include "format/format.hpp"
#include "log/space.hpp"
#include "region/volume.hpp"

namespace perdura::log {

/// Of one stream, which leaves it when it is full, when what it wrote there failed, or when it has
/// nothing to append for a while. Not thread-safe.
class OpenSegment {
 public:
  OpenSegment(Space& space, region::Volume& volume, u32 region)
      : space_(space),
        store_id_(volume.store_id()),
        bytes_(volume.segment_bytes()),
        region_(region) {}
  ~OpenSegment() { leave(); }
  OpenSegment(const OpenSegment&) = delete;

  /// Bytes; 0 where there is no segment.
  u64 left() const { return taken_ ? bytes_ - used_ : 0; }
  /// Another one, to hold what is needed until `version` is home.
  Status take(Content content, u64 version);
  /// What follows is needed until `version` is home. With a segment.
  void note(u64 version);
  void leave();

  u64 begin() const { return place_.offset; }  ///< on the medium
  u64 place() const { return place_.offset + used_; }
  u64 used() const { return used_; }
  u64 length() const { return bytes_; }
  const SegmentUse& current_use() const { return place_.use; }
  /// So much more of it has content.
  void advance(u64 bytes) {
    PERDURA_ASSERT(bytes <= left());
    used_ += bytes;
  }
  /// What each block at place() says of where it lies.
  void stamp(format::LogBlockHeader& header) const;

 private:
  Space& space_;
  const u64 store_id_;
  const u64 bytes_;
  const u32 region_;
  bool taken_ = false;
  Space::Place place_;
  u64 version_ = 0;  ///< that the space knows of
  u64 used_ = 0;
};

}  // namespace perdura::log
