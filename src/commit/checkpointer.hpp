// Checkpoints of a region: cut, capture, commit; and the threads that do it in the background.
//
//   cut        mutators stand still; the tracker ends the epoch          microseconds
//   capture    the change set is copied to log blocks
//   commit     commit block, one barrier: the version is durable
//   replay     later, in its own thread: home image, barrier, superblock, log recycled
//
// One checkpoint is under way at a time. Lock order: mutex_ is a leaf; it is never held across a
// cut, a capture or I/O.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <perdura/options.hpp>

#include "commit/capture.hpp"
#include "commit/log.hpp"
#include "commit/log_reader.hpp"
#include "commit/pauses.hpp"
#include "commit/promoter.hpp"
#include "commit/replay.hpp"
#include "commit/scrub.hpp"
#include "track/reported.hpp"
#include "track/tracker.hpp"

namespace perdura::commit {

/// A checkpoint under way.
struct Attempt {
  enum class Trigger { kCaller, kAsync, kTimer };
  Trigger trigger = Trigger::kCaller;
  u64 begin_ns = 0;
  Selection* selection = nullptr;  ///< these lines, not what changed in the epoch
  VersionInProgress version;
  Status status;  ///< of the part done while mutators were stopped
  /// Its place among the committed ones: once it is durable nothing may fail any more.
  std::list<LoggedVersion> logged;
  bool empty = false;
};

/// Has work to do before an epoch ends.
class CutGuest {
 public:
  virtual ~CutGuest() = default;
  virtual Status before_cut() = 0;
  /// Mutators stand still. What it changes is part of the version; there is none when it fails.
  virtual Status at_cut() = 0;
  /// Mutators run again. Whatever the others returned.
  virtual void after_cut() noexcept = 0;
};

class Checkpointer {
 public:
  struct Config {
    region::Volume* volume = nullptr;
    region::Region* region = nullptr;
    track::Mutators* mutators = nullptr;
    track::Tracker* tracker = nullptr;
    track::Reported* reported = nullptr;  ///< the tracker, when it is one of reported stores
    Log* log = nullptr;
    bool background_capture = false;
    bool compare = true;  ///< leave out lines of coarse change sets that are home already
    /// Lines of the recovered versions, or nullptr (see Scrub); outlives the checkpointer.
    const track::DirtyMap* recovered_lines = nullptr;
    u64 verify_bytes_per_second = 0;  ///< of the home image, once; 0: not
    CutGuest* guest = nullptr;
    /// Stopped capture: shown each change set while the mutators stand still (verify_reports).
    std::function<void(const track::DirtyMap&)> inspect;
  };

  /// `recovered` are versions in the log that are not home yet.
  Checkpointer(const Config& config, u64 durable_version, std::list<LoggedVersion> recovered);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;

  /// Not from inside an operation.
  Result<u64> checkpoint();
  Result<u64> checkpoint_async();
  /// Make a version of these lines alone; the epoch goes on. With stopped captures only.
  Result<u64> checkpoint(Selection& selection);
  Status wait(u64 version);
  void every(std::chrono::milliseconds interval);
  u64 durable_version() const { return durable_.load(std::memory_order_acquire); }

  /// End the background work. `bring_home`: replay everything first.
  Status finish(bool bring_home);

  void add_to(Statistics& statistics) const;
  const Scrub& scrub() const { return scrub_; }
  void reset_statistics();

 private:
  using Trigger = Attempt::Trigger;

  Result<Attempt*> begin(Trigger trigger);
  /// With mutex_ held: no other attempt can begin.
  bool busy() const { return attempt_ || settle_due_; }
  Attempt& claim(Trigger trigger, u64 begin_ns);  ///< with mutex_ held, and nothing under way
  void cut(Attempt& attempt);
  Status capture_stopped(Attempt& attempt);
  Status capture_selection(Attempt& attempt);
  Result<u64> complete(Attempt& attempt);
  Status capture_and_commit(Attempt& attempt);
  Status write_version(Attempt& attempt, LogWriter& writer, u64* side_copies);
  void publish(Attempt& attempt, const Status& status, bool settle_later);
  LogWriter* take_writer();
  void give_writer(LogWriter* writer);

  void stop_threads();
  void run_timer_and_async();
  void do_ahead(std::unique_lock<std::mutex>& lock);
  void run_replay();
  void wait_for_replay(std::unique_lock<std::mutex>& lock);
  bool replay_due() const;
  void retry_replay();  ///< with mutex_ held
  /// `again`: an earlier attempt failed and may have left pages half replayed.
  Status replay(const std::vector<LoggedVersion>& versions, bool again);

  const Config config_;
  const bool replay_at_once_;  ///< NVM: every version; block media: when the log is half full
  const u64 ticket_base_;
  Promoter promoter_;

  std::mutex writers_mutex_;
  std::vector<std::unique_ptr<LogWriter>> writers_;
  std::vector<LogWriter*> free_writers_;

  mutable std::mutex mutex_;
  std::condition_variable progress_;  ///< an attempt ended, or replay freed log space
  std::condition_variable work_;      ///< for the checkpoint thread
  std::condition_variable replay_work_;
  bool settle_due_ = false;  ///< the last attempt is to be settled by the background thread
  std::atomic<bool> backlog_{false};  ///< reports wait to be collected
  bool async_cut_ = false;            ///< the attempt waits for the background thread
  std::optional<Attempt> attempt_;
  std::atomic<u64> durable_{0};
  u64 replayed_ = 0;
  u64 tickets_ = 0;
  u64 live_log_bytes_ = 0;
  std::list<LoggedVersion> committed_;     ///< durable, not home
  std::optional<Failure> replay_failure_;  ///< until the next checkpoint tries again
  /// The last replay did not end well, or the first one may follow one that a crash cut short.
  bool replay_torn_ = false;
  bool replay_failed_ = false;  ///< the last one
  u64 home_version_ = 0;        ///< whole and durable at home; of the replay thread
  Scrub scrub_;                 ///< of the replay thread
  bool scrubbing_;
  std::chrono::steady_clock::time_point next_scrub_;
  struct FailedVersion {
    u64 number;
    Failure failure;
  };
  std::optional<FailedVersion> failed_;
  std::chrono::milliseconds interval_{0};
  bool stopping_ = false;
  bool drain_ = false;  ///< bring everything home now
  bool replaying_ = false;
  bool promotion_due_ = false;  ///< then no replay begins
  bool promoting_ = false;

  Statistics counters_{};
  Pauses pauses_;

  std::thread timer_thread_;
  std::thread replay_thread_;
};

}  // namespace perdura::commit
