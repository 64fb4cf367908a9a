#include "commit/checkpointer.hpp"

#include <pthread.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/clock.hpp"

namespace perdura::commit {
namespace {
constexpr int kStepsAhead = 8;
constexpr std::chrono::milliseconds kPromotionStep(4);
constexpr u64 kLinesSettledLater = 64 * 1024;
/// A program that was just started has better uses for the medium.
constexpr std::chrono::milliseconds kScrubDelay(250);
}  // namespace

Checkpointer::Checkpointer(const Config& config, u64 durable_version,
                           std::list<LoggedVersion> recovered)
    : config_(config),
      replay_at_once_(config.volume->medium().geometry().byte_addressable),
      ticket_base_(config.volume->superblock().session << 32),
      promoter_(*config.region, *config.mutators),
      durable_(durable_version),
      committed_(std::move(recovered)),
      scrub_(*config.volume, config.recovered_lines),
      scrubbing_(config.verify_bytes_per_second != 0),
      next_scrub_(std::chrono::steady_clock::now() + kScrubDelay) {
  replayed_ = durable_version - committed_.size();
  replay_torn_ = !committed_.empty();
  for (const LoggedVersion& version : committed_) live_log_bytes_ += version.log_bytes;
  // Without the lock, in a mutator: a notification that gets lost is followed by another.
  if (config_.reported != nullptr)
    config_.reported->on_backlog([this] {
      backlog_.store(true, std::memory_order_relaxed);
      work_.notify_all();
    });
  timer_thread_ = std::thread([this] { run_timer_and_async(); });
  ::pthread_setname_np(timer_thread_.native_handle(), "perdura-ckpt");
  try {
    replay_thread_ = std::thread([this] { run_replay(); });
  } catch (...) {
    stop_threads();
    throw;
  }
  ::pthread_setname_np(replay_thread_.native_handle(), "perdura-replay");
}

Checkpointer::~Checkpointer() {
  const Status ended = finish(false);
  (void)ended;  // nothing was asked to be brought home, so nothing can have failed
  stop_threads();
}

void Checkpointer::stop_threads() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    work_.notify_all();
    replay_work_.notify_all();
  }
  if (timer_thread_.joinable()) timer_thread_.join();
  if (replay_thread_.joinable()) replay_thread_.join();
  if (config_.reported != nullptr) config_.reported->on_backlog({});
}

Status Checkpointer::finish(bool bring_home) {
  std::unique_lock lock(mutex_);
  interval_ = {};
  progress_.wait(lock, [this] { return !busy(); });
  if (bring_home) {
    drain_ = true;
    retry_replay();
    replay_work_.notify_all();
    progress_.wait(lock, [this] { return committed_.empty() || replay_failure_; });
  }
  lock.unlock();
  stop_threads();
  return bring_home && replay_failure_ ? Status(*replay_failure_) : Status{};
}

// --- checkpoints -------------------------------------------------------------------------------

Result<u64> Checkpointer::checkpoint() {
  PERDURA_ASSIGN(Attempt * attempt, begin(Trigger::kCaller));
  cut(*attempt);
  return complete(*attempt);
}

Result<u64> Checkpointer::checkpoint_async() {
  PERDURA_ASSIGN(Attempt * attempt, begin(Trigger::kAsync));
  cut(*attempt);
  std::lock_guard lock(mutex_);
  async_cut_ = true;
  work_.notify_all();
  return attempt->version.number;
}

Result<u64> Checkpointer::checkpoint(Selection& selection) {
  PERDURA_ASSERT(!config_.background_capture);
  PERDURA_ASSIGN(Attempt * attempt, begin(Trigger::kCaller));
  attempt->selection = &selection;
  cut(*attempt);
  return complete(*attempt);
}

Status Checkpointer::wait(u64 version) {
  std::unique_lock lock(mutex_);
  const u64 newest = durable_.load() + (attempt_ ? 1 : 0);
  if (version > newest && !(failed_ && failed_->number == version))
    return Failure{Code::kNotFound, "version " + std::to_string(version) +
                                        " was never begun; the newest is " +
                                        std::to_string(newest)};
  progress_.wait(lock, [&] { return durable_.load() >= version || !attempt_; });
  if (durable_.load() >= version) return {};
  if (failed_ && failed_->number == version) return failed_->failure;
  return Failure{Code::kNotFound, "version " + std::to_string(version) + " was never completed"};
}

// Claims the right to checkpoint. A log at its limit makes checkpoints wait for replay: so memory
// and log stay bounded, and the program slows down instead.
Result<Attempt*> Checkpointer::begin(Attempt::Trigger trigger) {
  const u64 begin_ns = now_ns();
  std::unique_lock lock(mutex_);
  bool waited = false;
  retry_replay();
  const auto log_has_room = [this] { return live_log_bytes_ <= config_.log->limit_bytes(); };
  progress_.wait(lock, [&] {
    if (busy()) return false;
    if (log_has_room() || replay_failure_) return true;
    waited = true;
    return false;
  });
  if (waited) ++counters_.log_waits;
  if (!log_has_room()) return *replay_failure_;
  return &claim(trigger, begin_ns);
}

Attempt& Checkpointer::claim(Attempt::Trigger trigger, u64 begin_ns) {
  attempt_.emplace();
  attempt_->trigger = trigger;
  attempt_->begin_ns = begin_ns;
  attempt_->version.number = durable_.load() + 1;
  attempt_->version.ticket = ticket_base_ + ++tickets_;
  attempt_->version.region = config_.region->id();
  return *attempt_;
}

void Checkpointer::cut(Attempt& attempt) {
  CutGuest* const guest = config_.guest;
  const Status ready = guarded([&] { return guest != nullptr ? guest->before_cut() : Status{}; });
  const u64 begin_ns = config_.mutators->stop();
  attempt.status = guarded([&]() -> Status {
    if (!ready) return copy_of(ready.failure());
    if (attempt.selection != nullptr) return capture_selection(attempt);
    if (guest != nullptr) PERDURA_TRY(guest->at_cut());
    PERDURA_TRY(config_.tracker->cut());
    if (!config_.background_capture) return capture_stopped(attempt);
    config_.reported->open_window();
    return {};
  });
  config_.mutators->resume();
  const u64 pause_ns = now_ns() - begin_ns;
  if (guest != nullptr) guest->after_cut();
  std::lock_guard lock(mutex_);
  pauses_.add(pause_ns);
}

Status Checkpointer::capture_stopped(Attempt& attempt) {
  StoppedCapture::Input input{};
  const track::DirtyMap& changes = config_.tracker->collect();
  input.changes = &changes;
  if (config_.inspect) config_.inspect(changes);
  attempt.empty = changes.empty();
  if (attempt.empty) return {};
  input.base = config_.region->base();
  if (config_.reported != nullptr && config_.tracker->kind() == Tracking::kBitmap)
    for (const auto& list : config_.reported->lists())
      input.lists.emplace_back(list.begin, list.end);
  input.version = &attempt.version;
  const auto home = config_.region->home();
  {
    // Comparing with the home image is right only while it is exactly the previous version.
    std::lock_guard lock(mutex_);
    if (config_.compare && config_.tracker->is_coarse() && replay_at_once_ && committed_.empty())
      input.home = home.get();
  }
  input.medium = &config_.volume->medium();
  input.take_writer = [this] { return take_writer(); };
  input.give_writer = [this](LogWriter* writer) { give_writer(writer); };
  StoppedCapture capture(std::move(input));
  config_.mutators->share(capture);
  promoter_.note(changes);
  return capture.status();
}

Status Checkpointer::capture_selection(Attempt& attempt) {
  PERDURA_TRY(attempt.selection->select());
  LogWriter* const writer = take_writer();
  const Status status = guarded([&] {
    writer->begin(attempt.version);
    write_lines(attempt.selection->lines().numbers, attempt.selection->lines().data, *writer);
    return writer->finish();
  });
  if (!status) writer->abandon();
  give_writer(writer);
  return status;
}

Result<u64> Checkpointer::complete(Attempt& attempt) {
  const Status status = capture_and_commit(attempt);
  // A caller need not wait until a large change set is cleared.
  const bool settle_later = status && attempt.selection == nullptr &&
                            attempt.trigger == Trigger::kCaller &&
                            attempt.version.line_count >= kLinesSettledLater;
  if (attempt.selection != nullptr) attempt.selection->settle(static_cast<bool>(status));
  else if (!settle_later) config_.tracker->settle(static_cast<bool>(status));
  const u64 number = attempt.version.number;
  const bool skipped = attempt.empty;
  publish(attempt, status, settle_later);
  if (!status) return copy_of(status.failure());
  return skipped ? number - 1 : number;
}

Status Checkpointer::capture_and_commit(Attempt& attempt) {
  if (!attempt.status) return std::move(attempt.status);
  LogWriter* writer = nullptr;
  u64 side_copies = 0;
  Status status = guarded([&] {
    writer = take_writer();
    return write_version(attempt, *writer, &side_copies);
  });
  // Nobody captures any more, whatever came of it.
  if (config_.background_capture) config_.reported->close_window();
  if (writer != nullptr) {
    if (!status) writer->abandon();
    give_writer(writer);
  }
  std::lock_guard lock(mutex_);
  counters_.side_copies += side_copies;
  return status;
}

Status Checkpointer::write_version(Attempt& attempt, LogWriter& writer, u64* side_copies) {
  writer.begin(attempt.version);
  if (config_.background_capture) {
    const track::DirtyMap& changes = config_.tracker->collect();
    attempt.empty = changes.empty();
    Status captured = capture_in_background(
        changes, config_.region->base(), config_.reported->window(), *config_.mutators, writer,
        [this] { config_.reported->close_window(); }, side_copies);
    promoter_.note(changes);
    if (!captured) return captured;
  }
  // Nothing changed: the last version holds it all. An asynchronous one was promised a number.
  attempt.empty = attempt.empty && attempt.trigger != Trigger::kAsync &&
                  durable_.load(std::memory_order_relaxed) != 0;
  if (attempt.empty) return {};
  attempt.logged.emplace_back();
  PERDURA_TRY(writer.finish_with_commit());
  // Barrier: every block of the version is durable before it is acknowledged, and before a
  // later version is written.
  return config_.volume->medium().barrier(PERDURA_SITE("commit"));
}

void Checkpointer::publish(Attempt& attempt, const Status& status, bool settle_later) {
  std::lock_guard lock(mutex_);
  VersionInProgress& version = attempt.version;
  counters_.log_bytes += version.log_bytes;
  counters_.checkpoint_ns += now_ns() - attempt.begin_ns;
  if (!status) {
    failed_ = FailedVersion{version.number, copy_of(status.failure())};
    ++counters_.failed_checkpoints;
  } else if (!attempt.empty) {
    ++counters_.checkpoints;
    counters_.changed_bytes += version.line_count * kLineBytes;
    live_log_bytes_ += version.log_bytes;
    attempt.logged.front() = {version.number, version.log_bytes, std::move(version.blocks)};
    committed_.splice(committed_.end(), attempt.logged);
    durable_.store(version.number, std::memory_order_release);
    failed_.reset();
  }
  attempt_.reset();
  settle_due_ = settle_later;
  progress_.notify_all();
  if (settle_due_ || promoter_.pending()) work_.notify_all();
  if (replay_due()) replay_work_.notify_all();
}

LogWriter* Checkpointer::take_writer() {
  std::lock_guard lock(writers_mutex_);
  if (free_writers_.empty()) {
    free_writers_.reserve(writers_.size() + 1);  // giving it back cannot fail
    writers_.push_back(std::make_unique<LogWriter>(*config_.log, *config_.volume));
    return writers_.back().get();
  }
  LogWriter* writer = free_writers_.back();
  free_writers_.pop_back();
  return writer;
}

void Checkpointer::give_writer(LogWriter* writer) {
  std::lock_guard lock(writers_mutex_);
  free_writers_.push_back(writer);
}

// --- background threads ------------------------------------------------------------------------

void Checkpointer::every(std::chrono::milliseconds interval) {
  std::lock_guard lock(mutex_);
  interval_ = interval;
  work_.notify_all();
}

void Checkpointer::run_timer_and_async() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  Clock::time_point due = Clock::now();
  bool stepped = false;  // since the last checkpoint of the timer
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
    const auto interval = interval_;
    const bool timer = interval.count() != 0;
    const bool promotes = promoter_.pending();
    const auto wanted = [&] {
      return stopping_ || async_cut_ || settle_due_ || interval_ != interval;
    };
    const auto ahead = [&] { return backlog_.load() || promoter_.pending() != promotes; };
    // On the way to the next one, do in pieces what would keep the window open longer.
    const auto now = Clock::now();
    const auto step = timer      ? std::min(due, now + interval / kStepsAhead)
                      : promotes ? now + kPromotionStep
                                 : now + std::chrono::hours(1);
    work_.wait_until(lock, step, [&] { return wanted() || ahead(); });
    if (wanted()) {
      if (interval_ != interval) due = Clock::now() + interval_;
      continue;
    }
    // Checkpoints that take longer than their interval leave a turn to promotion as well.
    if (!timer || Clock::now() < due || (promotes && !stepped)) {
      stepped = true;
      do_ahead(lock);
      continue;
    }
    stepped = false;
    due = std::max(due + interval, Clock::now());
    // This thread must not wait: it completes the asynchronous ones. One that is under way covers
    // this interval, and a log at its limit puts the timer off to the next.
    retry_replay();
    if (busy() || live_log_bytes_ > config_.log->limit_bytes()) continue;
    Attempt& attempt = claim(Trigger::kTimer, now_ns());
    lock.unlock();
    cut(attempt);
    const Result<u64> result = complete(attempt);
    (void)result;  // counted in failed_checkpoints; the next one covers the same changes
    lock.lock();
  }
}

void Checkpointer::do_ahead(std::unique_lock<std::mutex>& lock) {
  backlog_.store(false);
  // Mutators stand still for a good part of a promotion: a replay must not take its core. One that
  // is under way is the last before it.
  promotion_due_ = promoter_.pending();
  promoting_ = promotion_due_ && !replaying_;
  lock.unlock();
  std::optional<u64> pause_ns;
  const Status done = guarded([&]() -> Status {
    config_.tracker->collect_ahead();
    if (promoting_) pause_ns = promoter_.promote_next();
    return {};
  });
  (void)done;  // what was not done ahead is done at the cut
  lock.lock();
  if (pause_ns) pauses_.add(*pause_ns);
  if (std::exchange(promoting_, false)) promotion_due_ = false;
  if (replay_due()) replay_work_.notify_all();
}

// What stopped it may be over, as a full disk. Until then versions stay in the log, which is as
// durable as their home.
void Checkpointer::retry_replay() {
  if (!replay_failure_) return;
  replay_failure_.reset();
  if (replay_due()) replay_work_.notify_all();
}

bool Checkpointer::replay_due() const {
  if (committed_.empty() || replay_failure_) return false;
  return replay_at_once_ || drain_ || live_log_bytes_ > config_.log->limit_bytes() / 2;
}

void Checkpointer::run_replay() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wait_for_replay(lock);
    if (stopping_) return;
    const bool again = std::exchange(replay_torn_, true);
    replaying_ = true;
    std::vector<LoggedVersion> versions;
    Status status = guarded([&]() -> Status {
      versions.assign(committed_.begin(), committed_.end());
      return {};
    });
    lock.unlock();
    if (status) status = guarded([&] { return replay(versions, again); });
    lock.lock();
    replaying_ = false;
    replay_torn_ = !status;
    replay_failed_ = !status;
    if (!status) {
      const Status told = guarded([&] {
        return Status(
            Failure{status.failure().code,
                    "the home image cannot be brought up to date: " + status.failure().message});
      });
      replay_failure_ = copy_of(told.failure());
    } else {
      for (const LoggedVersion& version : versions) {
        live_log_bytes_ -= version.log_bytes;
        committed_.pop_front();
      }
      replayed_ = versions.back().number;
    }
    progress_.notify_all();
  }
}

// Meanwhile the home image is verified, unless an attempt that failed left it half written. A step
// that is due goes before the replay, else a store that is never idle would never be verified.
void Checkpointer::wait_for_replay(std::unique_lock<std::mutex>& lock) {
  const auto due = [this] { return stopping_ || (replay_due() && !promotion_due_); };
  while (scrubbing_ && !replay_failed_) {
    const bool has_work = replay_work_.wait_until(lock, next_scrub_, due);
    if (stopping_ || (has_work && std::chrono::steady_clock::now() < next_scrub_)) return;
    lock.unlock();
    const Status stepped = guarded([this]() -> Status {
      scrubbing_ = scrub_.step(*config_.region->home());
      return {};
    });
    lock.lock();
    (void)stepped;  // without memory now; the window is tried again
    next_scrub_ = std::chrono::steady_clock::now() +
                  std::chrono::nanoseconds(Scrub::kWindowBytes * 1'000'000'000 /
                                           config_.verify_bytes_per_second);
  }
  replay_work_.wait(lock, due);
}

Status Checkpointer::replay(const std::vector<LoggedVersion>& versions, bool again) {
  const u64 newest = versions.back().number;
  Replay replay(*config_.volume, config_.region->limit());
  // An update of the superblock that failed may be on the medium all the same, and then recovery
  // does not look for these versions in the log: their older lines must not come home again.
  const auto news = std::find_if(versions.begin(), versions.end(), [this](const auto& version) {
    return version.number > home_version_;
  });
  if (news != versions.end()) {
    PERDURA_TRY(replay.run(config_.region->home(), {news, versions.end()}, again));
    // Barrier: the home image is durable before the superblock says that the log is not needed.
    PERDURA_TRY(config_.volume->medium().barrier(PERDURA_SITE("home image")));
    home_version_ = newest;
  }
  PERDURA_TRY(config_.volume->set_replayed(config_.region->id(), newest,
                                           config_.log->live_generation_after(newest)));
  config_.log->retire(newest);
  std::lock_guard lock(mutex_);
  counters_.home_bytes += replay.home_bytes();
  return {};
}

// --- statistics --------------------------------------------------------------------------------

void Checkpointer::add_to(Statistics& statistics) const {
  std::lock_guard lock(mutex_);
  statistics.durable_version = durable_.load();
  statistics.replayed_version = replayed_;
  statistics.checkpoints = counters_.checkpoints;
  statistics.failed_checkpoints = counters_.failed_checkpoints;
  statistics.checkpoint_ns = counters_.checkpoint_ns;
  statistics.changed_bytes = counters_.changed_bytes;
  statistics.log_bytes = counters_.log_bytes;
  statistics.log_live_bytes = live_log_bytes_;
  statistics.log_capacity_bytes = config_.log->capacity_bytes();
  statistics.log_limit_bytes = config_.log->limit_bytes();
  statistics.log_waits = counters_.log_waits;
  statistics.home_bytes = counters_.home_bytes;
  statistics.side_copies = counters_.side_copies;
  statistics.pause_count = pauses_.count();
  statistics.pause_p99_ns = pauses_.percentile_ns(0.99);
  statistics.pause_max_ns = pauses_.max_ns();
  const Scrub::Findings verified = scrub_.findings();
  statistics.verified_bytes = verified.verified_bytes;
  statistics.damaged_pages = verified.damaged_pages;
}

void Checkpointer::reset_statistics() {
  std::lock_guard lock(mutex_);
  counters_ = {};
  pauses_ = {};
}

}  // namespace perdura::commit
