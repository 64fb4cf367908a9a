#include "log/record_stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/mutant.hpp"
#include "base/threads.hpp"

namespace perdura::log {
namespace {

// Each attempt is a checkpoint, and what keeps it from being made may last.
constexpr std::chrono::milliseconds kPatienceMin{50};
constexpr std::chrono::milliseconds kPatienceMax{std::chrono::minutes(1)};

}  // namespace

RecordStream::RecordStream(Space& space, region::Volume& volume, u32 region)
    : space_(space),
      medium_(volume.medium()),
      write_bytes_(medium_.geometry().write_bytes),
      segment_(space, volume, region, 0),
      content_(volume.segment_bytes()),
      tail_(write_bytes_) {}

// Commits that did not wait are told to be durable soon: also where the store goes without a last
// version, as it does when an exception destroys it.
RecordStream::~RecordStream() {
  end_write_behind();
  std::unique_lock lock(mutex_);
  if (!failed_ && durable_total_ != appended_total_ && !is_mutant("relaxed_lost_at_end"))
    (void)flush(lock);  // a destructor tells nobody
}

void RecordStream::end_write_behind() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    appended_.notify_one();
  }
  if (behind_.joinable()) behind_.join();
}

Status RecordStream::write_behind(std::function<void()> take_version) {
  if (behind_.joinable()) return {};
  take_version_ = std::move(take_version);
  const NoSignals no_signals;
  behind_ = std::thread([this] { run_write_behind(); });
  return {};
}

void RecordStream::run_write_behind() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!failed_) patience_ = kPatienceMin;
    if (flushing_) {
      flushed_.wait(lock);
    } else if (failed_) {
      have_mended(lock);
    } else if (durable_total_ != appended_total_) {
      (void)flush(lock);
    } else {
      appended_.wait(lock);
    }
  }
}

// Whoever commits next would do it as well, but perhaps nobody does.
void RecordStream::have_mended(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  take_version_();
  lock.lock();
  if (!failed_) return;
  appended_.wait_for(lock, patience_, [this] { return ending_ || !failed_; });
  patience_ = std::min(2 * patience_, kPatienceMax);
}

// What a segment holds is durable before the next one is begun.
Status RecordStream::make_room(std::unique_lock<std::mutex>& lock, u64 length, u64 version) {
  const NotCancelled not_cancelled;
  for (;;) {
    if (failed_) return copy_of(*failed_);
    if (segment_.has_room(length, version)) return {};
    if (flushing_) {
      flushed_.wait(lock);
    } else if (durable_total_ != appended_total_) {
      PERDURA_TRY(flush(lock));
    } else {
      PERDURA_TRY(segment_.take(version));
      std::memset(content_.data(), 0, content_.size());
      written_ = 0;
      is_new_ = true;
    }
  }
}

u64 RecordStream::append(RecordBuilder& record, const RecordBuilder::Commit& commit) {
  if (std::exchange(is_new_, false)) {
    const media::Bytes header = segment_.header(commit.sequence);
    std::memcpy(content_.data(), header.data(), header.size());
  }
  if (appended_sequence_ == 0) durable_sequence_ = commit.sequence - 1;
  appended_sequence_ = commit.sequence;
  appended_time_ = commit.time;
  const media::Bytes bytes = record.set_header(commit, segment_.number_of(commit.sequence),
                                               commit.sequence - 1 - durable_sequence_);
  record.set_checksum(segment_.place(), segment_.current_use());
  std::memcpy(content_.data() + segment_.used(), bytes.data(), bytes.size());
  segment_.advance(bytes.size());
  appended_.notify_one();
  return appended_total_ += bytes.size();
}

Status RecordStream::wait(u64 position) {
  if (durable_total_.load(std::memory_order_acquire) >= position) return {};
  const u64 begin_ns = now_ns();
  Status durable = await(position);
  Space::Waits& waits = space_.waits();
  waits.count.fetch_add(1, std::memory_order_relaxed);
  waits.ns.fetch_add(now_ns() - begin_ns, std::memory_order_relaxed);
  return durable;
}

// The last to come writes, or whoever has waited long enough.
Status RecordStream::await(u64 position) {
  const NotCancelled not_cancelled;
  std::unique_lock lock(mutex_);
  const auto waits = [&] { return durable_total_.load(std::memory_order_acquire) < position; };
  bool may_stay_awake = company_.stays_awake();
  std::optional<Clock::time_point> alone_at;
  while (durable_total_ < position) {
    if (failed_) return copy_of(*failed_);
    if (flushing_) {
      if (may_stay_awake) may_stay_awake = Company::stay_awake(lock, Company::kAwake, waits);
      else flushed_.wait(lock);
      alone_at = {};
      continue;
    }
    if (!alone_at) alone_at = Clock::now() + Company::kWait;
    const bool is_last = company_.has_come(appended_sequence_ - durable_sequence_);
    if (is_last || Clock::now() >= *alone_at) PERDURA_TRY(flush(lock));
    else if (may_stay_awake) Company::stay_awake(lock, *alone_at - Clock::now(), waits);
    else flushed_.wait_until(lock, *alone_at);
  }
  return {};
}

// Times from before the store was opened are durable; nothing of those waits.
u64 RecordStream::position_behind(u64 time) {
  if (time <= durable_time_.load(std::memory_order_acquire)) return 0;
  const std::lock_guard lock(mutex_);
  return durable_total_ == appended_total_ ? 0 : appended_total_;
}

// By one thread for all that have appended so far; others append meanwhile.
Status RecordStream::flush(std::unique_lock<std::mutex>& lock) {
  flushing_ = true;
  const u64 total = appended_total_;
  const u64 sequence = appended_sequence_;
  const u64 time = appended_time_;
  const u64 begin = round_down(written_, write_bytes_);
  const u64 end = segment_.used();
  const u64 full = round_down(end, write_bytes_);
  const u64 place = segment_.begin();
  if (end != full) std::memcpy(tail_.data(), content_.data() + full, write_bytes_);
  lock.unlock();
  const auto started = Clock::now();
  Status written = guarded([&]() -> Status {
    if (full > begin)
      PERDURA_TRY(medium_.write(place + begin, content_.span().subspan(begin, full - begin),
                                PERDURA_SITE("transaction records")));
    if (end != full)
      PERDURA_TRY(medium_.write(place + full, tail_.span(), PERDURA_SITE("transaction records")));
    // Barrier: the transactions are durable before they are acknowledged.
    return medium_.barrier(PERDURA_SITE("transactions"));
  });
  const auto finished = Clock::now();
  lock.lock();
  flushing_ = false;
  if (written) {
    written_ = end;
    company_.note_barrier(appended_sequence_ - durable_sequence_, finished - started);
    durable_total_.store(total, std::memory_order_release);
    durable_sequence_ = sequence;
    durable_time_ = time;
  } else {
    failed_ = copy_of(written.failure());
    ++failures_;
  }
  flushed_.notify_all();
  return written;
}

u64 RecordStream::failure() {
  const std::lock_guard lock(mutex_);
  return failed_ ? failures_ : 0;
}

// Of what was being written any part may be on the medium, so the segment is left. Whoever reads it
// finds records that the version has, and may find a hole among them: each of those that were
// written with it says how many before it were not durable.
void RecordStream::mend(u64 failure) {
  const std::lock_guard lock(mutex_);
  if (!failed_ || failures_ != failure) return;
  failed_.reset();
  segment_.leave();
  durable_total_.store(appended_total_, std::memory_order_release);
  durable_sequence_ = appended_sequence_;
  durable_time_ = appended_time_;
  flushed_.notify_all();
}

}  // namespace perdura::log
