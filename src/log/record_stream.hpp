// Group commit: the records of all threads of a region, one behind the other.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/company.hpp"
#include "log/record.hpp"

namespace perdura::log {

/// Block media: the records of all threads, one behind the other. Those that wait at the same time
/// are written with one barrier (group commit).
///
/// What is on the medium if power fails: the records up to some place, whole. A page that is not
/// full is written again with what follows: its beginning stays the same.
class RecordStream {
 public:
  RecordStream(Space& space, region::Volume& volume, u32 region);
  /// What was appended becomes durable, unless the medium fails.
  ~RecordStream();

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
  u64 append(RecordBuilder& record, const RecordBuilder::Commit& commit);
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
  using Clock = Company::Clock;
  Status flush(std::unique_lock<std::mutex>& lock);
  void run_write_behind();
  void have_mended(std::unique_lock<std::mutex>& lock);

  Status await(u64 position);

  Space& space_;
  media::Medium& medium_;
  const u64 write_bytes_;
  std::mutex mutex_;
  std::condition_variable flushed_;
  std::condition_variable appended_;
  std::thread behind_;
  std::function<void()> take_version_;  ///< of that thread
  std::chrono::milliseconds patience_;  ///< of that thread, before it calls again
  bool ending_ = false;
  RecordSegment segment_;
  AlignedBuffer content_;              ///< of the segment
  AlignedBuffer tail_;                 ///< its last page, while it is written
  u64 written_ = 0;                    ///< in the segment
  u64 appended_total_ = 0;             ///< since the beginning
  std::atomic<u64> durable_total_{0};  ///< stored to with the lock
  u64 appended_time_ = 0;
  std::atomic<u64> durable_time_{0};  ///< of the last record that is durable
  u64 appended_sequence_ = 0;
  u64 durable_sequence_ = 0;
  Company company_;      ///< threads that commit at the same time, as it seems
  bool is_new_ = false;  ///< the segment has no record yet
  bool flushing_ = false;
  std::optional<Failure> failed_;  ///< no record may follow before mend()
  u64 failures_ = 0;
};

}  // namespace perdura::log
