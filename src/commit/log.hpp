// The redo log: segments of space on the medium, recycled when their versions are home.
//
//   segment   [block v7][block v7][block v7 commit][block v8 commit][stale or zero ...]
//
// A segment belongs to one writer at a time, which appends blocks. Every use of a segment has a
// generation; a block of another generation ends the segment. Invariants:
//  - A segment is reused only after the superblock says that its versions are home.
//  - A version counts when its commit block and all its other blocks are whole; the single barrier
//    after the commit block makes it durable.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "region/volume.hpp"

namespace perdura::commit {

/// Where a block of a committed version is.
struct BlockRef {
  u64 offset = 0;  ///< on the medium
  u32 run_count = 0;
  u32 data_bytes = 0;
  u32 block_bytes = 0;
};

/// The parts of a block in memory.
inline const std::byte* block_data(const std::byte* block) {
  return block + sizeof(format::LogBlockHeader);
}
inline const u64* block_runs(const std::byte* block, u64 data_bytes) {
  return reinterpret_cast<const u64*>(block_data(block) + data_bytes);
}

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
  u32 region = 0;
  std::atomic<u32> blocks_begun{0};

  std::mutex mutex;
  u64 chain = 0;       ///< sum of the checksums of the blocks flushed
  u64 line_count = 0;  ///< lines in the blocks flushed
  u64 log_bytes = 0;
  std::vector<BlockRef> blocks;
};

/// The segments of a region's log. Thread-safe.
///
/// On a medium that is full what is in the log can be brought home only by versions, and these need
/// log themselves. So some segments are kept from transactions, and versions that take them give
/// them back as soon as they are home: whenever a crash comes, so many are free once recovery has
/// brought the versions home. They carry a version of the largest transaction that is in the log.
class Log {
 public:
  struct Place {
    u64 offset = 0;  ///< of the segment on the medium
    u64 generation = 0;
    u32 index = 0;
  };

  Log(region::Volume& volume, u32 region, u64 limit_bytes);

  /// After recovery: blocks of `version` live in the segment at `offset`; kHeld: transactions do,
  /// and no version frees it before free_held().
  static constexpr u64 kHeld = ~u64{0};
  void adopt(u64 offset, u64 generation, u64 version_max);
  /// What recovered transactions did is part of `version`.
  void free_held(u64 version);
  /// Nothing of a version after `durable` is being written, nor was any whole: what was written of
  /// one never was, and its segments, which writers have left, are free. Versions up to `replayed`
  /// are home.
  void free_torn(u64 durable, u64 replayed);
  /// A version of so many lines fits what is free; more space is taken where it does not.
  Status make_room(u64 lines);
  bool fits(u64 lines) const;
  /// From now on a version of so many lines, at least, fits what is kept for versions.
  Status reserve(u64 lines);
  /// The lines of a version that fits for sure.
  u64 reserved_lines() const { return reserved_lines_.load(std::memory_order_relaxed); }
  /// When there is no space for another segment: brings versions home, so that theirs are free.
  /// False: there was none. nullptr: nothing does.
  void on_shortage(std::function<bool()> relieve);
  /// The medium had no space for more of it when it was asked last, and no room for a version has
  /// been found since.
  bool is_short() const { return is_short_.load(std::memory_order_relaxed); }

  /// A free segment for `version`, allocating one where none is free. It stays with the caller
  /// until release().
  Result<Place> take(u64 version) { return take(version, false); }
  /// The same for transactions, which leaves what is kept for versions.
  Result<Place> take_for_transactions(u64 version);
  void note_version(u32 index, u64 version);
  void release(u32 index);

  /// The generation before which no segment is needed once `replayed` is home.
  u64 live_generation_after(u64 replayed) const;
  /// The same where all is home and nobody writes any more, though writers have segments.
  u64 live_generation_at_end() const;
  /// The superblock says that versions up to `replayed` are home: recycle their segments, and give
  /// space beyond the limit back.
  void retire(u64 replayed);

  u64 capacity_bytes() const;
  /// Of the segments with transactions that are free once `version` is home.
  u64 transaction_bytes(u64 version) const;
  u64 limit_bytes() const { return limit_bytes_; }
  /// The opening that this log is written in: what it writes says so.
  u64 session() const { return session_; }
  bool over_limit() const { return capacity_bytes() > limit_bytes_; }

 private:
  struct Segment {
    u64 offset = 0;
    u64 generation = 0;
    u64 version_max = 0;
    u64 version_min = 0;  ///< nothing in it is older
    bool live = false;    ///< holds versions that are not home
    bool owned = false;   ///< a writer appends to it; then it is live
    bool has_transactions = false;
  };

  Result<Place> take(u64 version, bool for_transactions);
  /// So many segments, at least.
  Status have_free(std::unique_lock<std::mutex>& lock, u64 segments);
  Status grow();
  void give_back();
  u64 free_segments() const;
  u64 lines_in(u64 segments) const;
  u64 segments_for(u64 lines) const;

  region::Volume& volume_;
  const u32 region_;
  const u64 limit_bytes_;
  const u64 segment_bytes_;
  const u64 session_;
  const u64 lines_of_segment_;
  mutable std::mutex mutex_;
  u64 kept_for_versions_;          ///< segments; grows
  bool has_transactions_ = false;  ///< or had
  std::function<bool()> relieve_;
  std::atomic<u64> reserved_lines_{0};
  std::atomic<bool> is_short_{false};
  std::vector<Segment> segments_;
  u64 next_generation_ = 1;
};

/// One thread's stream of blocks. Not thread-safe.
///
/// Data come in pieces of up to 64 lines, gathered from where they are: on NVM straight to their
/// place in the log, on block media into a block in memory that is written at once. A piece with
/// fewer lines is the last of its block.
class LogWriter {
 public:
  static constexpr u64 kPieceLines = format::kLogPieceBytes / kLineBytes;

  LogWriter(Log& log, region::Volume& volume);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;

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
  void leave_segment();

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
  u64 data_place() const {
    return segment_.offset + segment_used_ + sizeof(format::LogBlockHeader);
  }
  bool make_room_slow();
  bool open_block();
  void close_block();
  bool flush(u32 flags);
  bool fail(const Status& status);

  Log& log_;
  media::Medium& medium_;
  const u64 store_id_;
  const u64 segment_bytes_;
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
  bool has_segment_ = false;
  Log::Place segment_;
  u64 segment_used_ = 0;
  Status failure_;

  // The open block; block_limit_ is 0 when none is.
  u64 block_limit_ = 0;
  std::byte* staging_ = nullptr;  ///< block media: the block's data
  u64 data_bytes_ = 0;
  u64 run_count_ = 0;
  u64 run_next_ = ~u64{0};
  u64 sum_count_ = 0;
};

/// The checksum that a header should have.
u64 header_checksum(const format::LogBlockHeader& header);

}  // namespace perdura::commit
