// When checkpoints of a region are taken: by call, by a timer, in the background; who waits for
// which; and what else the thread behind them does meanwhile. What one consists of is in
// commit/sequence.hpp.
//
// One checkpoint is under way at a time. Who asks for one meanwhile shares the next with all others
// who do: calls are numbered, and a version answers those that were made before its cut. One of
// them takes it, when as many have come as took part in the last one, or after a short wait.
// Lock order: mutex_ is a leaf; it is never held across a cut, a capture or I/O.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <perdura/options.hpp>

#include "base/company.hpp"
#include "commit/engine.hpp"
#include "commit/pauses.hpp"
#include "commit/promoter.hpp"
#include "commit/sequence.hpp"
#include "track/tracker.hpp"

namespace perdura::commit {

class Checkpointer {
 public:
  struct Config : Sequence::Config {
    region::Region* region = nullptr;
    bool confirms = false;                 ///< each version, afterwards (Options::confirm_versions)
    std::string store;                     ///< its name, for messages
    track::ClosedParts* closed = nullptr;  ///< of the region, that open when they are touched
    /// Asked before each timed checkpoint, which fails as it says: others are not to be begun so.
    std::function<Status()> before_timed;
  };

  Checkpointer(const Config& config, u64 durable_version);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;

  /// Not from inside an operation. Where a version that others have asked for as well fails, each
  /// tries by itself.
  Result<u64> checkpoint();
  Result<u64> checkpoint_async();
  /// Make a version of these lines alone; the epoch goes on. With stopped captures only.
  Result<u64> checkpoint(Selection& selection);
  Status wait(u64 version);
  void every(std::chrono::milliseconds interval);
  u64 durable_version() const { return durable_.load(std::memory_order_acquire); }

  /// End the background work. `bring_home`: complete the engine's first.
  Status finish(bool bring_home);

  void add_to(Statistics& statistics) const;
  void reset_statistics();

 private:
  using Trigger = Attempt::Trigger;

  /// What comes of a call: an attempt that is its own, or else the version that answers it.
  struct Turn {
    Attempt* attempt;
    u64 version;
  };
  Result<Turn> begin(Trigger trigger);
  /// With mutex_ held: the version that answers a call already, or 0.
  u64 answer_to(Trigger trigger, u64 call) const;
  void await_end(std::unique_lock<std::mutex>& lock, Trigger trigger, u64 call);
  void await_company(std::unique_lock<std::mutex>& lock);
  /// With mutex_ held: no other attempt can begin.
  bool busy() const { return attempt_ || settle_due_; }
  Attempt& claim(Trigger trigger, u64 begin_ns);  ///< with mutex_ held, and nothing under way
  void cut(Attempt& attempt);
  Result<u64> complete(Attempt& attempt);
  void publish(Attempt& attempt, const Status& status, bool settle_later);

  void stop_thread();
  void run_timer_and_async();
  Status before_timed(std::unique_lock<std::mutex>& lock) const;
  void checkpoint_in_time(std::unique_lock<std::mutex>& lock);
  void do_ahead(std::unique_lock<std::mutex>& lock);
  void confirm(std::unique_lock<std::mutex>& lock);
  void say_failure(const Status& status);

  const Config config_;
  Promoter promoter_;
  Sequence sequence_;

  mutable std::mutex mutex_;
  std::condition_variable progress_;  ///< an attempt ended
  std::condition_variable work_;      ///< for the checkpoint thread
  bool settle_due_ = false;  ///< the last attempt is to be settled by the background thread
  std::atomic<bool> backlog_{false};  ///< reports wait to be collected
  bool confirm_due_ = false;          ///< of a version that was published, or recovered
  bool async_cut_ = false;            ///< the attempt waits for the background thread
  std::optional<Attempt> attempt_;
  std::atomic<u64> durable_{0};
  std::atomic<u64> calls_{0};    ///< that may share a version
  u64 answered_ = 0;             ///< of these: up to this number, by a durable version
  Company company_;              ///< threads that ask at the same time, as it seems
  std::atomic<u64> changes_{0};  ///< attempts begun and ended, for those who do not sleep
  struct FailedVersion {
    u64 number;
    Failure failure;
  };
  std::optional<FailedVersion> failed_;
  u64 said_failures_ = 0;  ///< of the timer's: codes, as bits; the checkpoint thread's own
  std::chrono::milliseconds interval_{0};
  bool stopping_ = false;

  Statistics counters_{};
  Pauses pauses_;

  std::thread timer_thread_;
};

}  // namespace perdura::commit
