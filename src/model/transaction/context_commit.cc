// How a thread's transactions end: begun again, committed with a record or by a version, or undone.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/mutant.hpp"
#include "model/transaction/transaction_context.hpp"
#include "store/transaction_replay.hpp"

namespace perdura::detail {
namespace {

using format::EntryKind;
using format::TransactionState;
using Why = TransactionAgain::Why;

constexpr size_t kReadsAtFirst = 256;

log::RecordWriter::Steps steps_of(Durability durability) {
  using Steps = log::RecordWriter::Steps;
  switch (durability) {
    case Durability::kPerWrite:
      return Steps::kEachWord;
    case Durability::kLazyBulk:
      return Steps::kRecordThenMark;
    default:
      return Steps::kOne;
  }
}

}  // namespace

void TransactionContext::retry() {
  check_use();
  if (irrevocable)
    throw Error(Code::kMisuse, "an irrevocable transaction cannot begin again; retry() before it");
  // What it owns it may have read as well, and no list of reads has that.
  for (size_t i = 0; i < write_count_ && !is_mutant("retry_forgets_owned"); ++i)
    if (leads(write_at(i))) add_read(*write_at(i).record, write_at(i).version);
  throw TransactionAgain{this, Why::kWaits};
}

void TransactionContext::add_read(OwnershipRecord& record, u64 version) {
  if (reads_end_ == reads_limit_) make_room_for_read();
  *reads_end_++ = {&record, version};
}

// Its record is released by it.
bool TransactionContext::leads(const TransactionWrite& write) {
  return write.record->load(std::memory_order_relaxed) ==
         (reinterpret_cast<std::uintptr_t>(&write) | kOwned);
}

// Nobody else runs, so nothing that it reads changes.
void TransactionContext::be_irrevocable() {
  check_use();
  run_alone();
  irrevocable = beyond_words_ = true;
}

void TransactionContext::stop_others() {
  globals_.runtime().mutators().stop();
  mutator->depth.store(1, std::memory_order_relaxed);
  alone = true;
}

void TransactionContext::let_others_go_on() {
  alone = wants_alone = irrevocable = false;
  globals_.runtime().mutators().resume();
}

void TransactionContext::run_alone() {
  if (alone) return;
  wants_alone = true;
  throw TransactionAgain{this, Why::kMetOthers};
}

TransactionContext::TransactionContext(TransactionGlobals& globals)
    : globals_(globals),
      reads_(std::make_unique<TransactionRead[]>(kReadsAtFirst)),
      reads_space_end_(reads_.get() + kReadsAtFirst),
      record_(globals.runtime().volume().segment_bytes()) {
  records_ = globals.records();
  record_mask_ = globals.record_mask();
  reads_begin_ = reads_end_ = reads_limit_ = reads_.get();
}

// What it changed is done, or undone.
void TransactionContext::forget() {
  write_count_ = 0;
  changed_ = false;
  if (!beyond_words_) [[likely]]
    return;
  beyond_words_ = false;
  fresh_.clear();
  fresh_places_.clear();
  freed_.clear();
  if (!old_freed_.empty()) old_freed_.clear();
  linked_freed_ = nullptr;
  destroyed_.clear();
  destroying_ = false;
  overwritten_.clear();
  parts_ = direct_from_ = 0;
}

bool TransactionContext::validate() const {
  for (const TransactionRead* read = reads_begin_; read != reads_end_; ++read) {
    const u64 now = read->record->load(std::memory_order_acquire);
    if (now == read->version) continue;
    if ((now & kOwned) == 0 || !is_own(now) || write_of(now)->version != read->version)
      return false;
  }
  return true;
}

Status TransactionContext::commit() {
  waits_for_ = 0;
  const Durability durability = globals_.durability();
  if (!changed_) return commit_reads(durability);
  if (beyond_words_) [[unlikely]] {
    PERDURA_TRY(globals_.runtime().usable());
    run_destructors();
    if (has_to_commit()) return commit_surely(durability);
  }
  u64 time = 0;
  if (durability == Durability::kNone) {
    time = take_time();
    note_time(time);
  } else {
    PERDURA_TRY(globals_.runtime().tell_damage());  // before what may follow from it is durable
    if (relies_on_operations()) {
      if (!alone) throw TransactionAgain{this, Why::kNeedsVersion};
      return commit_without_record();
    }
    PERDURA_ASSIGN(time, make_record(durability));
  }
  last_commit_ = time;
  finish(time);
  return {};
}

// What it returns others have stored: where commits are durable when they return, that is too.
Status TransactionContext::commit_reads(Durability durability) {
  if (durability == Durability::kNone ||
      (globals_.stream() != nullptr && durability == Durability::kRelaxed))
    return {};
  const u64 newest = newest_read();
  if (log::RecordStream* const stream = globals_.stream())
    wait_for(stream->position_behind(newest));
  if (globals_.runtime().heap().version_required() && newest > globals_.in_version()) {
    if (!alone) throw TransactionAgain{this, Why::kNeedsVersion};
    needs_version = unfinished = true;
  }
  return {};
}

Result<u64> TransactionContext::make_record(Durability durability) {
  record_.begin();
  PERDURA_TRY(add_entries());
  PERDURA_TRY(guarded([&] { return reserve_version(); }));
  return globals_.stream() != nullptr ? append_record(durability != Durability::kRelaxed)
                                      : write_record(steps_of(durability));
}

// A crash on a medium that has become full leaves what a record says to be brought home: there is
// to be room for a version that has it.
Status TransactionContext::reserve_version() const {
  if (is_mutant("recovery_needs_space")) return {};
  log::Space& log = *globals_.runtime().log();
  const std::span<const u64> entries = record_.entries();
  if (entries.size() * store::kVersionLinesOfWordMax <= log.reserved_lines()) [[likely]]
    return {};
  const u64 lines = store::version_lines(entries);
  return lines <= log.reserved_lines() ? Status{} : log.reserve(lines);
}

// Whether what operations have done since the last version is part of what it did: then it cannot
// be repeated on that version. (It may point there by other means than addresses: what it has read
// there no version has either, which is the program's to avoid.)
bool TransactionContext::relies_on_operations() const {
  const heap::Heap& heap = globals_.runtime().heap();
  if (!heap.has_unversioned() || is_mutant("relies_on_operations")) return false;
  if (heap.version_required()) return true;
  for (size_t i = 0; i < write_count_; ++i) {
    const TransactionWrite& write = write_at(i);
    if (write.word == nullptr) continue;
    const u64 value = value_in(write);
    if (heap.is_unversioned(write.word) || relies_on_operations(&value, 1)) return true;
  }
  for (const Fresh& fresh : fresh_)
    if (relies_on_operations(reinterpret_cast<const u64*>(fresh.block), fresh.bytes / sizeof(u64)))
      return true;
  bool relies = false;
  for_each_freed([&](const void* block) { relies = relies || heap.is_unversioned(block); });
  return relies;
}

bool TransactionContext::relies_on_operations(const u64* words, u64 count) const {
  const heap::Heap& heap = globals_.runtime().heap();
  return std::any_of(words, words + count, [&](u64 word) {
    return heap.is_unversioned(reinterpret_cast<const void*>(word));
  });
}

// What it destroyed is destroyed, and what an irrevocable one did is done: where there is no
// record, for want of memory neither, a version takes its place.
Status TransactionContext::commit_surely(Durability durability) {
  const bool is_logged = durability != Durability::kNone;
  if (is_logged && relies_on_operations()) return commit_without_record();
  const Result<u64> time =
      is_logged ? guarded([&] { return make_record(durability); }) : Result<u64>(take_time());
  if (!time) return commit_without_record();
  if (!is_logged) note_time(*time);
  last_commit_ = *time;
  finish(*time);
  return {};
}

// It runs alone and is not begun again.
Status TransactionContext::commit_without_record() {
  // First: who learns of the time is to see that a version is needed.
  rely_on_version();
  const u64 time = take_time();
  note_time(time);
  last_commit_ = time;
  finish(time);
  return {};
}

// The version that makes it durable is taken before it returns. Until then no other one commits
// that might rely on it: whoever sees what it stored sees this first.
void TransactionContext::rely_on_version() {
  needs_version = unfinished = true;
  globals_.runtime().heap().require_version();
}

namespace {

// It has part in the version that is being made now, or in the next one.
u64 at_the_latest(u64 durable_version) { return durable_version + 2; }

}  // namespace

// Returns its time, and so does write_record.
Result<u64> TransactionContext::append_record(bool wait) {
  const u64 durable = globals_.runtime().checkpointer().durable_version();
  log::RecordStream& stream = *globals_.stream();
  auto lock = stream.lock();
  const Status room =
      guarded([&] { return stream.make_room(lock, record_.length(), at_the_latest(durable)); });
  if (!room && stream.has_failed() && !has_to_commit() && !is_mutant("failed_log_stays"))
    throw TransactionAgain{this, Why::kLogFailed};
  PERDURA_TRY(room);
  const u64 time = take_time();
  TransactionState::Slot& slot = globals_.slot(0);
  const u64 position = stream.append(record_, {time, slot.sequence + 1, durable});
  wait_for(wait ? position : 0);
  add_logged();
  note(slot, time);
  return time;
}

// A record that could not be written may be on the medium all the same, so its transaction is not
// undone: a version takes its place. That says by the slot that it has it, so the record counts no
// more; and what the stream commits next waits for it, else a gap might stand before its record.
Result<u64> TransactionContext::write_record(log::RecordWriter::Steps steps) {
  const auto lock = stream_->lock();
  if (stream_->is_shared() && globals_.runtime().heap().version_required())
    throw TransactionAgain{this, Why::kNeedsVersion};
  const u64 durable = globals_.runtime().checkpointer().durable_version();
  TransactionState::Slot& slot = globals_.slot(stream_->slot);
  const u64 sequence = slot.sequence + 1;
  log::RecordWriter& writer = *stream_->writer;
  PERDURA_TRY(guarded(
      [&] { return writer.make_room(record_.length(), at_the_latest(durable), sequence); }));
  const u64 time = take_time();
  const Status written =
      guarded([&] { return writer.commit(record_, {time, sequence, durable}, steps); });
  if (!written) rely_on_version();
  add_logged();
  note(slot, time);
  return time;
}

// The time of the last commit that it has read from.
u64 TransactionContext::newest_read() const {
  u64 newest = 0;
  for (const TransactionRead* read = reads_begin_; read != reads_end_; ++read)
    newest = std::max(newest, read->version >> 1);
  return newest;
}

// All that was read is as it was until then.
u64 TransactionContext::take_time() {
  const u64 time = globals_.take_time();
  if (time != snapshot_ + 1 && !validate()) throw TransactionAgain{this, Why::kMetOthers};
  return time;
}

void TransactionContext::wait_for(u64 position) {
  waits_for_ = position;
  unfinished = position != 0;
}

// With the stream's lock, or alone in it.
void TransactionContext::add_logged() {
  stream_->add_logged(record_.bytes());
  needs_stream = stream_->logged() > globals_.log_share();
}

// The region has it, and so has the next version.
void TransactionContext::note(TransactionState::Slot& slot, u64 time) {
  report(*mutator, &slot, sizeof slot);
  slot = {time, slot.sequence + 1};
}

// It has no record: the slot alone says where the next session's times begin. Its stream's slot,
// which on block media and where streams are few is other threads' as well.
void TransactionContext::note_time(u64 time) {
  TransactionState::Slot& slot = globals_.slot(stream_->slot);
  report(*mutator, &slot, sizeof slot);
  const std::atomic_ref noted(slot.time);
  u64 before = noted.load(std::memory_order_relaxed);
  while (before < time && !noted.compare_exchange_weak(before, time, std::memory_order_relaxed)) {
  }
}

inline void TransactionContext::put_values() const {
  for (size_t i = 0; i < write_count_ && !in_place_; ++i)
    if (const TransactionWrite& write = write_at(i); write.word != nullptr)
      put(write.word, write.value, write.mask);
}

// Others see what it did.
void TransactionContext::finish(u64 time) {
  if (beyond_words_) [[unlikely]] {
    give_linked_back();
    put_values();
    give_freed_back();
  } else {
    put_values();
  }
  release(time << 1);
  forget();
}

// What a transaction did, for one that repeats it.
Status TransactionContext::add_entries() {
  heap::Heap& heap = globals_.runtime().heap();
  std::byte* const base = globals_.runtime().region().base();
  const auto offset_of = [&](const void* place) {
    return static_cast<u64>(static_cast<const std::byte*>(place) - base);
  };
  for (const Fresh& fresh : fresh_) {
    if (fresh.given_back) continue;  // nor was it there for others
    PERDURA_ASSIGN(const heap::Heap::Place place, heap.place_of_block(fresh.block));
    PERDURA_ASSIGN(u64* const words, record_.take(3));
    words[0] = format::make_entry(EntryKind::kAllocate, 0, place.offset / 16);
    words[1] = u64{place.unit} | u64{place.units} << 32;
    words[2] = u64{place.size_class} | u64{place.tag} << 32;
    const auto* const content = reinterpret_cast<const u64*>(fresh.block);
    for (u64 at = 0, count = fresh.bytes / sizeof(u64); at < count;) {
      const u64 here = std::min(count - at, format::kEntryCountMax);
      PERDURA_ASSIGN(u64* const run, record_.take(1 + here));
      run[0] = format::make_entry(EntryKind::kWords, here, place.offset / 8 + at);
      std::memcpy(run + 1, content + at, here * sizeof(u64));
      at += here;
    }
  }
  const u64* last = nullptr;
  u64* run = nullptr;
  for (size_t i = 0; i < write_count_; ++i) {
    const TransactionWrite& write = write_at(i);
    if (write.word == nullptr) continue;
    if (write.mask != ~u64{0}) {
      PERDURA_ASSIGN(u64* const masked, record_.take(2));
      masked[0] = format::make_entry(EntryKind::kMaskedWord, format::bytes_of_mask(write.mask),
                                     offset_of(write.word) / 8);
      masked[1] = value_in(write) & write.mask;
      last = nullptr;
      continue;
    }
    if (last == nullptr || write.word != last + 1 ||
        format::entry_count(*run) == format::kEntryCountMax) {
      PERDURA_ASSIGN(run, record_.take(1));
      *run = format::make_entry(EntryKind::kWords, 0, offset_of(write.word) / 8);
    }
    PERDURA_ASSIGN(u64* const value, record_.take(1));
    *value = value_in(write);
    *run = format::make_entry(EntryKind::kWords, format::entry_count(*run) + 1,
                              format::entry_place(*run));
    last = write.word;
  }
  Status added;
  for_each_freed([&](const void* block) {
    if (!added || fresh_at(block) != kNotFresh) return;
    const Result<u64*> word = record_.take(1);
    if (!word) added = word.failure();
    else **word = format::make_entry(EntryKind::kFree, 0, offset_of(block) / 16);
  });
  return added;
}

// Each record once: by the write that it leads to. 0: as it was before.
void TransactionContext::release(u64 version) {
  for (size_t i = 0; i < write_count_; ++i) {
    TransactionWrite& write = write_at(i);
    if (leads(write))
      write.record->store(version != 0 ? version : write.version, std::memory_order_release);
  }
}

// Whoever has read what was in memory meanwhile finds that it is newer now.
void TransactionContext::roll_back() {
  u64 version = 0;
  if (in_place_ && write_count_ != 0) {
    for (size_t i = 0; i < write_count_; ++i)
      if (const TransactionWrite& write = write_at(i); write.word != nullptr)
        put(write.word, write.value, write.mask);
    version = globals_.take_time() << 1;
    // Not for itself, where it waits for others.
    for (TransactionRead* read = reads_begin_; read != reads_end_; ++read) {
      const u64 now = read->record->load(std::memory_order_relaxed);
      if ((now & kOwned) != 0 && is_own(now) && read->version == write_of(now)->version)
        read->version = version;
    }
  }
  release(version);
  if (beyond_words_) free_fresh(0);
  forget();
}

void TransactionContext::abandon() noexcept {
  roll_back();
  end();
  if (alone) let_others_go_on();
}

void TransactionContext::wait_for_change() const {
  constexpr int kSpinsBeforeSleep = 2000;
  for (int i = 0; validate(); ++i) {
    if (i < kSpinsBeforeSleep) __builtin_ia32_pause();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace perdura::detail
