// The engine that writes changed lines to the redo log and brings them home later, in a thread of
// its own.
//
// Lock order: mutex_ is a leaf; it is not held during I/O.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "commit/capture.hpp"
#include "commit/engine.hpp"
#include "commit/home_guard.hpp"
#include "commit/pins.hpp"
#include "commit/replay.hpp"
#include "commit/scrub.hpp"
#include "log/reader.hpp"
#include "log/space.hpp"
#include "log/version_writer.hpp"
#include "track/mutators.hpp"
#include "track/tracker.hpp"

namespace perdura::commit {

class RedoLogEngine final : public Engine {
 public:
  struct Config {
    region::Volume* volume = nullptr;
    region::Region* region = nullptr;
    track::Mutators* mutators = nullptr;
    track::Tracker* tracker = nullptr;
    log::Space* space = nullptr;
    /// The change sets are coarse: leave out lines that are as the version before has them.
    bool compare = true;
    /// The tracker's change sets have more than the lines that were stored to.
    bool coarse = true;
    HomeGuard* guard = nullptr;
    u64 verify_bytes_per_second = 0;  ///< of the home image, once; 0: not
  };

  /// `recovered` are versions in the log that are not home yet.
  RedoLogEngine(const Config& config, u64 durable_version, std::list<log::LoggedVersion> recovered);
  ~RedoLogEngine() override;
  RedoLogEngine(const RedoLogEngine&) = delete;

  bool has_room() const override;
  Result<bool> make_room() override;
  void retry() override;
  u64 unit_bytes() const override { return kPageBytes; }
  bool wants_compared_pages() const override { return config_.compare && !replay_at_once_; }
  void begin(u64 version) override;
  Status capture_stopped(const track::DirtyMap& changes) override;
  Status capture(const track::DirtyMap& changes, Snapshot& snapshot) override;
  Status capture_selection(const Selection::Lines& lines) override;
  Status prepare() override;
  void publish() noexcept override;
  void discard() override;
  void keep_from(u64 version) override;
  Status confirm() override;
  Written written() const override;
  bool hold(bool on) override;
  Status bring_home() override;
  bool trims() const override { return config_.coarse && config_.space->is_short(); }
  Status finish(bool bring_home) override;
  void add_to(Statistics& statistics) const override;
  void reset_statistics() override;
  Findings findings() const override { return config_.guard->findings(); }

 private:
  log::VersionWriter* take_writer();
  void give_writer(log::VersionWriter* writer);
  void leave_segments();
  Status try_commit(log::VersionWriter& writer);

  void stop_thread();
  void run_replay();
  void wait_for_replay(std::unique_lock<std::mutex>& lock);
  bool replay_due() const;
  void retry_replay();  ///< with mutex_ held
  Status forget_log();
  Status drain();
  u64 replayed_version() const;
  bool has_committed() const;
  template <class Done>
  Status wait_for_room(std::unique_lock<std::mutex>& lock, Done&& done);
  bool relieve_log();
  bool may_compare() const;
  Status keep_changes(const track::DirtyMap& changes);
  Result<track::DirtyMap> changed_lines(const track::DirtyMap& changes) const;
  /// `all`: of what the tracker has, nothing was left out.
  Status capture_lines(const track::DirtyMap& changes, bool all);
  /// What the replay of the committed versions frees.
  u64 replayable_bytes() const { return live_log_bytes_ + transaction_bytes_; }
  /// Where nothing may be brought home the log grows beyond its limit.
  bool log_has_room() const {
    return replayable_bytes() <= config_.space->limit_bytes() || !has_replayable();
  }
  bool has_replayable() const { return !committed_.empty() && committed_.front().number <= kept(); }
  /// Nothing after that is to come home.
  u64 kept() const { return std::min(kept_from_, pinned_); }
  /// With mutex_ held: readers may have come and gone.
  void look_for_readers() { pinned_ = pins_.lowest(); }
  bool may_come_home(u64 version);
  void retire(u64 home);
  /// `again`: an earlier attempt failed and may have left pages half replayed.
  Status replay(const std::vector<log::LoggedVersion>& versions, bool again);

  const Config config_;
  const bool replay_at_once_;  ///< NVM: every version; block media: when the log is half full
  const u64 ticket_base_;
  Pins pins_;

  // --- of the version that is written
  Stage stage_;
  std::optional<log::VersionInProgress> version_;
  const track::DirtyMap* changes_ = nullptr;  ///< that it has, or
  std::optional<track::DirtyMap> kept_;       ///< where it does not have all
  std::vector<u64> selected_;                 ///< lines of them alone
  log::VersionWriter* writer_ = nullptr;      ///< of the checkpointing thread
  u64 tickets_ = 0;

  std::mutex writers_mutex_;
  std::vector<std::unique_ptr<log::VersionWriter>> writers_;
  std::vector<log::VersionWriter*> free_writers_;

  mutable std::mutex mutex_;
  std::condition_variable progress_;  ///< replay freed log space, or failed
  std::condition_variable replay_work_;
  u64 replayed_ = 0;
  u64 live_log_bytes_ = 0;                   ///< of the committed versions
  u64 transaction_bytes_ = 0;                ///< of segments with transactions that these have
  std::list<log::LoggedVersion> prepared_;   ///< the one that may be published
  u64 kept_from_ = kNoVersion;               ///< nothing after it is to come home
  u64 pinned_ = kNoVersion;                  ///< nor after this, when readers were looked for
  std::list<log::LoggedVersion> committed_;  ///< durable, not home
  std::optional<Failure> replay_failure_;    ///< until the next checkpoint tries again
  u64 replays_begun_ = 0;
  u64 replay_that_failed_ = 0;  ///< whose failure that is, or was
  /// The last replay did not end well, or the first one may follow one that a crash cut short.
  bool replay_torn_ = false;
  bool replay_failed_ = false;      ///< the last one
  u64 home_version_ = 0;            ///< whole and durable at home; of the replay thread
  std::unique_ptr<Replay> replay_;  ///< the last one, if it succeeded; of the replay thread
  Scrub scrub_;                     ///< of the replay thread
  bool scrubbing_;
  std::chrono::steady_clock::time_point next_scrub_;
  bool stopping_ = false;
  u64 drains_ = 0;  ///< who waits until everything is home
  bool replaying_ = false;
  bool held_ = false;
  bool log_is_scarce_ = false;  ///< the thread shall take more space for it ahead of use

  u64 log_bytes_ = 0;
  u64 home_bytes_ = 0;
  u64 side_copies_ = 0;

  std::thread replay_thread_;
};

}  // namespace perdura::commit
