// When checkpoints of a region are taken: by call, by a timer, in the background; who waits for
// which; and what else the thread behind them does meanwhile. What one consists of is in
// commit/sequence.hpp.
//
// One checkpoint is under way at a time. Who asks for one meanwhile shares the next with all others
// who do: calls are numbered, and a version answers those that were made before its cut. One of
// them takes it, when as many have come as took part in the last one, or after a short wait.
//
// The timer promises that what is stored is durable an interval later. What is stored right after a
// cut becomes so with the next version; so the next cut comes as much earlier as a version takes:
//
//   cut ──── written ─ durable          cut ──── written ─ durable
//    |<------------------ interval ----------------------->|
//
// A version that takes longer than half of the interval is followed by the next at once, which is
// the best that the medium allows.
//
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
#include "base/events.hpp"
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
    Events* events = &Events::nobody();
    /// By the checkpoint thread, a few times a second, with no lock held.
    std::function<void()> tick;
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
  const std::atomic<u64>& durable() const { return durable_; }

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
  /// What was stored is, or was, older than the timer promises.
  struct Late {
    u64 age_ns;
    u64 took_ns;  ///< from the cut of the version that has it; 0: there is none yet
    u64 interval_ns;
  };
  /// What is to be told then, without mutex_.
  std::optional<Late> publish(Attempt& attempt, const Status& status, bool settle_later);
  /// With mutex_ held: it is later than promised, by a margin, and this was not told before.
  std::optional<Late> find_late(u64 took_ns);
  void tell_late(const Late& late) noexcept;
  void tell_failure(Trigger trigger, const Failure& failure) noexcept;
  u64 interval_ns() const { return static_cast<u64>(interval_.count()) * 1'000'000; }
  u64 lead_ns() const;
  u64 due_ns() const;  ///< with mutex_ held: when the timer's next cut is
  void note_wait(u64 begin_ns);

  void stop_thread();
  void run_timer_and_async();
  Status before_timed(std::unique_lock<std::mutex>& lock) const;
  void checkpoint_in_time(std::unique_lock<std::mutex>& lock);
  void do_ahead(std::unique_lock<std::mutex>& lock);
  void confirm(std::unique_lock<std::mutex>& lock);
  void tick(std::unique_lock<std::mutex>& lock);

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
  std::chrono::milliseconds interval_{0};
  u64 covered_ns_ = 0;      ///< what was stored before is durable, or older than the timer
  u64 version_ns_ = 0;      ///< what versions take from their cuts on, as the last ones did
  u64 not_before_ns_ = 0;   ///< the timer's next attempt, after one that could not be
  bool late_told_ = false;  ///< or a failure, since the last version
  bool stopping_ = false;

  Statistics counters_{};
  Pauses pauses_;

  std::thread timer_thread_;
};

}  // namespace perdura::commit
