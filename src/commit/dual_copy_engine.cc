#include "commit/dual_copy_engine.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/threads.hpp"

namespace perdura::commit {

using format::Extent;
using region::HomeMap;

namespace {

/// A program that was just started has better uses for the medium.
constexpr std::chrono::milliseconds kFirstScrub(250);
constexpr std::chrono::seconds kReadersMax(5);
constexpr std::chrono::milliseconds kLookForReaders(1);

}  // namespace

Result<std::unique_ptr<DualCopyEngine>> DualCopyEngine::create(const Config& config,
                                                               u64 durable_version) {
  PERDURA_ASSIGN(track::DirtyMap lacking, track::DirtyMap::create(config.region->limit()));
  PERDURA_ASSIGN(track::DirtyMap changed, track::DirtyMap::create(config.region->limit()));
  return std::unique_ptr<DualCopyEngine>(
      new DualCopyEngine(config, durable_version, std::move(lacking), std::move(changed)));
}

DualCopyEngine::DualCopyEngine(const Config& config, u64 durable_version, track::DirtyMap lacking,
                               track::DirtyMap changed)
    : config_(config),
      medium_(config.volume->linear()),
      by_lines_(medium_.geometry().byte_addressable),
      pins_(medium_, config.region->id()),
      lacking_(std::make_unique<track::DirtyMap>(std::move(lacking))),
      changed_(std::make_unique<track::DirtyMap>(std::move(changed))),
      buffers_(medium_, kPageBytes, PERDURA_SITE("pages of the older copy")),
      newest_(durable_version),
      scrub_(*config.volume, *config.guard, true),
      scrubbing_(config.verify_bytes_per_second != 0),
      next_scrub_(std::chrono::steady_clock::now() + kFirstScrub) {
  PERDURA_ASSERT(config.copies->opened() == format::copy_of(durable_version));
  const NoSignals no_signals;
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "perdura-copies");
}

DualCopyEngine::~DualCopyEngine() { stop_thread(); }

void DualCopyEngine::stop_thread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_ = true;
    work_.notify_all();
    progress_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status DualCopyEngine::finish(bool) {
  stop_thread();
  return {};
}

// --- room ---------------------------------------------------------------------------------------

// The next version takes the place of the one before the newest, and so does what makes the copies
// level. Who pins a version looks for it afterwards: since the newest one is durable nobody gets an
// older one. But somebody may have one that was discarded, by this session or by one before, in the
// place of the next one.
bool DualCopyEngine::has_place() const {
  return std::min(kept_from_, pins_.lowest()) >= newest_ && !pins_.any_above(newest_);
}

bool DualCopyEngine::has_room() const {
  std::lock_guard lock(mutex_);
  return ready_ && has_place();
}

Result<bool> DualCopyEngine::make_room() {
  const auto until = std::chrono::steady_clock::now() + kReadersMax;
  std::unique_lock lock(mutex_);
  if (!working_) failure_.reset();  // what it was for may be over
  for (bool waits = false;; waits = true) {
    if (stopping_) return Failure{Code::kMisuse, "the store is closed"};
    errno = 0;
    const bool may = may_write();
    if (ready_ && may) return waits;
    if (!may && errno != 0)
      return system_failure(errno, "cannot find out which versions of '" + config_.volume->name() +
                                       "' are open to be read");
    if (!may) {
      if (std::chrono::steady_clock::now() >= until)
        return Failure{Code::kLocked,
                       "a version of '" + config_.volume->name() +
                           "' that is open to be read has the place of the next one: a store in "
                           "two copies has no other; close or renew what reads it"};
      progress_.wait_for(lock, kLookForReaders);
      continue;
    }
    is_wanted_ = true;
    work_.notify_all();
    progress_.wait(lock, [this] { return ready_ || failure_ || stopping_; });
    if (!ready_ && failure_) return copy_of(*failure_);
  }
}

void DualCopyEngine::retry() {
  std::lock_guard lock(mutex_);
  if (!may_write()) return;
  is_wanted_ = true;
  failure_.reset();
  if (is_due()) work_.notify_all();
}

void DualCopyEngine::keep_from(u64 version) {
  std::lock_guard lock(mutex_);
  kept_from_ = version;
  progress_.notify_all();
}

bool DualCopyEngine::hold(bool on) {
  std::lock_guard lock(mutex_);
  held_ = on;
  if (!on) work_.notify_all();
  return !working_;
}

void DualCopyEngine::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wait_for_work(lock);
    if (stopping_) return;
    working_ = true;
    lock.unlock();
    const Status status = guarded([this] { return get_ready(); });
    lock.lock();
    working_ = false;
    if (stopping_) return;
    if (status) {
      ready_ = true;
      doubtful_ = false;
    } else {
      failure_ = copy_of(status.failure());
    }
    progress_.notify_all();
  }
}

// Meanwhile what the program views is verified.
void DualCopyEngine::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto due = [this] { return stopping_ || (is_due() && !held_); };
  while (scrubbing_) {
    if (work_.wait_until(lock, next_scrub_, due)) return;
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
  work_.wait(lock, due);
}

// No version is written meanwhile: there is no room for one.
Status DualCopyEngine::get_ready() {
  const u64 newest = newest_;
  if (!is_level_) {
    PERDURA_TRY(config_.copies->level(newest, stop_));
    is_level_ = true;
  }
  // What was discarded may be in the superblock, and the next attempt writes to that copy.
  return doubtful_ ? config_.volume->set_newest(config_.region->id(), newest) : Status{};
}

// --- writing a version --------------------------------------------------------------------------

void DualCopyEngine::begin(u64 version) {
  stage_.begin();
  PERDURA_ASSERT(version == newest_ + 1);
  version_ = version;
  writing_ = index_begun_ = false;
  writers_taken_ = 0;
  written_ = {};
}

Status DualCopyEngine::start_capture() {
  {
    std::lock_guard lock(mutex_);
    PERDURA_ASSERT(ready_);  // has_room() said so
  }
  config_.copies->look_again();
  writing_ = true;
  return {};
}

const Extent& DualCopyEngine::home(const HomeMap& copy, u64 page) {
  const Extent* const extent = copy.find(page * kPageBytes);
  PERDURA_ASSERT(extent != nullptr);  // what changes is accessible, and so has its places
  return *extent;
}

CopyWriter* DualCopyEngine::take_writer(bool compare) {
  std::lock_guard lock(writers_mutex_);
  if (writers_taken_ == writers_.size())
    writers_.push_back(std::make_unique<CopyWriter>(medium_, by_lines_ ? nullptr : &buffers_));
  CopyWriter* const writer = writers_[writers_taken_++].get();
  writer->begin({.copies = config_.copies,
                 .guard = config_.guard,
                 .newest = &config_.copies->at(format::copy_of(newest_)),
                 .older = &config_.copies->at(format::copy_of(version_)),
                 .lacking = lacking_.get(),
                 .changed = changed_.get(),
                 .compare = compare});
  return writer;
}

void DualCopyEngine::count_written() {
  for (size_t i = 0; i < writers_taken_; ++i) {
    const u64 bytes = writers_[i]->take_bytes();
    written_.changed_bytes += bytes;
    written_.bytes += bytes;
  }
}

// Pages that the guard does not know are verified in the copy that is viewed: before they are
// written to, where that is the older one; else in prepare(), when mutators run. On block media all
// writes go through the same buffers, in one thread.
Status DualCopyEngine::capture_stopped(const track::DirtyMap& changes) {
  stage_.capture();
  PERDURA_TRY(start_capture());
  if (config_.copies->opened() == format::copy_of(version_))
    PERDURA_TRY(config_.guard->before_version(changes));
  StoppedCopy copy({.changes = &changes, .base = config_.region->base(), .take_writer = [this] {
                      return take_writer(config_.compare);
                    }});
  if (by_lines_) config_.mutators->share(copy);
  else copy.help();
  count_written();
  return copy.status();
}

Status DualCopyEngine::capture(const track::DirtyMap& changes, Snapshot& snapshot) {
  stage_.capture();
  PERDURA_TRY(start_capture());
  if (config_.copies->opened() == format::copy_of(version_))
    PERDURA_TRY(config_.guard->before_version(changes));
  CopyWriter* const writer = take_writer(config_.compare);
  const Status written = snapshot.write_pages(changes, *writer);
  {
    std::lock_guard lock(mutex_);
    side_copies_ += snapshot.side_copies();
  }
  PERDURA_TRY(written);
  count_written();
  return writer->drain();
}

// Each page becomes what the newest version has with these lines in it, wherever that is.
Status DualCopyEngine::capture_selection(const Selection::Lines& lines) {
  stage_.capture();
  PERDURA_TRY(start_capture());
  PERDURA_TRY(config_.guard->before_version(lines.numbers));
  std::vector<size_t> order(lines.numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return lines.numbers[a] < lines.numbers[b]; });
  AlignedBuffer bytes(kPageBytes);
  CopyWriter* const writer = take_writer(false);
  const HomeMap& newest = config_.copies->at(format::copy_of(newest_));
  for (size_t i = 0; i < order.size();) {
    const u64 page = lines.numbers[order[i]] / kLinesPerPage;
    PERDURA_TRY(
        medium_.read(HomeMap::page_place(home(newest, page), page * kPageBytes), bytes.span()));
    u64 mask = 0;
    for (; i < order.size() && lines.numbers[order[i]] / kLinesPerPage == page; ++i) {
      const u64 line = lines.numbers[order[i]] % kLinesPerPage;
      std::memcpy(bytes.data() + line * kLineBytes, lines.data[order[i]], kLineBytes);
      mask |= u64{1} << line;
    }
    PERDURA_TRY(writer->take(page, mask, bytes.data()));
  }
  count_written();
  return writer->drain();
}

// It can be undone before it is done.
void DualCopyEngine::change_sum(u64 page, u64 sum) {
  u64& at = config_.copies->sum(page);
  if (at == format::kCondemnedPage || at == sum) return;
  old_sums_.push_back({page, at});
  at = sum;
}

// What the older copy lacks and this version does not change, from the newest one.
Status DualCopyEngine::add_lacking() {
  PagesAhead ahead;
  const auto use = [this](const PageLines& each) { return copy_page(each.page, each.mask); };
  const HomeMap& newest = config_.copies->at(format::copy_of(newest_));
  Status status;
  lacking_->for_each_page([&](u64 page, u64 mask) {
    if (!status) return;
    const u64 rest = mask & ~changed_->page_mask(page);
    if (rest == 0) return;
    const u64 place = HomeMap::page_place(home(newest, page), page * kPageBytes);
    if (by_lines_) prefetch_lines(medium_.direct(place, kPageBytes), rest);
    status = ahead.add({page, rest}, use);
  });
  PERDURA_TRY(status);
  return ahead.use_rest(use);
}

Status DualCopyEngine::copy_page(u64 page, u64 mask) {
  const u64 offset = page * kPageBytes;
  const u64 from =
      HomeMap::page_place(home(config_.copies->at(format::copy_of(newest_)), page), offset);
  const u64 to =
      HomeMap::page_place(home(config_.copies->at(format::copy_of(version_)), page), offset);
  if (by_lines_) {
    written_.bytes += static_cast<u64>(std::popcount(mask)) * kLineBytes;
    return for_each_run(mask, [&](u64 first, u64 count) {
      const u64 at = first * kLineBytes;
      return buffers_.queue().submit(
          to + at, {medium_.direct(from + at, count * kLineBytes), count * kLineBytes},
          PERDURA_SITE("lines that the older copy lacks"));
    });
  }
  written_.bytes += kPageBytes;
  PERDURA_ASSIGN(std::byte* const into, buffers_.room(to, kPageBytes));
  return medium_.read(from, {into, kPageBytes});
}

// Of all that was written, in units of the medium.
Status DualCopyEngine::write_sums() {
  Status status;
  u64 next = 0;  // pages below it have theirs
  lacking_->for_each_page([&](u64 page, u64) {
    if (config_.guard->condemned().contains(page)) change_sum(page, format::kCondemnedPage);
  });
  lacking_->for_each_page([&](u64 page, u64) {
    if (status && page >= next) status = write_sums_around(page, &next);
  });
  return status;
}

Status DualCopyEngine::write_sums_around(u64 page, u64* next) {
  const Extent& extent = home(config_.copies->at(format::copy_of(version_)), page);
  const u64 begin = extent.region_offset / kPageBytes;
  const u64 end = begin + extent.length / kPageBytes;
  const u64 unit = by_lines_ ? kLineBytes : kPageBytes;
  const u64 sums = unit / sizeof(u64);
  const u64 first = begin + round_down(page - begin, sums);
  const u64 place = HomeMap::checksum_place(extent, first * kPageBytes);
  written_.bytes += unit;
  *next = std::min(first + sums, end);
  const auto fill = [&](std::byte* to) {
    std::memset(to, 0, unit);
    std::memcpy(to, &config_.copies->sum(first), (*next - first) * sizeof(u64));
  };
  if (by_lines_) {
    alignas(kLineBytes) std::byte line[kLineBytes];
    fill(line);
    return buffers_.queue().submit(place, line, PERDURA_SITE("page sums of the older copy"));
  }
  PERDURA_ASSIGN(std::byte* const to, buffers_.room(place, unit));
  fill(to);
  return {};
}

Status DualCopyEngine::prepare() {
  stage_.prepare();
  PERDURA_TRY(medium_.check_named());
  if (!writing_) PERDURA_TRY(start_capture());
  if (config_.copies->opened() != format::copy_of(version_))
    PERDURA_TRY(config_.guard->before_version(*changed_));
  PERDURA_TRY(add_lacking());
  PERDURA_TRY(write_sums());
  PERDURA_TRY(buffers_.drain());
  // Barrier: the whole copy and its checksums are durable before the superblock says that it is the
  // newest one.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("older copy")));
  index_begun_ = true;
  PERDURA_TRY(config_.volume->set_newest(config_.region->id(), version_));
  stage_.prepared();
  return {};
}

// The copy that was the newest one is the older one now, and lacks what has changed.
void DualCopyEngine::publish() noexcept {
  stage_.publish();
  lacking_.swap(changed_);
  changed_->clear();
  old_sums_.clear();
  std::lock_guard lock(mutex_);
  newest_ = version_;
  bytes_written_ += written_.bytes;
}

// What it has written stays in lacking_.
void DualCopyEngine::discard() {
  stage_.discard();
  buffers_.abandon();
  for (size_t i = 0; i < writers_taken_; ++i) writers_[i]->abandon();
  for (auto each = old_sums_.rbegin(); each != old_sums_.rend(); ++each)
    config_.copies->sum(each->page) = each->sum;
  old_sums_.clear();
  for (size_t i = 0; i < writers_taken_; ++i) writers_[i]->undo_sums();
  changed_->clear();
  std::lock_guard lock(mutex_);
  bytes_written_ += written_.bytes;
  if (!std::exchange(index_begun_, false)) return;
  doubtful_ = true;
  ready_ = false;
}

// --- statistics ---------------------------------------------------------------------------------

void DualCopyEngine::add_to(Statistics& statistics) const {
  std::lock_guard lock(mutex_);
  statistics.replayed_version = newest_;
  statistics.home_bytes = bytes_written_;
  statistics.side_copies = side_copies_;
}

void DualCopyEngine::reset_statistics() {
  std::lock_guard lock(mutex_);
  bytes_written_ = side_copies_ = 0;
}

}  // namespace perdura::commit
