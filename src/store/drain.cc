#include "store/drain.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/threads.hpp"
#include "store/recovery.hpp"
#include "store/storage.hpp"

namespace perdura::store {
namespace {

constexpr std::chrono::milliseconds kLook(20);  // between looks for a version, where nobody says it
constexpr u64 kLooksForName = 50;               // looks between two at whether the place is there
constexpr std::chrono::milliseconds kRetryFirst(100);
constexpr std::chrono::milliseconds kRetryLast(10'000);

std::chrono::milliseconds retry_after(u64 failures) {
  return std::min(kRetryLast, kRetryFirst * (1 << std::min<u64>(failures, 10)));
}

void unite(std::vector<u64>& all, const std::vector<u64>& more) {
  all.insert(all.end(), more.begin(), more.end());
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace

/// The second place, open for as long as nothing fails there.
struct Drain::Target {
  std::unique_ptr<SharedVolume> shared;
  format::RegionRecord record{};
  std::unique_ptr<VersionTarget> versions;
};

Drain::Drain(Config config)
    : config_(std::move(config)),
      chunk_bytes_(backup_chunk_bytes(*config_.source.record)),
      pace_(pace_of(config_.bytes_per_second)),
      thread_([this] {
        const NoSignals no_signals;
        run();
      }) {}

Drain::~Drain() { end(); }

void Drain::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// --- what changed -------------------------------------------------------------------------------

void Drain::note(u64 version, const track::DirtyMap& changes) noexcept {
  const Status noted = guarded([&]() -> Status {
    std::vector<u64> chunks;
    changes.for_each_page([&](u64 page, u64) {
      const u64 chunk = page * kPageBytes / chunk_bytes_;
      if (chunks.empty() || chunks.back() != chunk) chunks.push_back(chunk);
    });
    add(version, std::move(chunks));
    return {};
  });
  if (!noted) lose_notes();
}

void Drain::note(u64 version, std::span<const u64> lines) noexcept {
  const Status noted = guarded([&]() -> Status {
    std::vector<u64> chunks;
    for (const u64 line : lines) chunks.push_back(line * kLineBytes / chunk_bytes_);
    add(version, std::move(chunks));
    return {};
  });
  if (!noted) lose_notes();
}

void Drain::lose_notes() noexcept {
  const std::lock_guard lock(mutex_);
  has_lost_notes_ = true;
}

// Where the drain lags, those that are durable become one: no older version is sent any more. But
// not while a version is chosen: it may be older than those that are durable by then.
void Drain::add(u64 version, std::vector<u64> chunks) {
  const std::lock_guard lock(mutex_);
  unite(noted_[version], chunks);
  if (noted_.size() <= kNotedMax || is_choosing_) return;
  const u64 durable = config_.source.durable();
  const auto end = noted_.lower_bound(durable);
  std::vector<u64> all;
  for (auto each = noted_.begin(); each != end; ++each)
    all.insert(all.end(), each->second.begin(), each->second.end());
  unite(noted_[durable], all);
  noted_.erase(noted_.begin(), noted_.lower_bound(durable));
}

std::vector<u64> Drain::take_noted(u64 version) {
  const std::lock_guard lock(mutex_);
  is_choosing_ = false;
  if (std::exchange(has_lost_notes_, false)) knows_changes_ = false;
  const auto end = noted_.upper_bound(version);
  std::vector<u64> all;
  for (auto each = noted_.begin(); each != end; ++each)
    all.insert(all.end(), each->second.begin(), each->second.end());
  noted_.erase(noted_.begin(), end);
  std::ranges::sort(all);
  return all;
}

// --- the thread ---------------------------------------------------------------------------------

void Drain::run() {
  std::unique_lock lock(mutex_);
  auto wait = kLook;
  for (;;) {
    work_.wait_for(lock, wait, [this] { return ends_; });
    if (ends_) break;
    wait = kLook;
    if (config_.source.durable() <= drained()) {
      // What is drained is there: as long as its file is.
      if (!target_ || ++looks_ % kLooksForName != 0) continue;
      lock.unlock();
      const Status named = target_->shared->volume().medium().check_named();
      if (!named) {
        drained_.store(0, std::memory_order_release);
        fail(named.failure());
      }
      lock.lock();
      continue;
    }
    lock.unlock();
    const Status drained = guarded([this] { return drain_one(); });
    lock.lock();
    if (drained) {
      failures_in_row_ = 0;
      last_failure_.clear();
      done_.notify_all();
      continue;
    }
    if (ends_) break;
    lock.unlock();
    fail(drained.failure());
    lock.lock();
    wait = retry_after(failures_in_row_++);
  }
  lock.unlock();
  if (target_) (void)target_->shared->end_session();  // what is durable there is durable
  target_.reset();
}

// Once for each failure that is another than the one before.
void Drain::fail(const Failure& failure) {
  target_.reset();
  knows_changes_ = false;
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    ++counters_.drain_failures;
    is_choosing_ = false;
    is_new = last_failure_ != failure.message;
    last_failure_ = failure.message;
  }
  if (!is_new) return;
  config_.events->tell(
      EventKind::kDrainFailed, failure.code,
      fmt::format("versions behind {} are not at '{}': {}; it is tried again, and the store goes "
                  "on without",
                  drained(), config_.uri, failure.message));
}

// Another region of this process may be drained to the same store.
Status Drain::open_target() {
  auto target = std::make_unique<Target>();
  PERDURA_ASSIGN(target->shared,
                 SharedVolume::of(config_.uri, [this]() -> Result<std::unique_ptr<region::Volume>> {
                   PERDURA_ASSIGN(media::OpenedMedium opened,
                                  media::open_medium(config_.uri, config_.medium));
                   if (config_.wrap) opened.medium = config_.wrap(std::move(opened.medium));
                   return open_volume(std::move(opened.medium), true, format::kSegmentBytesMax);
                 }));
  region::Volume& volume = target->shared->volume();
  // Nobody else in this process opens the region meanwhile.
  const char* const name = config_.source.record->name;
  PERDURA_ASSIGN(const SharedVolume::Claim claim, target->shared->claim(name, true));
  PERDURA_ASSIGN(target->record,
                 backup_region(volume, *config_.source.record, 0, claim.record.region));
  PERDURA_ASSIGN(target->versions, engine_kind(target->record).target(volume, target->record));
  target_ = std::move(target);
  return {};
}

// In parts of a twentieth of a second, so that the end waits for none of it.
Status Drain::pace(u64 bytes) {
  const u64 rate = config_.bytes_per_second;
  const u64 part = rate == 0 ? bytes : std::max<u64>(rate / 20, 1);
  for (u64 done = 0; done < bytes; done += part) {
    PERDURA_TRY(pace_(std::min(part, bytes - done)));
    const std::lock_guard lock(mutex_);
    if (ends_) return Failure{Code::kMisuse, "the store was closed"};
  }
  return {};
}

Status Drain::drain_one() {
  if (!target_) PERDURA_TRY(open_target());
  region::Volume& there = target_->shared->volume();
  {
    const std::lock_guard lock(mutex_);
    is_choosing_ = true;
  }
  PERDURA_ASSIGN(const auto own, OwnVersion::open(config_.source, false));
  VersionSource& source = own->source();
  const std::vector<u64> changed = take_noted(source.version());
  Sending sending;
  sending.source = source_mark(*config_.source.volume, *config_.source.record, source.version(),
                               source.record_checksum());
  PERDURA_TRY(
      check_lineage(there, *target_->versions, config_.source.volume->name(), sending.source));
  sending.version = target_->versions->newest() + 1;
  sending.pace = [this](u64 bytes) { return pace(bytes); };
  if (knows_changes_) {
    sending.may_differ = [&changed](u64 chunk) {
      return std::ranges::binary_search(changed, chunk);
    };
  } else {
    source.compare_to(target_->versions->newest_source());
    sending.may_differ = [&source](u64 chunk) { return !source.is_unchanged(chunk); };
  }
  PERDURA_ASSIGN(const CopiedRegion sent, send(source, *target_->versions, sending));
  const u32 region = target_->record.region;
  PERDURA_TRY(there.finish_regions({&region, 1}));
  PERDURA_TRY(follow_address(there, target_->record, *config_.source.record));
  target_->record.address = config_.source.record->address;
  knows_changes_ = true;

  const std::lock_guard lock(mutex_);
  const u64 before = drained();
  if (before != 0) counters_.drain_skipped += source.version() - before - 1;
  ++counters_.drained_versions;
  counters_.drain_read_bytes += sent.read_bytes;
  counters_.drain_bytes += sent.sent_bytes;
  drained_.store(source.version(), std::memory_order_release);
  return {};
}

// --- the end ------------------------------------------------------------------------------------

void Drain::finish(u64 wait_ms) {
  const u64 newest = config_.source.durable();
  {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, std::chrono::milliseconds(wait_ms),
                   [&] { return drained() >= newest || ends_; });
  }
  end();
  if (drained() >= newest) return;
  config_.events->tell(
      EventKind::kDrainFailed, Code::kIo,
      fmt::format(
          "closed before versions {} to {} were at '{}', which has {}{}", drained() + 1, newest,
          config_.uri,
          drained() == 0 ? std::string("none of this session")
                         : "version " + std::to_string(drained()),
          last_failure_.empty()
              ? "; the next session goes on with it, or `perdura backup` does it now"
              : ": " + last_failure_ + "; the next session goes on with it when that is mended"));
}

void Drain::add_to(Statistics& statistics) const {
  const std::lock_guard lock(mutex_);
  statistics.drained_version = drained();
  statistics.drained_versions = counters_.drained_versions;
  statistics.drain_skipped = counters_.drain_skipped;
  statistics.drain_read_bytes = counters_.drain_read_bytes;
  statistics.drain_bytes = counters_.drain_bytes;
  statistics.drain_failures = counters_.drain_failures;
}

}  // namespace perdura::store
