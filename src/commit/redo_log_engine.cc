#include "commit/redo_log_engine.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "base/line_mask.hpp"
#include "base/mutant.hpp"
#include "base/threads.hpp"

namespace perdura::commit {
namespace {
/// A program that was just started has better uses for the medium.
constexpr std::chrono::milliseconds kScrubDelay(250);
}  // namespace

RedoLogEngine::RedoLogEngine(const Config& config, u64 durable_version,
                             std::list<log::LoggedVersion> recovered)
    : config_(config),
      replay_at_once_(config.volume->medium().geometry().byte_addressable),
      ticket_base_(config.space->session() << 32),
      pins_(config.volume->medium(), config.region->id()),
      committed_(std::move(recovered)),
      scrub_(*config.volume, *config.guard),
      scrubbing_(config.verify_bytes_per_second != 0),
      next_scrub_(std::chrono::steady_clock::now() + kScrubDelay) {
  replayed_ = durable_version - committed_.size();
  replay_torn_ = !committed_.empty();
  for (const log::LoggedVersion& version : committed_) live_log_bytes_ += version.log_bytes;
  look_for_readers();
  const NoSignals no_signals;
  replay_thread_ = std::thread([this] { run_replay(); });
  ::pthread_setname_np(replay_thread_.native_handle(), "perdura-replay");
  config_.space->on_shortage([this] { return relieve_log(); });
  config_.space->on_scarcity([this] {
    std::lock_guard lock(mutex_);
    log_is_scarce_ = true;
    replay_work_.notify_all();
  });
}

RedoLogEngine::~RedoLogEngine() {
  config_.space->on_shortage(nullptr);
  config_.space->on_scarcity(nullptr);
  stop_thread();
}

void RedoLogEngine::stop_thread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    replay_work_.notify_all();
    progress_.notify_all();
  }
  if (replay_thread_.joinable()) replay_thread_.join();
}

// All that is committed and may come home. Where the thread is gone nothing does any more.
Status RedoLogEngine::drain() {
  std::unique_lock lock(mutex_);
  look_for_readers();
  ++drains_;
  replay_work_.notify_all();
  const Status failed = wait_for_room(lock, [this] { return !has_replayable() || stopping_; });
  --drains_;
  if (!has_replayable()) return {};
  if (!failed) return failed;
  return Failure{Code::kMisuse, "the store is closed"};
}

// Nobody writes a version meanwhile: what writers still have they need not have. Each next version
// begins in segments of its own.
Status RedoLogEngine::bring_home() {
  leave_segments();
  PERDURA_TRY(drain());
  retire(replayed_version());
  return {};
}

// Not under the lock: space that is given back is written to the directory. The superblock says
// that `home` is home: who has pinned an older version has not read its log to the end yet. What
// stays for it is given back with a later version, or when space is short.
void RedoLogEngine::retire(u64 home) { config_.space->retire(std::min(home, pins_.lowest())); }

bool RedoLogEngine::has_committed() const {
  std::lock_guard lock(mutex_);
  return !committed_.empty();
}

u64 RedoLogEngine::replayed_version() const {
  std::lock_guard lock(mutex_);
  return replayed_;
}

Status RedoLogEngine::finish(bool bring_home) {
  Status home;
  if (bring_home) {
    leave_segments();
    home = drain();
  }
  stop_thread();
  if (!bring_home || !home) return home;
  return forget_log();
}

// In a thread that found no space for a segment, perhaps while the mutators stand still, or in an
// operation of its own: the replay needs neither. What is home already may have stayed for a reader
// that had not read the log to its end, and has since; or it is log of transactions that recovery
// has found in a version that is home. Nothing is given back to the medium, of which another region
// might take it before what is short of space here does.
bool RedoLogEngine::relieve_log() {
  if (!drain()) return false;
  config_.space->recycle(std::min(replayed_version(), pins_.lowest()));
  return true;
}

// Segments that writers still had when the last version was replayed: each next opening would read
// them, and all that are younger. Not while some of it is still needed.
Status RedoLogEngine::forget_log() {
  if (!committed_.empty()) return {};
  const u32 region = config_.region->id();
  const format::RegionState state = config_.volume->state(region);
  const u64 behind_all = config_.space->live_generation_at_end();
  if (state.live_generation != behind_all)
    PERDURA_TRY(config_.volume->set_replayed(region, state.replayed_version, behind_all));
  config_.volume->note_ended_log(region);
  return {};
}

bool RedoLogEngine::has_room() const {
  std::lock_guard lock(mutex_);
  return log_has_room();
}

// A log at its limit makes checkpoints wait for replay: so memory and log stay bounded, and the
// program slows down instead.
Result<bool> RedoLogEngine::make_room() {
  std::unique_lock lock(mutex_);
  if (!log_has_room()) look_for_readers();
  bool waits = false;
  PERDURA_TRY(wait_for_room(lock, [&] {
    const bool has_room = log_has_room();
    waits = waits || !has_room;
    return has_room;
  }));
  return waits;
}

// Until `done`, or a replay fails. One that began before says nothing: what it failed for may be
// over.
template <class Done>
Status RedoLogEngine::wait_for_room(std::unique_lock<std::mutex>& lock, Done&& done) {
  const u64 before = is_mutant("earlier_replay_counts") ? 0 : replays_begun_;
  for (;;) {
    retry_replay();
    progress_.wait(lock, [&] { return done() || replay_failure_; });
    if (done()) return {};
    if (replay_that_failed_ > before) return *replay_failure_;
  }
}

void RedoLogEngine::retry() {
  std::lock_guard lock(mutex_);
  retry_replay();
}

void RedoLogEngine::keep_from(u64 version) {
  std::lock_guard lock(mutex_);
  kept_from_ = version;
  if (replay_due()) replay_work_.notify_all();
  progress_.notify_all();  // where nothing may come home nobody needs to wait for it
}

Status RedoLogEngine::confirm() {
  u64 newest = 0;
  {
    std::lock_guard lock(mutex_);
    newest = committed_.empty() ? replayed_ : committed_.back().number;
  }
  return config_.volume->confirm(config_.region->id(), newest);
}

bool RedoLogEngine::hold(bool on) {
  std::lock_guard lock(mutex_);
  held_ = on;
  if (!on && replay_due()) replay_work_.notify_all();
  return !replaying_;
}

// --- writing a version --------------------------------------------------------------------------

void RedoLogEngine::begin(u64 version) {
  stage_.begin();
  // Of a version that turned out to be empty.
  if (writer_ != nullptr) give_writer(std::exchange(writer_, nullptr));
  changes_ = nullptr;
  kept_.reset();
  selected_.clear();
  version_.emplace();
  version_->number = version;
  version_->ticket = ticket_base_ + ++tickets_;
}

// Nothing that was stored to a damaged page that reads as zeros.
Status RedoLogEngine::keep_changes(const track::DirtyMap& changes) {
  changes_ = &changes;
  if (config_.guard->withheld().empty()) return {};
  PERDURA_ASSIGN(track::DirtyMap kept, config_.guard->withheld().leave_out_of(changes));
  kept_.emplace(std::move(kept));
  changes_ = &*kept_;
  return {};
}

Status RedoLogEngine::capture_stopped(const track::DirtyMap& all_changes) {
  stage_.capture();
  PERDURA_TRY(keep_changes(all_changes));
  const track::DirtyMap& changes = *changes_;
  const bool all = changes_ == &all_changes;
  if (!trims()) return capture_lines(changes, all);
  PERDURA_TRY(drain());
  // The home image is not the last version where one is kept from coming home.
  if (has_committed()) return capture_lines(changes, all);
  // Where there is space again the next one need not be trimmed.
  u64 lines = 0;
  changes.for_each_page([&](u64, u64 mask) { lines += static_cast<u64>(std::popcount(mask)); });
  const Status room = config_.space->make_room(lines);
  (void)room;  // what is trimmed may fit all the same
  PERDURA_ASSIGN(const track::DirtyMap changed, changed_lines(changes));
  return capture_lines(changed, false);
}

// Where space is short: of what changed the lines that are not as the last version has them, which
// is home. (A page tracker opens parts of up to 64 MiB at a time.)
Result<track::DirtyMap> RedoLogEngine::changed_lines(const track::DirtyMap& changes) const {
  PERDURA_ASSIGN(track::DirtyMap changed, track::DirtyMap::create(config_.region->limit()));
  const auto home = config_.region->home();
  media::Medium& medium = config_.volume->medium();
  AlignedBuffer last(kPageBytes);
  Status read;
  changes.for_each_page([&](u64 page, u64 mask) {
    if (!read) return;
    const u64 offset = page * kPageBytes;
    const format::Extent* const extent = home->find(offset);
    if (extent != nullptr)
      read = medium.read(region::HomeMap::page_place(*extent, offset), last.span());
    if (!read) return;
    const std::byte* const now = config_.region->base() + offset;
    changed.add_mask(page, extent == nullptr ? mask : different_lines(now, last.data(), mask));
  });
  if (!read) return read.failure();
  return changed;
}

Status RedoLogEngine::capture_lines(const track::DirtyMap& changes, bool all) {
  StoppedCapture::Input input{};
  input.changes = &changes;
  input.base = config_.region->base();
  if (all)
    for (const auto& list : config_.tracker->lists())
      input.lists.emplace_back(list.begin, list.end);
  input.version = &*version_;
  const auto home = config_.region->home();
  if (may_compare()) input.home = home.get();
  input.medium = &config_.volume->linear();
  input.take_writer = [this] { return take_writer(); };
  input.give_writer = [this](log::VersionWriter* writer) { give_writer(writer); };
  StoppedCapture capture(std::move(input));
  config_.mutators->share(capture);
  return capture.status();
}

// With the home image: only while that is exactly the version before, as it stays until this one is
// published.
bool RedoLogEngine::may_compare() const {
  std::lock_guard lock(mutex_);
  return config_.compare && replay_at_once_ && committed_.empty();
}

Status RedoLogEngine::capture(const track::DirtyMap& changes, Snapshot& snapshot) {
  stage_.capture();
  PERDURA_TRY(keep_changes(changes));
  writer_ = take_writer();
  writer_->begin(*version_);
  const auto home = config_.region->home();
  std::optional<Trimmer> trimmer;
  if (may_compare()) trimmer.emplace(config_.volume->linear(), *home);
  Status captured = snapshot.write_lines(*changes_, *writer_, trimmer ? &*trimmer : nullptr);
  std::lock_guard lock(mutex_);
  side_copies_ += snapshot.side_copies();
  return captured;
}

Status RedoLogEngine::capture_selection(const Selection::Lines& lines) {
  stage_.capture();
  selected_ = lines.numbers;
  writer_ = take_writer();
  writer_->begin(*version_);
  write_lines(lines.numbers, lines.data, *writer_);
  return writer_->finish();
}

Status RedoLogEngine::prepare() {
  stage_.prepare();
  PERDURA_TRY(config_.volume->medium().check_named());
  // Mutators run: it keeps nobody but those who wait for the version.
  if (changes_ != nullptr) PERDURA_TRY(config_.guard->before_version(*changes_));
  PERDURA_TRY(config_.guard->before_version(selected_));
  if (writer_ == nullptr) {
    writer_ = take_writer();
    writer_->begin(*version_);
  }
  // Its place among the committed ones: once it is durable nothing may fail any more.
  prepared_.assign(1, {});
  PERDURA_TRY(writer_->finish_with_commit());
  // Barrier: every block of the version is durable before it is acknowledged, and before a later
  // version is written.
  PERDURA_TRY(config_.volume->medium().barrier(PERDURA_SITE("commit")));
  prepared_.front() = {version_->number, version_->log_bytes, std::move(version_->blocks)};
  give_writer(std::exchange(writer_, nullptr));
  stage_.prepared();
  return {};
}

void RedoLogEngine::publish() noexcept {
  stage_.publish();
  // A segment in hand could not be given back; but where it may not come home each next version
  // would have one to itself.
  const bool comes_home = may_come_home(version_->number);
  if (comes_home && config_.space->over_limit()) leave_segments();
  const u64 transaction_bytes = config_.space->transaction_bytes(version_->number);
  std::lock_guard lock(mutex_);
  transaction_bytes_ = transaction_bytes;
  log_bytes_ += version_->log_bytes;
  live_log_bytes_ += version_->log_bytes;
  committed_.splice(committed_.end(), prepared_);
  if (replay_due()) replay_work_.notify_all();
}

bool RedoLogEngine::may_come_home(u64 version) {
  std::lock_guard lock(mutex_);
  look_for_readers();
  return version <= kept();
}

void RedoLogEngine::discard() {
  stage_.discard();
  if (writer_ != nullptr) {
    writer_->abandon();
    give_writer(std::exchange(writer_, nullptr));
  }
  // Those of it that did not fail as well: what is free once a version has failed holds none.
  leave_segments();
  prepared_.clear();
  std::lock_guard lock(mutex_);
  if (!version_) return;
  pins_.note_failed(version_->number);
  log_bytes_ += version_->log_bytes;
  config_.space->free_torn(version_->number - 1, replayed_);
}

Engine::Written RedoLogEngine::written() const {
  return {version_->line_count * kLineBytes, version_->log_bytes};
}

log::VersionWriter* RedoLogEngine::take_writer() {
  std::lock_guard lock(writers_mutex_);
  if (free_writers_.empty()) {
    free_writers_.reserve(writers_.size() + 1);  // giving it back cannot fail
    writers_.push_back(std::make_unique<log::VersionWriter>(*config_.space, *config_.volume,
                                                            config_.region->id()));
    return writers_.back().get();
  }
  log::VersionWriter* writer = free_writers_.back();
  free_writers_.pop_back();
  return writer;
}

// While nobody writes a version.
void RedoLogEngine::leave_segments() {
  std::lock_guard lock(writers_mutex_);
  for (const auto& writer : writers_) writer->leave_segment();
}

void RedoLogEngine::give_writer(log::VersionWriter* writer) {
  std::lock_guard lock(writers_mutex_);
  free_writers_.push_back(writer);
}

// What stopped it may be over, as a full disk. Until then versions stay in the log, which is as
// durable as their home.
void RedoLogEngine::retry_replay() {
  if (!replay_failure_) return;
  replay_failure_.reset();
  if (replay_due()) replay_work_.notify_all();
}

bool RedoLogEngine::replay_due() const {
  if (!has_replayable() || replay_failure_) return false;
  return replay_at_once_ || drains_ != 0 || replayable_bytes() > config_.space->limit_bytes() / 2;
}

void RedoLogEngine::run_replay() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wait_for_replay(lock);
    if (stopping_) return;
    if (std::exchange(log_is_scarce_, false)) {
      lock.unlock();
      config_.space->grow_ahead();
      lock.lock();
      continue;
    }
    look_for_readers();
    if (!has_replayable()) {
      progress_.notify_all();  // nobody needs to wait for it
      continue;
    }
    const bool again = std::exchange(replay_torn_, true);
    replaying_ = true;
    const u64 number = ++replays_begun_;
    std::vector<log::LoggedVersion> versions;
    Status status = guarded([&]() -> Status {
      for (const log::LoggedVersion& each : committed_)
        if (each.number <= kept()) versions.push_back(each);
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
      replay_that_failed_ = number;
    } else {
      for (const log::LoggedVersion& version : versions) {
        live_log_bytes_ -= version.log_bytes;
        committed_.pop_front();
      }
      replayed_ = versions.back().number;
      transaction_bytes_ =
          committed_.empty() ? 0 : config_.space->transaction_bytes(committed_.back().number);
    }
    progress_.notify_all();
  }
}

// Meanwhile the home image is verified, unless an attempt that failed left it half written. A step
// that is due goes before the replay, else a store that is never idle would never be verified.
void RedoLogEngine::wait_for_replay(std::unique_lock<std::mutex>& lock) {
  // Who drains may keep the one who holds from going on.
  const auto due = [this] {
    return stopping_ || log_is_scarce_ || (replay_due() && (!held_ || drains_ != 0));
  };
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

Status RedoLogEngine::replay(const std::vector<log::LoggedVersion>& versions, bool again) {
  const u64 newest = versions.back().number;
  const auto writing = config_.guard->writing();  // also while what failed is still in flight
  // Where it fails it waits for the writes that are in flight, and is not used again.
  std::unique_ptr<Replay> replay = std::exchange(replay_, nullptr);
  if (replay == nullptr)
    replay = std::make_unique<Replay>(*config_.volume, config_.region->limit(), config_.mutators);
  u64 home_bytes = 0;
  // An update of the superblock that failed may be on the medium all the same, and then recovery
  // does not look for these versions in the log: their older lines must not come home again.
  const auto news = std::find_if(versions.begin(), versions.end(), [this](const auto& version) {
    return version.number > home_version_;
  });
  if (news != versions.end()) {
    // Before their lines are home the superblock knows that they were durable: else rot in their
    // log would be taken for a checkpoint that a crash cut short, and the version before for whole.
    PERDURA_TRY(config_.volume->confirm(config_.region->id(), newest));
    const Status done = replay->run(config_.region->home(), {news, versions.end()}, again);
    for (const u64 page : replay->damaged()) config_.guard->note_in_version(page);
    if (!done) return copy_of(done.failure());
    home_bytes = replay->home_bytes();
    // Barrier: the home image is durable before the superblock says that the log is not needed.
    PERDURA_TRY(config_.volume->medium().barrier(PERDURA_SITE("home image")));
    home_version_ = newest;
  }
  PERDURA_TRY(config_.volume->set_replayed(config_.region->id(), newest,
                                           config_.space->live_generation_after(newest)));
  retire(newest);
  replay_ = std::move(replay);
  std::lock_guard lock(mutex_);
  home_bytes_ += home_bytes;
  return {};
}

// --- statistics --------------------------------------------------------------------------------

void RedoLogEngine::add_to(Statistics& statistics) const {
  std::lock_guard lock(mutex_);
  statistics.replayed_version = replayed_;
  statistics.log_bytes = log_bytes_;
  statistics.log_live_bytes = live_log_bytes_;
  statistics.log_capacity_bytes = config_.space->capacity_bytes();
  statistics.log_limit_bytes = config_.space->limit_bytes();
  statistics.home_bytes = home_bytes_;
  statistics.side_copies = side_copies_;
}

void RedoLogEngine::reset_statistics() {
  std::lock_guard lock(mutex_);
  log_bytes_ = home_bytes_ = side_copies_ = 0;
}

}  // namespace perdura::commit
