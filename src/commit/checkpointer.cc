#include "commit/checkpointer.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdio>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/mutant.hpp"
#include "base/threads.hpp"

namespace perdura::commit {
namespace {
constexpr int kStepsAhead = 8;
constexpr std::chrono::milliseconds kPromotionStep(4);
constexpr std::chrono::milliseconds kIntervalMax =
    std::chrono::hours(24 * 365);  // the clock has no points far from now
constexpr u64 kBytesSettledLater = 4 * kMiB;
}  // namespace

Checkpointer::Checkpointer(const Config& config, u64 durable_version)
    : config_(config),
      promoter_(*config.region, *config.mutators, config.closed),
      sequence_(config, [this](const track::DirtyMap& changes) { promoter_.note(changes); }),
      durable_(durable_version) {
  // Without the lock, in a mutator: a notification that gets lost is followed by another.
  config_.tracker->on_backlog([this] {
    backlog_.store(true, std::memory_order_relaxed);
    work_.notify_all();
  });
  confirm_due_ = config_.confirms;  // of what recovery found
  const NoSignals no_signals;
  timer_thread_ = std::thread([this] { run_timer_and_async(); });
  ::pthread_setname_np(timer_thread_.native_handle(), "perdura-ckpt");
}

Checkpointer::~Checkpointer() {
  const Status ended = finish(false);
  (void)ended;  // nothing was asked to be brought home, so nothing can have failed
}

void Checkpointer::stop_thread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    work_.notify_all();
  }
  if (timer_thread_.joinable()) timer_thread_.join();
  config_.tracker->on_backlog({});
}

Status Checkpointer::finish(bool bring_home) {
  {
    std::unique_lock lock(mutex_);
    interval_ = {};
    progress_.wait(lock, [this] { return !busy(); });
  }
  stop_thread();
  return config_.engine->finish(bring_home);
}

// --- checkpoints -------------------------------------------------------------------------------

// An attempt that finds no space learns that there is little: the next one takes less.
Result<u64> Checkpointer::checkpoint() {
  for (;;) {
    PERDURA_ASSIGN(const Turn turn, begin(Trigger::kCaller));
    if (turn.attempt == nullptr) return turn.version;
    cut(*turn.attempt);
    const bool trimmed = turn.attempt->trimmed;
    Result<u64> version = complete(*turn.attempt);
    if (version || trimmed || version.failure().code != Code::kNoSpace || !config_.engine->trims())
      return version;
  }
}

Result<u64> Checkpointer::checkpoint_async() {
  PERDURA_ASSIGN(const Turn turn, begin(Trigger::kAsync));
  if (turn.attempt == nullptr) return turn.version;
  cut(*turn.attempt);
  std::lock_guard lock(mutex_);
  async_cut_ = true;
  work_.notify_all();
  progress_.notify_all();  // for those who share it
  return turn.attempt->version;
}

Result<u64> Checkpointer::checkpoint(Selection& selection) {
  PERDURA_ASSERT(config_.snapshot == nullptr);
  PERDURA_ASSIGN(const Turn turn, begin(Trigger::kSelection));
  turn.attempt->selection = &selection;
  cut(*turn.attempt);
  return complete(*turn.attempt);
}

Status Checkpointer::wait(u64 version) {
  std::unique_lock lock(mutex_);
  const u64 newest = attempt_ ? attempt_->version : durable_.load();
  if (version > newest && !(failed_ && failed_->number == version))
    return Failure{Code::kNotFound, "version " + std::to_string(version) +
                                        " was never begun; the newest is " +
                                        std::to_string(newest)};
  progress_.wait(lock, [&] { return durable_.load() >= version || !attempt_; });
  if (durable_.load() >= version) return {};
  if (failed_ && failed_->number == version) return failed_->failure;
  return Failure{Code::kNotFound, "version " + std::to_string(version) + " was never completed"};
}

// Claims the right to checkpoint, unless there is an answer before.
Result<Checkpointer::Turn> Checkpointer::begin(Trigger trigger) {
  const u64 begin_ns = now_ns();
  bool waited = false;
  std::unique_lock lock(mutex_);
  const u64 call = trigger == Trigger::kSelection ? ~u64{0} : ++calls_;
  for (;;) {
    await_end(lock, trigger, call);
    if (const u64 version = answer_to(trigger, call); version != 0) return Turn{nullptr, version};
    if (trigger == Trigger::kCaller) await_company(lock);
    lock.unlock();
    PERDURA_ASSIGN(const bool waits, config_.engine->make_room());
    waited |= waits;
    lock.lock();
    // Others may have begun, or been through, meanwhile.
    if (busy() || answer_to(trigger, call) != 0 || !config_.engine->has_room()) continue;
    if (waited) ++counters_.log_waits;
    return Turn{&claim(trigger, begin_ns), 0};
  }
}

// Who does not wait shares what was cut for somebody who does not either: that version has a number
// which it keeps.
u64 Checkpointer::answer_to(Trigger trigger, u64 call) const {
  if (call <= answered_) return durable_.load();
  const bool shares = trigger == Trigger::kAsync && attempt_ && attempt_->trigger == trigger &&
                      attempt_->is_cut && call <= attempt_->calls;
  return shares ? attempt_->version : 0;
}

// Until what is under way has ended, or answers the call.
void Checkpointer::await_end(std::unique_lock<std::mutex>& lock, Trigger trigger, u64 call) {
  const auto is_over = [&] { return answer_to(trigger, call) != 0 || !busy(); };
  if (trigger == Trigger::kCaller && !is_over() && company_.stays_awake())
    Company::stay_awake(lock, Company::kAwake,
                        [this, seen = changes_.load()] { return changes_.load() == seen; });
  progress_.wait(lock, is_over);
}

// Those whose last version became durable just now are about to come again.
void Checkpointer::await_company(std::unique_lock<std::mutex>& lock) {
  const auto has_come = [this, answered = answered_] {
    return company_.has_come(calls_.load() - answered);
  };
  if (has_come()) return;
  if (company_.stays_awake())
    Company::stay_awake(lock, Company::kWait, [&, seen = changes_.load()] {
      return !has_come() && changes_.load() == seen;
    });
  else progress_.wait_for(lock, Company::kWait, [&] { return busy() || has_come(); });
}

Attempt& Checkpointer::claim(Attempt::Trigger trigger, u64 begin_ns) {
  attempt_.emplace();
  ++changes_;
  attempt_->trigger = trigger;
  attempt_->begin_ns = begin_ns;
  attempt_->version = durable_.load() + 1;
  return *attempt_;
}

void Checkpointer::cut(Attempt& attempt) {
  {
    std::lock_guard lock(mutex_);
    attempt.calls = calls_;
  }
  const u64 pause_ns = sequence_.cut(attempt);
  std::lock_guard lock(mutex_);
  attempt.is_cut = true;
  pauses_.add(pause_ns);
}

Result<u64> Checkpointer::complete(Attempt& attempt) {
  const bool has_versions = durable_.load(std::memory_order_relaxed) != 0;
  const Status status = sequence_.make_version(attempt, has_versions);
  // First: who relies on it that an epoch has a version says of which version it was.
  if (status && !attempt.empty) durable_.store(attempt.version, std::memory_order_release);
  if (attempt.selection == nullptr && config_.epochs != nullptr)
    config_.epochs->epoch_settled(static_cast<bool>(status));
  // A caller need not wait until a large change set is cleared.
  const bool settle_later = status && attempt.selection == nullptr &&
                            attempt.trigger == Trigger::kCaller && !attempt.empty &&
                            config_.engine->written().changed_bytes >= kBytesSettledLater;
  if (attempt.selection != nullptr) attempt.selection->settle(static_cast<bool>(status));
  else if (!settle_later) config_.tracker->settle(static_cast<bool>(status));
  const u64 number = attempt.version;
  const bool skipped = attempt.empty;
  publish(attempt, status, settle_later);
  if (!status) return copy_of(status.failure());
  return skipped ? number - 1 : number;
}

void Checkpointer::publish(Attempt& attempt, const Status& status, bool settle_later) {
  std::lock_guard lock(mutex_);
  const u64 took_ns = now_ns() - attempt.begin_ns;
  counters_.checkpoint_ns += took_ns;
  if (status && attempt.selection == nullptr) {
    if (attempt.trigger == Trigger::kCaller)
      company_.note_barrier(calls_ - answered_, std::chrono::nanoseconds(took_ns));
    answered_ = attempt.calls;
  }
  if (!status) {
    failed_ = FailedVersion{attempt.version, copy_of(status.failure())};
    ++counters_.failed_checkpoints;
  } else if (!attempt.empty) {
    ++counters_.checkpoints;
    counters_.changed_bytes += config_.engine->written().changed_bytes;
    failed_.reset();
    confirm_due_ = config_.confirms;
  }
  attempt_.reset();
  ++changes_;
  settle_due_ = settle_later;
  progress_.notify_all();
  if (settle_due_ || confirm_due_ || promoter_.pending()) work_.notify_all();
}

// --- background threads ------------------------------------------------------------------------

void Checkpointer::every(std::chrono::milliseconds interval) {
  std::lock_guard lock(mutex_);
  const auto longest = is_mutant("endless_interval") ? interval : kIntervalMax;
  interval_ = std::min<std::chrono::milliseconds>(interval, longest);
  work_.notify_all();
}

void Checkpointer::run_timer_and_async() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  Clock::time_point due = Clock::now();
  std::chrono::milliseconds due_for{0};  // the interval that it is the end of
  bool stepped = false;                  // since the last checkpoint of the timer
  while (!stopping_) {
    if (async_cut_) {
      async_cut_ = false;
      Attempt& attempt = *attempt_;
      lock.unlock();
      const Result<u64> result = complete(attempt);
      (void)result;  // kept in failed_ for wait()
      lock.lock();
      continue;
    }
    if (settle_due_) {
      lock.unlock();
      config_.tracker->settle(true);
      lock.lock();
      settle_due_ = false;
      progress_.notify_all();
      continue;
    }
    if (confirm_due_) {
      confirm(lock);
      continue;
    }
    const auto interval = interval_;
    // It may have been set while this thread was at something else.
    if (interval != due_for) due = Clock::now() + interval;
    due_for = interval;
    const bool timer = interval.count() != 0;
    const bool promotes = promoter_.pending();
    const auto wanted = [&] {
      return stopping_ || async_cut_ || settle_due_ || confirm_due_ || interval_ != interval;
    };
    const auto ahead = [&] { return backlog_.load() || promoter_.pending() != promotes; };
    // On the way to the next one, do in pieces what would keep the window open longer.
    const auto now = Clock::now();
    const auto step = timer      ? std::min(due, now + interval / kStepsAhead)
                      : promotes ? now + kPromotionStep
                                 : now + std::chrono::hours(1);
    work_.wait_until(lock, step, [&] { return wanted() || ahead(); });
    if (wanted()) continue;
    // Checkpoints that take longer than their interval leave a turn to promotion as well.
    if (!timer || Clock::now() < due || (promotes && !stepped)) {
      stepped = true;
      do_ahead(lock);
      continue;
    }
    stepped = false;
    due = std::max(due + interval, Clock::now());
    checkpoint_in_time(lock);
  }
}

Status Checkpointer::before_timed(std::unique_lock<std::mutex>& lock) const {
  if (!config_.before_timed) return {};
  lock.unlock();
  Status ready = guarded([this] { return config_.before_timed(); });
  lock.lock();
  return ready;
}

// This thread must not wait: it completes the asynchronous ones. One that is under way covers this
// interval, and a log at its limit puts the timer off to the next.
void Checkpointer::checkpoint_in_time(std::unique_lock<std::mutex>& lock) {
  config_.engine->retry();
  if (Status ready = before_timed(lock); !ready) {
    ++counters_.failed_checkpoints;
    return say_failure(ready);
  }
  // Nothing may come between the question for room and the claim: others make versions.
  if (busy() || !config_.engine->has_room()) return;
  Attempt& attempt = claim(Trigger::kTimer, now_ns());
  lock.unlock();
  cut(attempt);
  const Result<u64> result = complete(attempt);
  say_failure(result ? Status{} : Status(copy_of(result.failure())));
  lock.lock();
}

// Of a timed checkpoint, which nobody waits for. The next one covers the same changes, so each kind
// of failure is said once until one succeeds.
void Checkpointer::say_failure(const Status& status) {
  if (status) {
    said_failures_ = 0;
    return;
  }
  const u64 kind = u64{1} << static_cast<unsigned>(status.failure().code);
  if ((said_failures_ & kind) != 0) return;
  said_failures_ |= kind;
  std::fprintf(stderr,
               "perdura: a timed checkpoint of '%s' failed, and nothing since version %llu is "
               "durable; it is tried again: %s\n",
               config_.store.c_str(), static_cast<unsigned long long>(durable_version()),
               status.failure().message.c_str());
}

// Nobody waits for it. Where it fails the medium says so to the next version.
void Checkpointer::confirm(std::unique_lock<std::mutex>& lock) {
  confirm_due_ = false;
  lock.unlock();
  const Status confirmed = guarded([&] { return config_.engine->confirm(); });
  (void)confirmed;
  lock.lock();
}

void Checkpointer::do_ahead(std::unique_lock<std::mutex>& lock) {
  backlog_.store(false);
  lock.unlock();
  // Mutators stand still for a good part of a promotion: a replay must not take its core. One that
  // is under way is the last before it.
  const bool promotes = promoter_.pending() && config_.engine->hold(true);
  std::optional<u64> pause_ns;
  const Status done = guarded([&]() -> Status {
    config_.tracker->collect_ahead();
    if (promotes) pause_ns = promoter_.promote_next();
    return {};
  });
  (void)done;  // what was not done ahead is done at the cut
  if (promotes) config_.engine->hold(false);
  lock.lock();
  if (pause_ns) pauses_.add(*pause_ns);
}

// --- statistics --------------------------------------------------------------------------------

void Checkpointer::add_to(Statistics& statistics) const {
  config_.engine->add_to(statistics);
  std::lock_guard lock(mutex_);
  statistics.durable_version = durable_.load();
  statistics.checkpoints = counters_.checkpoints;
  statistics.failed_checkpoints = counters_.failed_checkpoints;
  statistics.checkpoint_ns = counters_.checkpoint_ns;
  statistics.changed_bytes = counters_.changed_bytes;
  statistics.log_waits = counters_.log_waits;
  statistics.pause_count = pauses_.count();
  statistics.pause_p99_ns = pauses_.percentile_ns(0.99);
  statistics.pause_max_ns = pauses_.max_ns();
}

void Checkpointer::reset_statistics() {
  config_.engine->reset_statistics();
  std::lock_guard lock(mutex_);
  counters_ = {};
  pauses_ = {};
}

}  // namespace perdura::commit
