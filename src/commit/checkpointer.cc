#include "commit/checkpointer.hpp"

#include <pthread.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/mutant.hpp"
#include "base/threads.hpp"

namespace perdura::commit {
namespace {
constexpr int kStepsAhead = 8;
constexpr u64 kPromotionStepNs = 4'000'000;
constexpr std::chrono::milliseconds kIntervalMax =
    std::chrono::hours(24 * 365);  // the clock has no points far from now
constexpr u64 kBytesSettledLater = 4 * kMiB;
constexpr u64 kTickNs = 500'000'000;
constexpr u64 kTickMinNs = 100'000'000;  // after checkpoints
constexpr u64 kLateNs = 50'000'000;      // beside a quarter of the interval
// On stderr only what a person would notice: a program with a short interval on a busy machine says
// nothing there.
constexpr u64 kVeryLateNs = 1'000'000'000;

std::chrono::steady_clock::time_point time_of(u64 ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}
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
    if (config_.agreement != nullptr) return version;  // the others do not try again
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
  const auto is_over = [&] { return durable_.load() >= version || !attempt_; };
  if (!is_over()) {
    const u64 begin_ns = now_ns();
    progress_.wait(lock, is_over);
    note_wait(begin_ns);
  }
  if (durable_.load() >= version) return {};
  if (failed_ && failed_->number == version) return failed_->failure;
  return Failure{Code::kNotFound, "version " + std::to_string(version) + " was never completed"};
}

// Claims the right to checkpoint, unless there is an answer before.
Result<Checkpointer::Turn> Checkpointer::begin(Trigger trigger) {
  if (config_.agreement != nullptr) PERDURA_TRY(config_.agreement->may_begin());
  const u64 begin_ns = now_ns();
  bool waited = false;
  std::unique_lock lock(mutex_);
  const u64 call = trigger == Trigger::kSelection ? ~u64{0} : ++calls_;
  for (;;) {
    await_end(lock, trigger, call);
    if (const u64 version = answer_to(trigger, call); version != 0) return Turn{nullptr, version};
    if (trigger == Trigger::kCaller) await_company(lock);
    lock.unlock();
    const u64 room_begin_ns = now_ns();
    PERDURA_ASSIGN(const bool waits, config_.engine->make_room());
    waited |= waits;
    lock.lock();
    if (waits) counters_.log_wait_ns += now_ns() - room_begin_ns;
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
  if (is_over()) return;
  const u64 begin_ns = now_ns();
  if (trigger == Trigger::kCaller && !is_over() && company_.stays_awake())
    Company::stay_awake(lock, Company::kAwake,
                        [this, seen = changes_.load()] { return changes_.load() == seen; });
  progress_.wait(lock, is_over);
  note_wait(begin_ns);
}

void Checkpointer::note_wait(u64 begin_ns) {
  ++counters_.checkpoint_waits;
  counters_.checkpoint_wait_ns += now_ns() - begin_ns;
}

// Those whose last version became durable just now are about to come again.
void Checkpointer::await_company(std::unique_lock<std::mutex>& lock) {
  const auto has_come = [this, answered = answered_] {
    return company_.has_come(calls_.load() - answered);
  };
  if (has_come()) return;
  const u64 begin_ns = now_ns();
  if (company_.stays_awake())
    Company::stay_awake(lock, Company::kWait, [&, seen = changes_.load()] {
      return !has_come() && changes_.load() == seen;
    });
  else progress_.wait_for(lock, Company::kWait, [&] { return busy() || has_come(); });
  ++counters_.group_waits;
  counters_.group_wait_ns += now_ns() - begin_ns;
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
    attempt.cut_ns = now_ns();
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
  const Trigger trigger = attempt.trigger;
  const std::optional<Late> late = publish(attempt, status, settle_later);
  if (late) tell_late(*late);
  if (!status) tell_failure(trigger, status.failure());
  if (!status) return copy_of(status.failure());
  return skipped ? number - 1 : number;
}

std::optional<Checkpointer::Late> Checkpointer::publish(Attempt& attempt, const Status& status,
                                                        bool settle_later) {
  std::lock_guard lock(mutex_);
  const u64 now = now_ns();
  const u64 took_ns = now - attempt.begin_ns;
  std::optional<Late> late;
  counters_.checkpoint_ns += took_ns;
  if (status && attempt.selection == nullptr) {
    if (attempt.trigger == Trigger::kCaller)
      company_.note_barrier(calls_ - answered_, std::chrono::nanoseconds(took_ns));
    answered_ = attempt.calls;
    if (!attempt.empty) {
      late = find_late(now - attempt.cut_ns);
      // As long as the longest of the last ones: it grows at once, and shrinks by an eighth.
      version_ns_ = std::max(now - attempt.cut_ns, version_ns_ - version_ns_ / 8);
      if (interval_.count() != 0) version_ns_ = std::min(version_ns_, interval_ns() / 2);
    }
    covered_ns_ = std::max(covered_ns_, attempt.cut_ns);
    late_told_ = false;
  }
  if (!status) {
    late_told_ = true;  // by that
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
  return late;
}

// --- what is told ------------------------------------------------------------------------------

std::optional<Checkpointer::Late> Checkpointer::find_late(u64 took_ns) {
  const u64 interval = interval_ns();
  const u64 age_ns = now_ns() - covered_ns_;
  if (interval == 0 || late_told_ || age_ns <= interval + interval / 4 + kLateNs)
    return std::nullopt;
  late_told_ = true;
  ++counters_.late_checkpoints;
  return Late{age_ns, took_ns, interval};
}

void Checkpointer::tell_late(const Late& late) noexcept {
  const auto ms = [](u64 ns) { return std::to_string(ns / 1'000'000) + " ms"; };
  const Status told = guarded([&]() -> Status {
    const std::string state =
        late.took_ns == 0
            ? " is not durable yet, since its log waits to be brought home"
            : " became durable only now; its version took " + ms(late.took_ns) + " from the cut on";
    config_.events->tell(EventKind::kCheckpointLate, Code::kOk,
                         "what was stored to '" + config_.store + "' " + ms(late.age_ns) + " ago" +
                             state + ": that is later than checkpoint_every(" +
                             ms(late.interval_ns) +
                             ") is to have it; choose a longer interval, change less in one, or "
                             "take a faster medium",
                         late.age_ns > late.interval_ns + kVeryLateNs ? Events::Line::kLimited
                                                                      : Events::Line::kNone);
    return {};
  });
  (void)told;  // without memory it is only counted
}

// Of a timed one nobody else is told, and of an asynchronous one nobody need wait for it.
void Checkpointer::tell_failure(Trigger trigger, const Failure& failure) noexcept {
  const bool timed = trigger == Trigger::kTimer;
  const bool is_told = trigger == Trigger::kCaller || trigger == Trigger::kSelection;
  const Status told = guarded([&]() -> Status {
    config_.events->tell(EventKind::kCheckpointFailed, failure.code,
                         (timed ? "a timed checkpoint of '" : "a checkpoint of '") + config_.store +
                             "' failed, and nothing since version " +
                             std::to_string(durable_version()) + " is durable; " +
                             (timed ? "it is tried again: " : "the next one has it: ") +
                             failure.message,
                         is_told ? Events::Line::kNone : Events::Line::kLimited);
    return {};
  });
  (void)told;  // without memory it is only counted
}

// --- background threads ------------------------------------------------------------------------

void Checkpointer::every(std::chrono::milliseconds interval) {
  std::lock_guard lock(mutex_);
  const auto longest = is_mutant("endless_interval") ? interval : kIntervalMax;
  // What was stored before there was a timer counts from now on.
  if (interval_.count() == 0) covered_ns_ = now_ns();
  interval_ = std::min<std::chrono::milliseconds>(interval, longest);
  not_before_ns_ = 0;
  late_told_ = false;
  work_.notify_all();
}

// Somewhat more than versions take, since not all take the same, and this thread may wake up late.
u64 Checkpointer::lead_ns() const {
  const u64 interval = interval_ns();
  const u64 late_ns = std::min<u64>(interval / 16, 1'000'000);
  return std::min(version_ns_ + version_ns_ / 4 + late_ns, interval / 2);
}

u64 Checkpointer::due_ns() const {
  return std::max(covered_ns_ + interval_ns() - lead_ns(), not_before_ns_);
}

void Checkpointer::tick(std::unique_lock<std::mutex>& lock) {
  if (!config_.tick) return;
  lock.unlock();
  const Status done = guarded([this]() -> Status {
    config_.tick();
    return {};
  });
  (void)done;  // the next one does it
  lock.lock();
}

void Checkpointer::run_timer_and_async() {
  std::unique_lock lock(mutex_);
  bool stepped = false;  // since the last checkpoint of the timer
  u64 ticked_ns = 0;
  bool tick_soon = false;  // there was a checkpoint
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
    u64 now = now_ns();
    if (now - ticked_ns >= (tick_soon ? kTickMinNs : kTickNs)) {
      ticked_ns = now;
      tick_soon = false;
      tick(lock);
      continue;
    }
    const auto interval = interval_;
    const bool timer = interval.count() != 0;
    const bool promotes = promoter_.pending();
    const auto wanted = [&] {
      return stopping_ || async_cut_ || settle_due_ || confirm_due_ || interval_ != interval;
    };
    const auto ahead = [&] { return backlog_.load() || promoter_.pending() != promotes; };
    // On the way to the next one, do in pieces what would keep the window open longer.
    const u64 tick_ns = ticked_ns + (tick_soon ? kTickMinNs : kTickNs);
    const u64 step = timer      ? std::min(due_ns(), now + interval_ns() / kStepsAhead)
                     : promotes ? now + kPromotionStepNs
                                : tick_ns;
    work_.wait_until(lock, time_of(std::min(step, tick_ns)), [&] { return wanted() || ahead(); });
    if (wanted()) continue;
    now = now_ns();
    if (now < step && !ahead()) continue;  // to tick
    // Checkpoints that take longer than their interval leave a turn to promotion as well.
    if (!timer || now < due_ns() || (promotes && !stepped)) {
      if (!timer && !promotes && !ahead()) continue;
      stepped = true;
      do_ahead(lock);
      continue;
    }
    stepped = false;
    tick_soon = true;
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
// interval if it was cut since, and a log at its limit puts the timer off for a part of it.
void Checkpointer::checkpoint_in_time(std::unique_lock<std::mutex>& lock) {
  const u64 interval = interval_ns();
  config_.engine->retry();
  if (Status ready = before_timed(lock); !ready) {
    ++counters_.failed_checkpoints;
    not_before_ns_ = now_ns() + interval;
    late_told_ = true;
    lock.unlock();
    tell_failure(Trigger::kTimer, ready.failure());
    lock.lock();
    return;
  }
  // Who set the timer anew meanwhile is answered already: none of the old interval follows.
  if (interval_ns() != interval) return;
  // Nothing may come between the question for room and the claim: others make versions.
  if (busy() || !config_.engine->has_room()) {
    not_before_ns_ = now_ns() + std::max<u64>(interval / kStepsAhead, 1'000'000);
    if (busy()) return;
    if (const std::optional<Late> late = find_late(0)) {
      lock.unlock();
      tell_late(*late);
      lock.lock();
    }
    return;
  }
  Attempt& attempt = claim(Trigger::kTimer, now_ns());
  lock.unlock();
  cut(attempt);
  const Result<u64> result = complete(attempt);
  lock.lock();
  not_before_ns_ = result ? 0 : now_ns() + interval;
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
  statistics.log_wait_ns = counters_.log_wait_ns;
  statistics.late_checkpoints = counters_.late_checkpoints;
  statistics.checkpoint_waits = counters_.checkpoint_waits;
  statistics.checkpoint_wait_ns = counters_.checkpoint_wait_ns;
  statistics.group_waits = counters_.group_waits;
  statistics.group_wait_ns = counters_.group_wait_ns;
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
