// Transactions in the log: a thread's records, one for each commit, durable before it is told.
//
// What is on the medium if power fails: a record that was not whole never was; the barrier behind
// each makes it durable before another one of its slot is written.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "commit/log.hpp"
#include "commit/log_reader.hpp"
#include "format/transaction_format.hpp"

namespace perdura::commit {

/// A use of a segment: which one of which session. Generations alone would not do: a session that
/// finds the beginning of a segment torn does not learn of its last use, and may number its own
/// alike.
struct SegmentUse {
  u64 session;
  u64 generation;
};

/// Of a record with its entries. One of another use of the segment, or of another place, has
/// another one.
u64 record_checksum(const format::TransactionRecord& record, u64 place, const SegmentUse& use);

/// What a transaction did, as a record in the making.
class TransactionBuilder {
 public:
  explicit TransactionBuilder(u64 segment_bytes);

  /// Begin a record; it takes words until the next begin().
  void begin() { words_ = sizeof(format::TransactionRecord) / sizeof(u64); }
  /// Place for the next `count` words; kNoSpace when the record becomes too large.
  Result<u64*> take(u64 count) {
    if (count > words_max_ - words_) [[unlikely]]
      return too_large();
    u64* const place = reinterpret_cast<u64*>(record_.data()) + words_;
    words_ += count;
    return place;
  }
  u64 bytes() const { return words_ * sizeof(u64); }
  std::span<const u64> entries() const {
    constexpr u64 kHeaderWords = sizeof(format::TransactionRecord) / sizeof(u64);
    return {reinterpret_cast<const u64*>(record_.data()) + kHeaderWords, words_ - kHeaderWords};
  }
  /// With padding.
  u64 length() const { return round_up(bytes(), kLineBytes); }

  struct Commit {
    u64 time;
    u16 slot;
    u64 sequence;
    u64 durable_version;  ///< on which it relies
  };
  /// `behind`: so many records of its stream before it are perhaps not durable. Without the
  /// checksum it is no record.
  media::Bytes set_header(const Commit& commit, u64 behind);
  /// That of a record at this place, in this use of a segment.
  void set_checksum(u64 place, const SegmentUse& use);

 private:
  Failure too_large() const;

  AlignedBuffer record_;
  const u64 words_max_;
  u64 words_ = 0;
};

/// The segment that records go to.
class TransactionSegment {
 public:
  TransactionSegment(Log& log, region::Volume& volume, u32 region);
  ~TransactionSegment() { leave(); }
  TransactionSegment(const TransactionSegment&) = delete;

  /// Whether `bytes` more are left of it, for `version` at the latest.
  bool has_room(u64 bytes, u64 version);
  /// Another one. Its header, a multiple of the medium's write unit, is to be written before its
  /// first record counts.
  Status take(u64 version);
  media::Bytes header(u64 first_sequence);
  void leave();

  u64 place() const { return segment_.offset + used_; }
  u64 begin() const { return segment_.offset; }
  u64 used() const { return used_; }
  SegmentUse current_use() const { return {log_.session(), segment_.generation}; }
  void use(u64 bytes) { used_ += bytes; }

 private:
  Log& log_;
  region::Volume& volume_;
  const u32 region_;
  const u64 bytes_;
  const u64 header_bytes_;
  AlignedBuffer header_;
  bool taken_ = false;
  Log::Place segment_;
  u64 version_ = 0;  ///< that the log knows of
  u64 used_ = 0;
};

/// Byte-addressable media: one stream of records, each durable before the next. Not thread-safe.
class TransactionWriter {
 public:
  TransactionWriter(Log& log, region::Volume& volume, u32 region)
      : medium_(volume.medium()), segment_(log, volume, region) {}

  /// For a record of so many bytes, the stream's `sequence`; `version` will hold what it does, at
  /// the latest. Where this fails there is no record.
  Status make_room(u64 length, u64 version, u64 sequence);

  /// Barriers: one behind the record; one before its first line as well; or one behind each word.
  enum class Steps { kOne, kRecordThenMark, kEachWord };
  /// Make it durable, after make_room. On failure it may be durable or not: the stream's next
  /// record is to rely on a version that says that it has this one, and goes to another segment.
  Status commit(TransactionBuilder& record, const TransactionBuilder::Commit& commit, Steps steps);

 private:
  Status write(TransactionBuilder& record, const TransactionBuilder::Commit& commit, Steps steps);
  Status write_before(media::Bytes record, u64 place, u64 bytes, Steps steps);

  media::Medium& medium_;
  TransactionSegment segment_;
};

/// Block media: the records of all threads, one behind the other. Those that wait at the same time
/// are written with one barrier (group commit).
///
/// What is on the medium if power fails: the records up to some place, whole. A page that is not
/// full is written again with what follows: its beginning stays the same.
class TransactionStream {
 public:
  TransactionStream(Log& log, region::Volume& volume, u32 region);
  /// What was appended becomes durable, unless the medium fails.
  ~TransactionStream();

  /// From now on records become durable also when nobody waits for them, one flush behind another.
  /// Where that fails `take_version` is called, in a thread of the stream, until it has mended
  /// that.
  Status write_behind(std::function<void()> take_version);
  /// Nobody writes behind any more, nor is a version taken. What was appended stays to be flushed.
  void end_write_behind();
  /// Held by who appends: the order of records is that of their times.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// With the lock, which is given away meanwhile: room for a record, of `version` at the latest.
  Status make_room(std::unique_lock<std::mutex>& lock, u64 length, u64 version);
  /// With the lock since there is room. Returns what to wait for.
  u64 append(TransactionBuilder& record, const TransactionBuilder::Commit& commit);
  /// Until it is durable.
  Status wait(u64 position);
  /// Which failure keeps records out, counted from 1; 0: none does.
  u64 failure();
  /// With the lock.
  bool has_failed() const { return failed_.has_value(); }
  /// A version has all that was appended before that failure: what failed is not needed any more,
  /// and records follow in another segment.
  void mend(u64 failure);
  /// What to wait for until all commits up to a time are durable; 0: they are.
  u64 position_behind(u64 time);
  /// Of the last record that is durable; 0: of none yet.
  u64 durable_time() const { return durable_time_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;
  Status flush(std::unique_lock<std::mutex>& lock);
  bool stay_awake(std::unique_lock<std::mutex>& lock, u64 position, Clock::time_point end) const;
  void run_write_behind();
  void have_mended(std::unique_lock<std::mutex>& lock);

  media::Medium& medium_;
  const u64 write_bytes_;
  std::mutex mutex_;
  std::condition_variable flushed_;
  std::condition_variable appended_;
  std::thread behind_;
  std::function<void()> take_version_;  ///< of that thread
  std::chrono::milliseconds patience_;  ///< of that thread, before it calls again
  bool ending_ = false;
  TransactionSegment segment_;
  AlignedBuffer content_;              ///< of the segment
  AlignedBuffer tail_;                 ///< its last page, while it is written
  u64 written_ = 0;                    ///< in the segment
  u64 appended_total_ = 0;             ///< since the beginning
  std::atomic<u64> durable_total_{0};  ///< stored to with the lock
  u64 appended_time_ = 0;
  std::atomic<u64> durable_time_{0};  ///< of the last record that is durable
  u64 appended_sequence_ = 0;
  u64 durable_sequence_ = 0;
  u64 company_ = 1;      ///< threads that commit at the same time, as it seems
  bool is_new_ = false;  ///< the segment has no record yet
  bool flushing_ = false;
  std::chrono::nanoseconds flush_time_{};  ///< that the last one took
  std::optional<Failure> failed_;          ///< no record may follow before mend()
  u64 failures_ = 0;
};

/// A record of the log.
struct FoundTransaction {
  u64 segment;  ///< on the medium
  u64 offset;   ///< of the record, on the medium
  u64 time;
  u32 slot;
  u64 sequence;
  std::vector<u64> entries;

  u64 bytes() const { return sizeof(format::TransactionRecord) + entries.size() * sizeof(u64); }
};

/// The records of a recovered log, in the order of their commits. kCorrupt where one is not whole
/// that others follow, or relies on a later version than the one that is recovered.
Result<std::vector<FoundTransaction>> read_transactions(region::Volume& volume,
                                                        const RecoveredLog& recovered,
                                                        u64 durable_version);

}  // namespace perdura::commit
