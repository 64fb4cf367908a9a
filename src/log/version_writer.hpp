// Versions in the log: each a set of blocks, that one thread or several write.
//
// What is on the medium if power fails: a version counts when its commit block and all its other
// blocks are whole; the single barrier after the commit block makes it durable.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "log/block.hpp"
#include "log/open_segment.hpp"
#include "region/volume.hpp"

namespace perdura::log {

/// A committed version in the log.
struct LoggedVersion {
  u64 number = 0;
  u64 log_bytes = 0;
  std::vector<BlockRef> blocks;
};

/// A version while its blocks are written, perhaps by several writers.
struct VersionInProgress {
  u64 number = 0;
  u64 ticket = 0;
  std::atomic<u32> blocks_begun{0};

  std::mutex mutex;
  u64 chain = 0;       ///< sum of the checksums of the blocks flushed
  u64 line_count = 0;  ///< lines in the blocks flushed
  u64 log_bytes = 0;
  std::vector<BlockRef> blocks;
};

/// One thread's stream of blocks. Not thread-safe.
///
/// Data come in pieces of up to 64 lines, gathered from where they are: on NVM straight to their
/// place in the log, on block media into a block in memory that is written at once. A piece with
/// fewer lines is the last of its block.
class VersionWriter {
 public:
  VersionWriter(Space& space, region::Volume& volume, u32 region);
  VersionWriter(const VersionWriter&) = delete;

  void begin(VersionInProgress& version);

  /// Make room for another piece; a failure sticks until begin().
  bool make_room() {
    if (fits_piece()) [[likely]]
      return true;
    return make_room_slow();
  }
  /// After make_room: copy the next piece to its place and return its checksum. It counts once keep
  /// says which lines these are: a caller that learns that one of them changed meanwhile writes
  /// another piece instead.
  u64 write(const media::Gather& gather);
  void keep(std::span<const u64> lines, u64 sum);
  /// The same of lines that follow each other.
  void keep_run(u64 first_line, u64 count, u64 sum);

  /// Between versions: what it wrote last needs no place any more once it is home.
  void leave_segment() { segment_.leave(); }

  /// Write what is left and wait until a barrier of any thread covers this writer's blocks.
  Status finish();
  /// The same with the commit mark, after every other writer of the version finished.
  Status finish_with_commit();
  /// The version failed: never append to what may be torn.
  void abandon();

 private:
  static constexpr size_t kBuffers = 4;

  bool fits_piece() const {
    return sizeof(format::LogBlockHeader) + data_bytes_ + format::kLogPieceBytes +
                   (run_count_ + kPieceLines) * sizeof(u64) <=
               block_limit_ &&
           is_aligned(data_bytes_, format::kLogPieceBytes);
  }
  u64 data_place() const { return segment_.place() + sizeof(format::LogBlockHeader); }
  bool make_room_slow();
  bool open_block();
  void close_block();
  bool flush(u32 flags);
  bool fail(const Status& status);

  media::Medium& medium_;
  const u64 block_bytes_max_;
  const u64 write_bytes_;
  const bool in_place_;  ///< NVM
  AlignedBuffer buffers_;
  /// After the buffers: it waits for what is in flight before these go.
  std::unique_ptr<media::WriteQueue> queue_;
  size_t buffer_ = 0;
  std::unique_ptr<u64[]> runs_;
  std::unique_ptr<u64[]> sums_;  ///< of the pieces

  VersionInProgress* version_ = nullptr;
  OpenSegment segment_;
  Status failure_;

  // The open block; block_limit_ is 0 when none is.
  u64 block_limit_ = 0;
  std::byte* staging_ = nullptr;  ///< block media: the block's data
  u64 data_bytes_ = 0;
  u64 run_count_ = 0;
  u64 run_next_ = ~u64{0};
  u64 sum_count_ = 0;
};

}  // namespace perdura::log
