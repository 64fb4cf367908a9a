#include "commit/transaction_log.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/checksum.hpp"
#include "base/mutant.hpp"
#include "base/threads.hpp"

namespace perdura::commit {
namespace {

using format::LogBlockHeader;
using format::TransactionRecord;

constexpr u64 kBehindMax = 0xffff;
constexpr std::chrono::microseconds kCompanyWait{100};  // less than a barrier of a disk takes
constexpr std::chrono::microseconds kAwakeTime{300};
// Each attempt is a checkpoint, and what keeps it from being made may last.
constexpr std::chrono::milliseconds kPatienceMin{50};
constexpr std::chrono::milliseconds kPatienceMax{std::chrono::minutes(1)};
constexpr u64 kAwakeCompany = 3;  // two wake each other more quickly than they yield

}  // namespace

u64 record_checksum(const TransactionRecord& record, u64 place, const SegmentUse& use) {
  constexpr u64 kOdd = 0x9e3779b97f4a7c15;
  const u64 sum = checksum(&record.time, record.bytes - sizeof record.checksum);
  const u64 session = is_mutant("session_of_segment") ? 0 : use.session;
  return sum + place * kOdd + use.generation * (kOdd * kOdd) + session * (kOdd * kOdd * kOdd);
}

TransactionBuilder::TransactionBuilder(u64 segment_bytes)
    : record_(segment_bytes), words_max_((segment_bytes - kPageBytes) / sizeof(u64)) {}

Failure TransactionBuilder::too_large() const {
  return {Code::kNoSpace, "a transaction changes more than a log segment of " +
                              std::to_string(record_.size()) +
                              " bytes holds; make it several, or the store with larger "
                              "log_segment_bytes"};
}

media::Bytes TransactionBuilder::set_header(const Commit& commit, u64 behind) {
  *reinterpret_cast<TransactionRecord*>(record_.data()) = {
      .checksum = 0,
      .time = commit.time,
      .slot = commit.slot,
      .behind = static_cast<u16>(std::min(behind, kBehindMax)),
      .bytes = static_cast<u32>(bytes()),
      .sequence = commit.sequence,
      .durable_version = commit.durable_version};
  std::memset(record_.data() + bytes(), 0, length() - bytes());
  return record_.first(length());
}

void TransactionBuilder::set_checksum(u64 place, const SegmentUse& use) {
  auto& record = *reinterpret_cast<TransactionRecord*>(record_.data());
  record.checksum = record_checksum(record, place, use);
}

TransactionSegment::TransactionSegment(Log& log, region::Volume& volume, u32 region)
    : log_(log),
      volume_(volume),
      region_(region),
      bytes_(volume.segment_bytes()),
      header_bytes_(round_up(sizeof(LogBlockHeader), volume.medium().geometry().write_bytes)),
      header_(header_bytes_) {}

void TransactionSegment::leave() {
  if (taken_) log_.release(segment_.index);
  taken_ = false;
}

bool TransactionSegment::has_room(u64 bytes, u64 version) {
  if (!taken_ || used_ + bytes > bytes_) return false;
  // The log has one lock for all threads.
  if (version != version_) log_.note_version(segment_.index, version_ = version);
  return true;
}

Status TransactionSegment::take(u64 version) {
  leave();
  PERDURA_ASSIGN(segment_, log_.take_for_transactions(version));
  taken_ = true;
  version_ = version;
  used_ = header_bytes_;
  return {};
}

media::Bytes TransactionSegment::header(u64 first_sequence) {
  std::memset(header_.data(), 0, header_bytes_);
  auto& header = *reinterpret_cast<LogBlockHeader*>(header_.data());
  header.data_checksum = header.runs_checksum = checksum(nullptr, 0);
  header.store_id = volume_.store_id();
  header.generation = segment_.generation;
  header.ticket = first_sequence;
  header.magic = format::kLogBlockMagic;
  header.flags = format::kLogTransactions;
  header.region = region_;
  header.block_bytes = static_cast<u32>(bytes_);
  header.place = segment_.offset;
  header.session = log_.session();
  header.checksum = header_checksum(header);
  return header_.first(header_bytes_);
}

// The header of a new segment becomes durable with its first record.
Status TransactionWriter::make_room(u64 length, u64 version, u64 sequence) {
  if (segment_.has_room(length, version)) return {};
  PERDURA_TRY(segment_.take(version));
  const Status written = medium_.write(segment_.begin(), segment_.header(sequence),
                                       PERDURA_SITE("transaction segment"));
  if (!written) segment_.leave();  // no record counts in it
  return written;
}

Status TransactionWriter::commit(TransactionBuilder& record,
                                 const TransactionBuilder::Commit& commit, Steps steps) {
  const Status written = write(record, commit, steps);
  if (!written) segment_.leave();
  return written;
}

Status TransactionWriter::write(TransactionBuilder& record,
                                const TransactionBuilder::Commit& commit, Steps steps) {
  const u64 place = segment_.place();
  const media::Bytes bytes = record.set_header(commit, 0);
  if (steps != Steps::kOne) PERDURA_TRY(write_before(bytes, place, record.bytes(), steps));
  record.set_checksum(place, segment_.current_use());
  PERDURA_TRY(medium_.write(place, steps == Steps::kOne ? bytes : bytes.first(kLineBytes),
                            PERDURA_SITE("transaction record")));
  // Barrier: the transaction is durable before others see what it stored, and before its slot
  // writes another record.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("transaction")));
  segment_.use(bytes.size());
  return {};
}

// These barriers order nothing that recovery needs: they are what OpF-STM is measured against.
Status TransactionWriter::write_before(media::Bytes record, u64 place, u64 bytes, Steps steps) {
  if (steps == Steps::kRecordThenMark) {
    PERDURA_TRY(medium_.write(place, record, PERDURA_SITE("transaction before its mark")));
    return medium_.barrier(PERDURA_SITE("before a transaction's mark"));
  }
  for (u64 word = sizeof(TransactionRecord); word < bytes; word += sizeof(u64)) {
    const u64 line = round_down(word, kLineBytes);
    PERDURA_TRY(medium_.write(place + line, record.subspan(line, kLineBytes),
                              PERDURA_SITE("word of a transaction")));
    PERDURA_TRY(medium_.barrier(PERDURA_SITE("after a word of a transaction")));
  }
  return {};
}

// --- group commit --------------------------------------------------------------------------------

TransactionStream::TransactionStream(Log& log, region::Volume& volume, u32 region)
    : medium_(volume.medium()),
      write_bytes_(medium_.geometry().write_bytes),
      segment_(log, volume, region),
      content_(volume.segment_bytes()),
      tail_(write_bytes_) {}

// Commits that did not wait are told to be durable soon: also where the store goes without a last
// version, as it does when an exception destroys it.
TransactionStream::~TransactionStream() {
  end_write_behind();
  std::unique_lock lock(mutex_);
  if (!failed_ && durable_total_ != appended_total_ && !is_mutant("relaxed_lost_at_end"))
    (void)flush(lock);  // a destructor tells nobody
}

void TransactionStream::end_write_behind() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    appended_.notify_one();
  }
  if (behind_.joinable()) behind_.join();
}

Status TransactionStream::write_behind(std::function<void()> take_version) {
  if (behind_.joinable()) return {};
  take_version_ = std::move(take_version);
  const NoSignals no_signals;
  behind_ = std::thread([this] { run_write_behind(); });
  return {};
}

void TransactionStream::run_write_behind() {
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
void TransactionStream::have_mended(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  take_version_();
  lock.lock();
  if (!failed_) return;
  appended_.wait_for(lock, patience_, [this] { return ending_ || !failed_; });
  patience_ = std::min(2 * patience_, kPatienceMax);
}

// What a segment holds is durable before the next one is begun.
Status TransactionStream::make_room(std::unique_lock<std::mutex>& lock, u64 length, u64 version) {
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

u64 TransactionStream::append(TransactionBuilder& record,
                              const TransactionBuilder::Commit& commit) {
  if (std::exchange(is_new_, false)) {
    const media::Bytes header = segment_.header(commit.sequence);
    std::memcpy(content_.data(), header.data(), header.size());
  }
  if (appended_sequence_ == 0) durable_sequence_ = commit.sequence - 1;
  appended_sequence_ = commit.sequence;
  appended_time_ = commit.time;
  const media::Bytes bytes = record.set_header(commit, commit.sequence - 1 - durable_sequence_);
  record.set_checksum(segment_.place(), segment_.current_use());
  std::memcpy(content_.data() + segment_.used(), bytes.data(), bytes.size());
  segment_.use(bytes.size());
  appended_.notify_one();
  return appended_total_ += bytes.size();
}

// Those whose records went with the last flush are about to come again. A barrier for all of them
// takes as long as one for those that were quicker, so the last to come writes, or whoever has
// waited long enough.
Status TransactionStream::wait(u64 position) {
  const NotCancelled not_cancelled;
  std::unique_lock lock(mutex_);
  bool may_stay_awake = company_ >= kAwakeCompany && flush_time_ <= kAwakeTime;
  std::optional<Clock::time_point> alone_at;
  while (durable_total_ < position) {
    if (failed_) return copy_of(*failed_);
    if (flushing_) {
      if (may_stay_awake) may_stay_awake = stay_awake(lock, position, Clock::now() + kAwakeTime);
      else flushed_.wait(lock);
      alone_at = {};
      continue;
    }
    if (!alone_at) alone_at = Clock::now() + kCompanyWait;
    const bool is_last = appended_sequence_ - durable_sequence_ >= company_;
    if (is_last || Clock::now() >= *alone_at) PERDURA_TRY(flush(lock));
    else if (may_stay_awake) stay_awake(lock, position, *alone_at);
    else flushed_.wait_until(lock, *alone_at);
  }
  return {};
}

// To wake several threads one after the other takes as long as a barrier of a fast disk. Returns
// whether it was worth it.
bool TransactionStream::stay_awake(std::unique_lock<std::mutex>& lock, u64 position,
                                   Clock::time_point end) const {
  lock.unlock();
  bool durable = false;
  while (!(durable = durable_total_.load(std::memory_order_acquire) >= position) &&
         Clock::now() < end)
    std::this_thread::yield();
  lock.lock();
  return durable;
}

// Times from before the store was opened are durable; nothing of those waits.
u64 TransactionStream::position_behind(u64 time) {
  if (time <= durable_time_.load(std::memory_order_acquire)) return 0;
  const std::lock_guard lock(mutex_);
  return durable_total_ == appended_total_ ? 0 : appended_total_;
}

// By one thread for all that have appended so far; others append meanwhile.
Status TransactionStream::flush(std::unique_lock<std::mutex>& lock) {
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
  flush_time_ = finished - started;
  flushing_ = false;
  if (written) {
    written_ = end;
    // Who has appended meanwhile, and those who go on now.
    company_ = appended_sequence_ - durable_sequence_;
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

u64 TransactionStream::failure() {
  const std::lock_guard lock(mutex_);
  return failed_ ? failures_ : 0;
}

// Of what was being written any part may be on the medium, so the segment is left. Whoever reads it
// finds records that the version has, and may find a hole among them: each of those that were
// written with it says how many before it were not durable.
void TransactionStream::mend(u64 failure) {
  const std::lock_guard lock(mutex_);
  if (!failed_ || failures_ != failure) return;
  failed_.reset();
  segment_.leave();
  durable_total_.store(appended_total_, std::memory_order_release);
  durable_sequence_ = appended_sequence_;
  durable_time_ = appended_time_;
  flushed_.notify_all();
}

namespace {

/// Only damage makes a version go that was durable when a record was made.
bool relies_on_later(const TransactionRecord& record, u64 durable_version) {
  if (is_mutant("versions_of_16_bits"))
    return static_cast<std::int16_t>(record.durable_version - durable_version) > 0;
  return record.durable_version > durable_version;
}

/// The records of a segment.
class SegmentReader {
 public:
  SegmentReader(region::Volume& volume, u64 durable_version, u64 offset, const std::byte* segment)
      : volume_(volume),
        durable_version_(durable_version),
        medium_(volume.medium()),
        offset_(offset),
        segment_(segment),
        header_(*reinterpret_cast<const LogBlockHeader*>(segment)) {}

  // They follow each other by sequence. A failure may leave records that were written together with
  // holes between them: those behind the first hole never were. One that was written when the hole
  // was durable counts: whoever repeats it misses those before it, unless a version has them. (So
  // it is where power failed while the next use of the segment began, and what arrived is not its
  // beginning: of the last use, which counts no more, records are left with a hole.)
  Status read(std::vector<FoundTransaction>& into) {
    u64 next = header_.ticket;
    for (u64 used = sizeof(LogBlockHeader);
         used + sizeof(TransactionRecord) <= volume_.segment_bytes();) {
      const TransactionRecord* const record = record_at(used);
      if (record == nullptr) {
        used += kLineBytes;
        continue;
      }
      const u64 place = offset_ + used;
      const u64 sequence = sequence_of(*record);
      used += round_up(record->bytes, kLineBytes);
      if (!is_v2() && relies_on_later(*record, durable_version_))
        return damaged("the transaction at offset " + std::to_string(place) +
                       " relies on a later version than " + std::to_string(durable_version_) +
                       ", the last one that is whole");
      const bool hole_was_durable =
          record->behind != kBehindMax && sequence > next + record->behind;
      if (sequence != next && !hole_was_durable) continue;
      const auto* const words = reinterpret_cast<const u64*>(record) + header_bytes() / sizeof(u64);
      const u64 count = (record->bytes - header_bytes()) / sizeof(u64);
      into.push_back(
          {offset_, place, record->time, record->slot, sequence, {words, words + count}});
      next = sequence + 1;
    }
    return {};
  }

 private:
  bool is_v2() const { return header_.session == 0; }
  u64 header_bytes() const { return is_v2() ? format::kRecordBytesV2 : sizeof(TransactionRecord); }
  u64 sequence_of(const TransactionRecord& record) const {
    return is_v2() ? format::sequence_v2(record.sequence) : record.sequence;
  }

  const TransactionRecord* record_at(u64 used) {
    const std::byte* const at = segment_ + used;
    const u64 place = offset_ + used;
    const u64 left = volume_.segment_bytes() - used;
    const auto* const record = reinterpret_cast<const TransactionRecord*>(at);
    // How long it is says the record itself: first that, then all of it.
    u32 bytes = 0;
    std::memcpy(&bytes, &record->bytes, sizeof bytes);
    if (bytes < header_bytes() || bytes > left || bytes % sizeof(u64) != 0) return nullptr;
    const bool whole = medium_.whole(
        place, at, bytes, PERDURA_SITE("transaction record"), [&](const std::byte* content) {
          const auto* const found = reinterpret_cast<const TransactionRecord*>(content);
          return found->bytes == bytes &&
                 found->checksum ==
                     record_checksum(*found, place, {header_.session, header_.generation}) &&
                 found->slot < format::kTransactionSlots && found->time <= format::kCounterMax;
        });
    return whole ? record : nullptr;
  }

  Failure damaged(const std::string& what) const {
    return {Code::kCorrupt, "the log of '" + volume_.name() + "' is damaged: " + what +
                                "; restore the store from a copy"};
  }

  region::Volume& volume_;
  const u64 durable_version_;
  media::Medium& medium_;
  const u64 offset_;
  const std::byte* const segment_;
  const LogBlockHeader& header_;
};

}  // namespace

Result<std::vector<FoundTransaction>> read_transactions(region::Volume& volume,
                                                        const RecoveredLog& recovered,
                                                        u64 durable_version) {
  std::vector<FoundTransaction> found;
  for (const u64 offset : recovered.transaction_segments)
    PERDURA_TRY(
        SegmentReader(volume, durable_version, offset, recovered.image->at(offset)).read(found));
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.time < b.time; });
  return found;
}

}  // namespace perdura::commit
