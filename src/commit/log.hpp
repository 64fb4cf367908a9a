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
  u32 data_offset = 0;
  u32 data_bytes = 0;
  u32 block_bytes = 0;
};

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
  u64 chain = 0;      ///< sum of the checksums of the blocks flushed
  u64 line_count = 0;  ///< lines in the blocks flushed
  u64 log_bytes = 0;
  std::vector<BlockRef> blocks;
};

/// The segments of a store's log. Thread-safe.
class Log {
 public:
  struct Place {
    u64 offset = 0;  ///< of the segment on the medium
    u64 generation = 0;
    u32 index = 0;
  };

  Log(region::Volume& volume, u64 limit_bytes);

  /// After recovery: blocks of `version` live in the segment at `offset`.
  void adopt(u64 offset, u64 generation, u64 version_max);

  /// A free segment for `version`, allocating one where none is free. It stays with the caller
  /// until release().
  Result<Place> take(u64 version);
  void note_version(u32 index, u64 version);
  void release(u32 index);

  /// The generation before which no segment is needed once `replayed` is home.
  u64 live_generation_after(u64 replayed) const;
  /// The superblock says that versions up to `replayed` are home: recycle their segments, and give
  /// space beyond the limit back.
  Status retire(u64 replayed);

  u64 capacity_bytes() const;
  u64 limit_bytes() const { return limit_bytes_; }

 private:
  struct Segment {
    u64 offset = 0;
    u64 generation = 0;
    u64 version_max = 0;
    bool live = false;   ///< holds versions that are not home
    bool owned = false;  ///< a writer appends to it
  };

  Status grow();
  Status give_back();

  region::Volume& volume_;
  const u64 limit_bytes_;
  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  u64 next_generation_ = 1;
};

/// One thread's stream of blocks. Not thread-safe.
class LogWriter {
 public:
  LogWriter(Log& log, region::Volume& volume);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;

  void begin(VersionInProgress& version);

  /// Make room for 64 more lines; a failure sticks until begin().
  bool make_room() {
    if (fits(kLinesPerPage)) [[likely]]
      return true;
    return flush(0) && fits(kLinesPerPage);
  }
  /// Where the next line goes. Valid after make_room for 64 lines.
  std::byte* cursor() const { return data_ + data_bytes_; }
  /// The `count` lines at the cursor are region lines [first_line, first_line + count).
  void append(u64 first_line, u64 count) {
    if (first_line == run_next_ && run_count_ != 0 &&
        format::run_count(runs_[run_count_ - 1]) + count <= format::kRunCountMax) {
      runs_[run_count_ - 1] += count << format::kRunCountShift;
    } else {
      runs_[run_count_++] = format::make_run(first_line, count);
    }
    run_next_ = first_line + count;
    data_bytes_ += count * kLineBytes;
  }

  /// Write what is staged and wait until a barrier of any thread covers this writer's blocks.
  Status finish();
  /// The same with the commit mark, after every other writer of the version finished.
  Status finish_with_commit();
  /// The version failed: never append to what may be torn.
  void abandon();

 private:
  static constexpr size_t kBuffers = 4;

  bool fits(u64 lines) const {
    return round_up(sizeof(format::LogBlockHeader) + (run_count_ + lines) * sizeof(u64),
                    write_bytes_) +
               round_up(data_bytes_ + lines * kLineBytes, write_bytes_) <=
           block_bytes_max_;
  }
  void reset_block();
  bool flush(u32 flags);
  Status place(u32 block_bytes);
  Status status() const { return failure_; }

  Log& log_;
  media::Medium& medium_;
  const u64 store_id_;
  const u64 write_bytes_;
  const u64 block_bytes_max_;
  const u64 index_bytes_;  ///< room before the data in a buffer
  const size_t buffer_count_;
  std::unique_ptr<media::WriteQueue> queue_;
  AlignedBuffer buffers_;
  std::unique_ptr<u64[]> runs_;
  size_t buffer_ = 0;
  std::byte* data_ = nullptr;
  u64 data_bytes_ = 0;
  u64 run_count_ = 0;
  u64 run_next_ = ~u64{0};

  VersionInProgress* version_ = nullptr;
  bool has_segment_ = false;
  Log::Place segment_;
  u64 segment_used_ = 0;
  Status failure_;
};

/// The checksum of a block's header and runs; `header` is followed by its runs.
u64 block_checksum(const format::LogBlockHeader* header);
u64 block_identity(const format::LogBlockHeader& header);

}  // namespace perdura::commit
