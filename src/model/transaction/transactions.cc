#include "model/transaction/transactions.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "store/transaction_replay.hpp"

namespace perdura {
namespace detail {
namespace {

using format::EntryKind;
using format::kTransactionRoot;
using format::TransactionState;

constexpr perdura_type kStateType{"perdura::format::TransactionState", sizeof(TransactionState),
                                  alignof(TransactionState), 0, nullptr};
constexpr u64 kRecords = u64{1} << 18;
constexpr size_t kReadsAtFirst = 256;
constexpr int kSpins = 64;  ///< for a record that another transaction owns
constexpr unsigned kBackOffShiftMax = 10;

commit::TransactionWriter::Steps steps_of(Durability durability) {
  using Steps = commit::TransactionWriter::Steps;
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

void back_off(u64 restarts, u64 salt) {
  const unsigned shift = static_cast<unsigned>(std::min<u64>(restarts, kBackOffShiftMax));
  const u64 spins = (restarts * 0x9e3779b97f4a7c15 + salt) % (u64{4} << shift);
  for (u64 i = 0; i < spins; ++i) __builtin_ia32_pause();
}

namespace {

/// What the library needs memory for; a body's own want of it is the body's.
template <class Call>
auto with_memory(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw Error(Code::kNoMemory, "out of memory");
  }
}

}  // namespace

// --- loads and stores ----------------------------------------------------------------------------

void TransactionThread::wait_or_restart(OwnershipRecord& record, std::uint64_t owned) {
  static_cast<const TransactionContext&>(*this).check_use();
  for (int i = 0; i < kSpins; ++i) {
    if (record.load(std::memory_order_relaxed) != owned) return;
    __builtin_ia32_pause();
  }
  throw TransactionRestart{};
}

void TransactionThread::extend() {
  auto& context = static_cast<TransactionContext&>(*this);
  context.check_use();
  const u64 now = context.all_.clock_.load(std::memory_order_acquire);
  if (!context.validate()) throw TransactionRestart{};
  snapshot_ = now;
}

void TransactionThread::grow_reads() {
  auto& context = static_cast<TransactionContext&>(*this);
  context.check_use();
  const auto count = static_cast<size_t>(reads_end_ - reads_begin_);
  auto larger = with_memory([&] { return std::make_unique<TransactionRead[]>(2 * count); });
  std::copy(reads_begin_, reads_end_, larger.get());
  context.reads_ = std::move(larger);
  reads_begin_ = context.reads_.get();
  reads_end_ = reads_begin_ + count;
  reads_limit_ = reads_begin_ + 2 * count;
  context.reads_space_end_ = reads_limit_;
}

void TransactionThread::store(std::uint64_t* word, std::uint64_t value) {
  auto& context = static_cast<TransactionContext&>(*this);
  context.check_use();
  if (context.is_fresh(word, context.direct_from_)) {
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
    return;
  }
  if (!context.all_.runtime_.region().contains(word))
    throw Error(Code::kMisuse, "a transaction stores to what is not in '" +
                                   context.all_.runtime_.name() +
                                   "'; such memory is the program's, and is not undone");
  context.set_value(*context.own(record_of(word), word), value);
}

void TransactionContext::check_use() const {
  if (!in_body)
    throw Error(Code::kMisuse,
                "a transaction is used after it has ended; use it in its body alone");
  if (&all_.runtime_.mutators().this_thread() != mutator)
    throw Error(Code::kMisuse,
                "a transaction is used in another thread; each thread has transactions of its own");
}

u64 TransactionContext::value_in(const TransactionWrite& write) const {
  return in_place_ ? value_of(write.word) : write.value;
}

// Whoever sees the value sees that its record is owned, or has been released since.
void TransactionContext::set_value(TransactionWrite& write, u64 value) const {
  if (!in_place_) {
    write.value = value;
    return;
  }
  report(*mutator, write.word, sizeof *write.word);
  std::atomic_ref(*write.word).store(value, std::memory_order_release);
}

// The transaction's write of a word, or of none. Its record is owned from here on.
TransactionWrite* TransactionContext::own(OwnershipRecord& record, u64* word) {
  for (;;) {
    u64 before = record.load(std::memory_order_acquire);
    if ((before & kOwned) != 0) {
      if (!is_own(before)) {
        wait_or_restart(record, before);
        continue;
      }
      if (word == nullptr) return write_of(before);
      if (TransactionWrite* const own = own_write(before, word)) return own;
      TransactionWrite& first = *write_of(before);
      TransactionWrite& added = add_write(word, record, first.version);
      added.next = first.next;
      if (in_place_) added.value = value_of(word);
      return first.next = &added;
    }
    if (before >> 1 > snapshot_) {
      extend();
      continue;
    }
    TransactionWrite& added = add_write(word, record, before);
    if (record.compare_exchange_strong(before, reinterpret_cast<std::uintptr_t>(&added) | kOwned,
                                       std::memory_order_acq_rel)) {
      if (in_place_ && word != nullptr) added.value = value_of(word);
      return &added;
    }
    --write_count_;
  }
}

// Others look whose a write is while it is made anew: that never changes.
TransactionWrite& TransactionContext::add_write(u64* word, OwnershipRecord& record, u64 version) {
  changed_ = true;
  if (write_count_ == writes_.size() * kWritesInBlock) {
    with_memory([&] { writes_.push_back(std::make_unique<WriteBlock>()); });
    for (TransactionWrite& each : *writes_.back()) each.owner = this;
  }
  TransactionWrite& added = write_at(write_count_++);
  added.word = word;
  added.record = &record;
  added.version = version;
  added.next = nullptr;
  return added;
}

bool TransactionContext::is_fresh(const void* place, size_t from) const {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  const auto found = std::lower_bound(fresh_places_.begin(), fresh_places_.end(), address);
  return found != fresh_places_.end() && found->begin <= address && found->index >= from;
}

// --- blocks --------------------------------------------------------------------------------------

template <class Allocate>
void* TransactionContext::add_fresh(u64 bytes, Allocate&& allocate) {
  check_use();
  changed_ = true;
  with_memory([&] {
    if (fresh_.size() == fresh_.capacity()) fresh_.reserve(2 * fresh_.size() + 8);
    if (fresh_places_.size() == fresh_places_.capacity())
      fresh_places_.reserve(2 * fresh_places_.size() + 8);
  });
  void* const block = value_or_throw(allocate(all_.runtime_.heap()));
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  const u64 length = round_up(bytes, sizeof(u64));
  fresh_places_.insert(std::lower_bound(fresh_places_.begin(), fresh_places_.end(), begin),
                       {begin, begin + length, fresh_.size()});
  fresh_.push_back({static_cast<std::byte*>(block), length});
  return block;
}

void* TransactionContext::allocate(u64 size, u64 alignment) {
  return add_fresh(std::max<u64>(size, 1),
                   [&](heap::Heap& heap) { return heap.allocate(*mutator, size, alignment); });
}

/// Thrown as a restart is: a version is to know the type first.
struct NeedsType {
  const perdura_type* type;
};

void* TransactionContext::allocate(const perdura_type& type, u64 count) {
  if (!all_.is_durable(type)) {
    if (irrevocable)
      throw Error(Code::kMisuse,
                  std::string("an irrevocable transaction makes the first object of ") + type.name +
                      "; make one in a transaction before it");
    throw NeedsType{&type};
  }
  return add_fresh(type.size * count,
                   [&](heap::Heap& heap) { return heap.allocate_typed(*mutator, type, count); });
}

void TransactionContext::save(std::vector<u64>& values, size_t& allocated, size_t& given_back) {
  check_use();
  with_memory([&] { values.reserve(write_count_); });
  for (size_t i = 0; i < write_count_; ++i)
    values.push_back(write_at(i).word != nullptr ? value_in(write_at(i)) : 0);
  // What is stored to them from here on may have to be undone.
  allocated = direct_from_ = fresh_.size();
  given_back = freed_.size();
}

// Words that were stored since then are stored as they were.
void TransactionContext::undo(const std::vector<u64>& values, size_t allocated, size_t given_back) {
  for (size_t i = 0; i < write_count_; ++i) {
    TransactionWrite& write = write_at(i);
    if (write.word == nullptr) continue;
    if (i < values.size()) set_value(write, values[i]);
    else set_value(write, in_place_ ? write.value : value_of(write.word));
  }
  free_fresh(allocated);
  freed_.resize(given_back);
}

void TransactionContext::free_fresh(size_t from) {
  for (size_t i = from; i < fresh_.size(); ++i)
    value_or_throw(all_.runtime_.heap().deallocate(*mutator, fresh_[i].block));
  fresh_.resize(from);
  std::erase_if(fresh_places_, [&](const FreshPlace& place) { return place.index >= from; });
}

// From its commit on, who has read a pointer to it earlier finds that it is gone.
void TransactionContext::deallocate(void* block) {
  if (block == nullptr) return;
  check_use();
  const u64 bytes = value_or_throw(all_.runtime_.heap().usable(block)).bytes;
  if (std::find(freed_.begin(), freed_.end(), block) != freed_.end())
    throw Error(Code::kMisuse, "a transaction gives a block back twice");
  changed_ = true;
  with_memory([&] { freed_.push_back(block); });
  if (is_fresh(block, 0)) return;
  auto* const begin = static_cast<std::byte*>(block);
  for (u64 at = 0; at < bytes; at += u64{1} << kStripeShift) own(record_of(begin + at), nullptr);
}

// --- a transaction -------------------------------------------------------------------------------

void TransactionContext::retry() const {
  check_use();
  if (irrevocable)
    throw Error(Code::kMisuse, "an irrevocable transaction cannot begin again; retry() before it");
  throw TransactionRetry{};
}

// Nobody else runs, so nothing that it reads changes.
void TransactionContext::be_irrevocable() {
  check_use();
  if (!alone) {
    wants_alone = true;
    throw TransactionRestart{};
  }
  irrevocable = true;
}

TransactionContext::TransactionContext(Transactions& all, u16 slot)
    : all_(all),
      slot_(slot),
      reads_(std::make_unique<TransactionRead[]>(kReadsAtFirst)),
      reads_space_end_(reads_.get() + kReadsAtFirst),
      record_(all.runtime_.volume().segment_bytes()) {
  records_ = all.records_.as<OwnershipRecord>();
  record_mask_ = all.record_mask_;
  reads_begin_ = reads_end_ = reads_limit_ = reads_.get();
  if (!all.stream_)
    writer_.emplace(*all.runtime_.log(), all.runtime_.volume(), all.runtime_.region().id());
}

// What it changed is done, or undone.
void TransactionContext::forget() {
  write_count_ = 0;
  fresh_.clear();
  fresh_places_.clear();
  freed_.clear();
  direct_from_ = 0;
  changed_ = false;
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
  const Durability durability = all_.durability_.load(std::memory_order_relaxed);
  if (!changed_) {
    if (all_.stream_ && durability != Durability::kRelaxed)
      waits_for_ = all_.stream_->position_behind(newest_read());
    return {};
  }
  u64 time = 0;
  if (durability == Durability::kNone) {
    time = take_time();
  } else {
    record_.begin();
    PERDURA_TRY(add_entries());
    PERDURA_ASSIGN(time, all_.stream_ ? append_record(durability != Durability::kRelaxed)
                                      : write_record(steps_of(durability)));
  }
  last_commit_ = time;
  finish(time);
  return {};
}

namespace {

// It has part in the version that is being made now, or in the next one.
u64 at_the_latest(u64 durable_version) { return durable_version + 2; }

}  // namespace

// Returns its time, and so does write_record.
Result<u64> TransactionContext::append_record(bool wait) {
  const u64 durable = all_.runtime_.checkpointer().durable_version();
  auto lock = all_.stream_->lock();
  PERDURA_TRY(guarded(
      [&] { return all_.stream_->make_room(lock, record_.length(), at_the_latest(durable)); }));
  const u64 time = take_time();
  TransactionState::Slot& slot = all_.state_->slots[0];
  const u64 position = all_.stream_->append(record_, {time, 0, slot.sequence + 1, durable});
  waits_for_ = wait ? position : 0;
  note(slot, time);
  return time;
}

Result<u64> TransactionContext::write_record(commit::TransactionWriter::Steps steps) {
  const u64 durable = all_.runtime_.checkpointer().durable_version();
  const u64 time = take_time();
  TransactionState::Slot& slot = all_.state_->slots[slot_];
  PERDURA_TRY(guarded([&] {
    return writer_->commit(record_, {time, slot_, slot.sequence + 1, durable},
                           at_the_latest(durable), steps);
  }));
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
  const u64 time = all_.clock_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (time != snapshot_ + 1 && !validate()) throw TransactionRestart{};
  return time;
}

// The region has it, and so has the next version.
void TransactionContext::note(TransactionState::Slot& slot, u64 time) {
  report(*mutator, &slot, sizeof slot);
  slot = {time, slot.sequence + 1};
}

// Others see what it did.
void TransactionContext::finish(u64 time) {
  for (size_t i = 0; i < write_count_ && !in_place_; ++i) {
    const TransactionWrite& write = write_at(i);
    if (write.word == nullptr) continue;
    report(*mutator, write.word, sizeof *write.word);
    // Whoever sees the value sees that its record is owned, or has been released since.
    std::atomic_ref(*write.word).store(write.value, std::memory_order_release);
  }
  release(time << 1);
  write_count_ = 0;  // there is nothing to be rolled back any more
  fresh_.clear();
  for (void* const block : freed_) value_or_throw(all_.runtime_.heap().deallocate(*mutator, block));
  forget();
}

Status TransactionContext::wait() { return all_.stream_->wait(waits_for_); }

// What a transaction did, for one that repeats it.
Status TransactionContext::add_entries() {
  heap::Heap& heap = all_.runtime_.heap();
  std::byte* const base = all_.runtime_.region().base();
  const auto offset_of = [&](const void* place) {
    return static_cast<u64>(static_cast<const std::byte*>(place) - base);
  };
  for (const Fresh& fresh : fresh_) {
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
  for (const void* const block : freed_) {
    PERDURA_ASSIGN(u64* const word, record_.take(1));
    *word = format::make_entry(EntryKind::kFree, 0, offset_of(block) / 16);
  }
  logged_bytes_ += record_.bytes();
  return {};
}

// Each record once: by the write that it leads to. 0: as it was before.
void TransactionContext::release(u64 version) {
  for (size_t i = 0; i < write_count_; ++i) {
    TransactionWrite& write = write_at(i);
    if (write.record->load(std::memory_order_relaxed) !=
        (reinterpret_cast<std::uintptr_t>(&write) | kOwned))
      continue;
    write.record->store(version != 0 ? version : write.version, std::memory_order_release);
  }
}

// Whoever has read what was in memory meanwhile finds that it is newer now.
void TransactionContext::roll_back() {
  u64 version = 0;
  if (in_place_ && write_count_ != 0) {
    for (size_t i = 0; i < write_count_; ++i)
      if (write_at(i).word != nullptr) set_value(write_at(i), write_at(i).value);
    version = (all_.clock_.fetch_add(1, std::memory_order_acq_rel) + 1) << 1;
    // Not for itself, where it waits for others.
    for (TransactionRead* read = reads_begin_; read != reads_end_; ++read) {
      const u64 now = read->record->load(std::memory_order_relaxed);
      if ((now & kOwned) != 0 && is_own(now) && read->version == write_of(now)->version)
        read->version = version;
    }
  }
  release(version);
  free_fresh(0);
  forget();
}

void TransactionContext::wait_for_change() const {
  constexpr int kSpinsBeforeSleep = 2000;
  for (int i = 0; validate(); ++i) {
    if (i < kSpinsBeforeSleep) __builtin_ia32_pause();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// --- of a store ----------------------------------------------------------------------------------

Result<std::unique_ptr<Transactions>> Transactions::create(Runtime& runtime) {
  if (runtime.log() == nullptr)
    return Failure{Code::kUnsupported,
                   "'" + runtime.name() + "' is in chunks; transactions need Engine::kRedoLog"};
  if (runtime.region().aliases() != 0)
    return Failure{Code::kUnsupported,
                   "'" + runtime.name() + "' has aliases; transactions need a store without"};
  std::unique_ptr<Transactions> all(new Transactions(runtime));
  // In one huge page, where the system has them: nearly each load of memory is one of these as
  // well.
  constexpr u64 kRecordBytes = kRecords * sizeof(OwnershipRecord);
  PERDURA_ASSIGN(all->records_, Mapping::aligned(kRecordBytes, kRecordBytes));
  ::madvise(all->records_.as(), kRecordBytes, MADV_HUGEPAGE);
  all->record_mask_ = kRecords - 1;
  PERDURA_ASSIGN(all->state_, store::transaction_state(runtime.name(), runtime.heap()));
  if (all->state_ == nullptr) {
    Mutator& mutator = runtime.mutators().this_thread();
    {
      const track::InOperation operation(mutator);
      PERDURA_ASSIGN(void* const made, runtime.heap().allocate_typed(mutator, kStateType, 1));
      all->state_ = static_cast<TransactionState*>(made);
      all->state_->version = format::kTransactionVersion;
      PERDURA_TRY(runtime.heap().set_root(mutator, kTransactionRoot, made, 0));
    }
    // Records mean nothing without it.
    PERDURA_TRY(runtime.checkpoint());
  }
  u64 last = 0;
  for (const TransactionState::Slot& slot : all->state_->slots) last = std::max(last, slot.time);
  all->clock_ = last;
  all->in_version_ = last;
  if (!runtime.volume().medium().geometry().byte_addressable)
    all->stream_.emplace(*runtime.log(), runtime.volume(), runtime.region().id());
  return all;
}

TransactionContext& Transactions::new_context(Mutator& mutator) {
  std::lock_guard lock(mutex_);
  if (contexts_.size() == format::kTransactionSlots)
    throw Error(Code::kNoMemory, "transactions of '" + runtime_.name() + "' run in " +
                                     std::to_string(format::kTransactionSlots) +
                                     " threads at most");
  with_memory([&] {
    contexts_.push_back(
        std::make_unique<TransactionContext>(*this, static_cast<u16>(contexts_.size())));
  });
  contexts_.back()->mutator = &mutator;
  mutator.transactions = contexts_.back().get();
  log_share_ = runtime_.log()->limit_bytes() / 4 / contexts_.size();
  return *contexts_.back();
}

void Transactions::stop_others(TransactionContext& context) {
  runtime_.mutators().stop();
  context.mutator->depth.store(1, std::memory_order_relaxed);
  context.alone = true;
}

void Transactions::let_others_go_on(TransactionContext& context) {
  context.alone = context.wants_alone = context.irrevocable = false;
  runtime_.mutators().resume();
}

inline Transactions::Ended Transactions::attempt(TransactionContext& context, TransactionBody body,
                                                 void* with) {
  Ended ended = Ended::kCommitted;
  try {
    body(with, context.transaction);
    if (!context.has_changed() && !stream_) return Ended::kReadOnly;
    if (const Status committed = context.commit(); !committed) throw_failure(committed.failure());
    return ended;
  } catch (const TransactionRestart&) {
    ended = Ended::kMetOthers;
  } catch (const TransactionRetry&) {
    ended = Ended::kWaits;
  } catch (const NeedsType& needs) {
    context.needed = needs.type;
    ended = Ended::kNeedsType;
  } catch (...) {
    context.roll_back();
    leave(context);
    throw;
  }
  context.roll_back();
  return ended;
}

void Transactions::refuse_in_operation() {
  throw Error(Code::kMisuse,
              "a transaction inside an operation of the same thread could not "
              "begin again; end the operation first");
}

void Transactions::run(TransactionBody body, void* with) {
  TransactionContext& context = this_thread();
  if (context.in_body) return body(with, context.transaction);
  check_outside(context);
  for (u64 restarts = 0;;) {
    enter(context, restarts);
    const Ended ended = attempt(context, body, with);
    leave(context);
    if (ended == Ended::kReadOnly) return;
    if (ended == Ended::kCommitted) return finish(context);
    if (ended == Ended::kNeedsType) {
      make_durable(*context.needed);
    } else if (ended == Ended::kWaits) {
      context.wait_for_change();
      restarts = 0;
    } else if (context.wants_alone) {
      restarts = kRestartsTogether;
    } else {
      back_off(++restarts, reinterpret_cast<std::uintptr_t>(&context) >> 6);
    }
  }
}

void Transactions::checkpoint() {
  const u64 now = clock_.load(std::memory_order_acquire);
  value_or_throw(runtime_.checkpoint());
  u64 before = in_version_.load(std::memory_order_relaxed);
  while (before < now && !in_version_.compare_exchange_weak(before, now)) {
  }
}

// What leads to the objects that transactions work on.
void Transactions::make_roots_durable() {
  const u64 changes = runtime_.heap().root_changes();
  checkpoint();
  root_changes_ = changes;
}

bool Transactions::is_durable(const perdura_type& type) {
  std::lock_guard lock(mutex_);
  return types_.contains(&type);
}

// A record says a type's number alone.
void Transactions::make_durable(const perdura_type& type) {
  {
    Mutator& mutator = runtime_.mutators().this_thread();
    const track::InOperation operation(mutator);
    void* const object = value_or_throw(runtime_.heap().allocate_typed(mutator, type, 1));
    value_or_throw(runtime_.heap().deallocate(mutator, object));
  }
  checkpoint();
  std::lock_guard lock(mutex_);
  with_memory([&] { types_.insert(&type); });
}

// A version has what its transactions did, and its segments are free again.
void Transactions::relieve_log(TransactionContext& context) {
  checkpoint();
  context.forget_logged_bytes();
}

void Transactions::set_durability(Durability durability) {
  if (durability_.load() == durability) return;
  if (durability == Durability::kRelaxed && stream_)
    value_or_throw(guarded([&] { return stream_->write_behind(); }));
  // Records cannot be repeated without what earlier transactions stored.
  checkpoint();
  durability_ = durability;
}

u64 Transactions::durable_commit() const {
  if (durability_.load(std::memory_order_relaxed) == Durability::kNone) return in_version_;
  if (!stream_) return clock_.load(std::memory_order_acquire);
  return std::max(in_version_.load(), stream_->durable_time());
}

void Transactions::wait_for(u64 commit) {
  if (commit > clock_.load(std::memory_order_acquire))
    throw Error(Code::kInvalidArgument, "'" + runtime_.name() + "' has no commit " +
                                            std::to_string(commit) +
                                            " yet; last_commit() says a thread's last one");
  if (commit <= durable_commit()) return;
  if (durability_.load(std::memory_order_relaxed) == Durability::kNone) checkpoint();
  else value_or_throw(stream_->wait(stream_->position_behind(commit)));
}

Transactions& transactions_of(Runtime& runtime) {
  if (void* const made = runtime.made_extension()) [[likely]]
    return *static_cast<Transactions*>(made);
  void* const all = value_or_throw(guarded([&] {
    return runtime.extension([&]() -> Result<Runtime::Extension> {
      PERDURA_ASSIGN(auto made, Transactions::create(runtime));
      return Runtime::Extension(std::move(made));
    });
  }));
  return *static_cast<Transactions*>(all);
}

void run_transaction(Store& store, TransactionBody body, void* context) {
  transactions_of(store.runtime()).run(body, context);
}

}  // namespace detail

// --- the public surface --------------------------------------------------------------------------

void* Transaction::allocate(std::size_t size, std::size_t alignment) {
  return static_cast<detail::TransactionContext&>(thread_).allocate(size, alignment);
}

void* Transaction::allocate(const perdura_type& type, std::size_t count) {
  return static_cast<detail::TransactionContext&>(thread_).allocate(type, count);
}

Transaction::Savepoint Transaction::save() const {
  Savepoint savepoint{};
  static_cast<detail::TransactionContext&>(thread_).save(savepoint.values, savepoint.allocated,
                                                         savepoint.given_back);
  return savepoint;
}

void Transaction::undo(const Savepoint& savepoint) {
  static_cast<detail::TransactionContext&>(thread_).undo(savepoint.values, savepoint.allocated,
                                                         savepoint.given_back);
}

void Transaction::retry() { static_cast<detail::TransactionContext&>(thread_).retry(); }

void Transaction::irrevocable() {
  static_cast<detail::TransactionContext&>(thread_).be_irrevocable();
}

void Transaction::deallocate(void* block) {
  static_cast<detail::TransactionContext&>(thread_).deallocate(block);
}

namespace {

/// The words that hold `length` bytes at a place: visit(word, first byte in it, bytes, done so
/// far).
template <class Visit>
void for_each_word(const void* place, std::size_t length, Visit&& visit) {
  const auto begin = reinterpret_cast<std::uintptr_t>(place);
  for (std::size_t done = 0; done < length;) {
    const std::size_t in_word = (begin + done) % 8;
    const std::size_t here = std::min(length - done, 8 - in_word);
    visit(reinterpret_cast<std::uint64_t*>(begin + done - in_word), in_word, here, done);
    done += here;
  }
}

}  // namespace

void Transaction::load_bytes(const void* from, void* to, std::size_t length) {
  for_each_word(from, length,
                [&](std::uint64_t* place, std::size_t at, std::size_t bytes, std::size_t done) {
                  const std::uint64_t word = thread_.load(place);
                  std::memcpy(static_cast<std::byte*>(to) + done,
                              reinterpret_cast<const std::byte*>(&word) + at, bytes);
                });
}

void Transaction::store_bytes(void* to, const void* from, std::size_t length) {
  for_each_word(to, length,
                [&](std::uint64_t* place, std::size_t at, std::size_t bytes, std::size_t done) {
                  std::uint64_t word = bytes == 8 ? 0 : thread_.load(place);
                  std::memcpy(reinterpret_cast<std::byte*>(&word) + at,
                              static_cast<const std::byte*>(from) + done, bytes);
                  thread_.store(place, word);
                });
}

void set_durability(Store& store, Durability durability) {
  detail::transactions_of(store.runtime()).set_durability(durability);
}

void set_logging(Store& store, Logging logging) {
  detail::transactions_of(store.runtime()).set_logging(logging);
}

std::uint64_t last_commit(Store& store) {
  return detail::transactions_of(store.runtime()).last_commit();
}

std::uint64_t durable_commit(Store& store) {
  return detail::transactions_of(store.runtime()).durable_commit();
}

void wait_for_commit(Store& store, std::uint64_t commit) {
  detail::transactions_of(store.runtime()).wait_for(commit);
}

}  // namespace perdura
