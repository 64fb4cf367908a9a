#include "model/transaction/transactions.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/process.hpp"
#include "format/container_format.hpp"
#include "store/transaction_replay.hpp"

namespace perdura {
namespace detail {
namespace {

using format::kTransactionRoot;
using format::TransactionState;
using Why = TransactionAgain::Why;

constexpr perdura_type kStateType{"perdura::format::TransactionState", sizeof(TransactionState),
                                  alignof(TransactionState), 0, nullptr};
constexpr u64 kRecords = u64{1} << 18;
constexpr unsigned kBackOffShiftMax = 10;

// Let others go on, the longer the more often it was begun again; `salt` differs by thread.
void back_off(u64 restarts, u64 salt) {
  const unsigned shift = static_cast<unsigned>(std::min<u64>(restarts, kBackOffShiftMax));
  const u64 spins = (restarts * 0x9e3779b97f4a7c15 + salt) % (u64{4} << shift);
  for (u64 i = 0; i < spins; ++i) __builtin_ia32_pause();
}

}  // namespace

// --- of a store ----------------------------------------------------------------------------------

namespace {

// Of a region that has no transactions yet.
Result<TransactionState*> make_state(Runtime& runtime) {
  heap::Heap& heap = runtime.heap();
  Mutator& mutator = runtime.mutators().this_thread();
  const track::InOperation operation(mutator);
  PERDURA_ASSIGN(void* const made, heap.allocate_typed(mutator, kStateType, 1));
  auto* const state = static_cast<TransactionState*>(made);
  state->version = format::kTransactionVersion;
  if (Status named = heap.roots().set(mutator, kTransactionRoot, made, 0); !named) {
    PERDURA_TRY(heap.deallocate(mutator, made));
    return named.failure();
  }
  return state;
}

}  // namespace

Result<std::unique_ptr<Transactions>> Transactions::create(Runtime& runtime) {
  if (runtime.read_only())
    return Failure{Code::kUnsupported, "'" + runtime.name() +
                                           "' is open to be read; transactions need a store that "
                                           "is open to write"};
  if (runtime.log() == nullptr)
    return Failure{Code::kUnsupported,
                   "'" + runtime.name() + "' is in chunks; transactions need Engine::kRedoLog"};
  const auto roots = runtime.heap().roots().all();
  const bool was_container = std::ranges::any_of(
      roots, [](const auto& root) { return root.name == format::kContainerRoot; });
  if (runtime.is_container() || was_container)
    return Failure{Code::kUnsupported, "'" + runtime.name() +
                                           "' is a container, whose points move what its pointers "
                                           "lead to; transactions need a store"};
  if (runtime.region().aliases() != 0)
    return Failure{Code::kUnsupported,
                   "'" + runtime.name() + "' has aliases; transactions need a store without"};
  std::unique_ptr<Transactions> all(new Transactions(runtime));
  // From now on the heap notes what operations do to it; what they did before is in the version
  // that is made below.
  runtime.mutators().stop();
  const Status noting = guarded([&] { return runtime.heap().note_unversioned(); });
  runtime.mutators().resume();
  PERDURA_TRY(noting);
  // In one huge page, where the system has them: nearly each load of memory is one of these as
  // well.
  constexpr u64 kRecordBytes = kRecords * sizeof(OwnershipRecord);
  PERDURA_ASSIGN(all->records_, Mapping::aligned(kRecordBytes, kRecordBytes));
  ::madvise(all->records_.as(), kRecordBytes, MADV_HUGEPAGE);
  all->record_mask_ = kRecords - 1;
  PERDURA_TRY(runtime.make_move_durable());
  PERDURA_ASSIGN(all->state_, store::transaction_state(runtime.name(), runtime.heap()));
  if (all->state_ == nullptr) {
    PERDURA_ASSIGN(all->state_, make_state(runtime));
  } else if (all->state_->version != format::kTransactionVersion) {
    // Taken over from an earlier version, whose records are of the same past.
    Mutator& mutator = runtime.mutators().this_thread();
    const track::InOperation operation(mutator);
    report(mutator, &all->state_->version, sizeof all->state_->version);
    all->state_->version = format::kTransactionVersion;
  }
  // Records mean nothing without the state, nor without what was not noted.
  PERDURA_TRY(runtime.checkpoint());
  u64 last = 0;
  for (const TransactionState::Slot& slot : all->state_->slots) last = std::max(last, slot.time);
  all->clock_ = last;
  all->in_version_ = last;
  if (!runtime.volume().medium().geometry().byte_addressable)
    all->stream_.emplace(*runtime.log(), runtime.volume(), runtime.region().id());
  runtime.heap().tell_of_epochs(*all);
  return all;
}

TransactionContext& Transactions::new_context(Mutator& mutator) {
  std::lock_guard lock(mutex_);
  with_memory([&] { contexts_.push_back(std::make_unique<TransactionContext>(*this)); });
  contexts_.back()->mutator = &mutator;
  mutator.transactions = static_cast<store::TransactionBlocks*>(contexts_.back().get());
  return *contexts_.back();
}

// On byte-addressable media each stream keeps a segment, also while its threads are idle: all of
// these together are a quarter of the log's limit, like what is in them.
u64 Transactions::streams_max() const {
  if (stream_) return 1;
  const u64 quarter = runtime_.log()->limit_bytes() / 4;
  return std::clamp<u64>(quarter / runtime_.volume().segment_bytes(), 1, format::kTransactionSlots);
}

std::pair<RecordStream&, bool> Transactions::stream_of_next_thread() {
  std::lock_guard lock(mutex_);
  const u64 index = streams_joined_ % streams_max();
  if (index == streams_.size()) {
    with_memory([&] {
      auto made = std::make_unique<RecordStream>(static_cast<u16>(index));
      if (!stream_)
        made->writer.emplace(*runtime_.log(), runtime_.volume(), runtime_.region().id());
      streams_.push_back(std::move(made));
    });
    log_share_ = runtime_.log()->limit_bytes() / 4 / streams_.size();
  }
  return {*streams_[index], streams_joined_++ >= streams_max()};
}

// Of a thread that is about to begin its first transaction. Nobody may be committing when the
// stream of a single thread becomes that of several.
void Transactions::join_stream(TransactionContext& context) {
  const auto [stream, has_others] = stream_of_next_thread();
  if (has_others && !stream.is_shared() && !stream_) {
    runtime_.mutators().stop();
    stream.share();
    runtime_.mutators().resume();
  }
  context.set_stream(stream);
}

void Transactions::prepare_stream(TransactionContext& context) {
  if (context.stream() == nullptr) join_stream(context);
  if (context.stream()->logged() > log_share_.load(std::memory_order_relaxed)) relieve_log(context);
  context.needs_stream = false;
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

// What the body has returned goes first: its blocks are the transaction's, or a part's of one that
// this one is inside, and are given back to it like others.
[[gnu::noinline]] void Transactions::undo(TransactionContext& context, TransactionBody body,
                                          void* with) {
  if (body.drop_value != nullptr) body.drop_value(with);
  context.roll_back();
}

[[gnu::always_inline]] inline std::optional<Why> Transactions::attempt(TransactionContext& context,
                                                                       TransactionBody body,
                                                                       void* with) {
  try {
    body.run(with, context.transaction);
    if (context.has_changed() || stream_ || runtime_.heap().version_required())
      value_or_throw(context.commit());
    return {};
  } catch (const TransactionAgain& again) {
    undo(context, body, with);
    if (again.thread == &context) return again.why;
    leave(context);
    throw;
  } catch (...) {
    undo(context, body, with);
    leave(context);
    throw;
  }
}

// What the body does in transactions of other stores that it is inside is part of these, and undone
// where the body is begun again.
std::optional<Why> Transactions::attempt_inside(TransactionContext* outer,
                                                TransactionContext& context, TransactionBody body,
                                                void* with) {
  if (outer == nullptr) return attempt(context, body, with);
  const TransactionSavepoint savepoint = outer->save();
  try {
    const std::optional<Why> again = attempt_inside(outer->outer, context, body, with);
    if (again) outer->undo(savepoint);
    else outer->keep(savepoint);
    return again;
  } catch (...) {
    outer->undo(savepoint);
    throw;
  }
}

void Transactions::refuse_in_operation() {
  throw Error(Code::kMisuse,
              "a transaction inside an operation of the same thread could not "
              "begin again; end the operation first");
}

// Inside a transaction of the same store: what it throws undoes its part alone, since whoever
// catches it may go on.
void Transactions::run_inside(TransactionContext& context, TransactionBody body, void* with) {
  if (!context.in_body) refuse_in_operation();
  const TransactionSavepoint savepoint = context.save();
  try {
    body.run(with, context.transaction);
  } catch (...) {
    if (!is_mutant("inner_throw_keeps_stores")) context.undo(savepoint);
    throw;
  }
  context.keep(savepoint);
}

namespace {

/// The transaction that this thread is in; of those of several stores the innermost one.
thread_local TransactionContext* innermost = nullptr;

// Those that a thread was in when it forked are the parent's.
[[maybe_unused]] const bool leaves_them_in_child = [] {
  at_fork_in_child([]() noexcept {
    for (TransactionContext* each = innermost; each != nullptr; each = each->outer)
      each->leave_to_parent();
    innermost = nullptr;
  });
  return true;
}();

class Inside {
 public:
  explicit Inside(TransactionContext& context) : outer_(innermost) {
    context.outer = outer_;
    innermost = &context;
  }
  ~Inside() { innermost = outer_; }
  Inside(const Inside&) = delete;

 private:
  TransactionContext* const outer_;
};

}  // namespace

void Transactions::run(TransactionBody body, void* with) {
  TransactionContext& context = this_thread();
  if (context.mutator->depth.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return run_inside(context, body, with);
  check_outside(context);
  const Inside inside(context);
  for (Restarts restarts;;) {
    enter(context, restarts.count);
    // Nearly always the first: a call of the other costs as much as the rest of a short
    // transaction.
    const std::optional<Why> again = context.outer == nullptr
                                         ? attempt(context, body, with)
                                         : attempt_inside(context.outer, context, body, with);
    leave(context);
    if (!again) return finish(context);
    prepare_again(context, *again, restarts);
  }
}

void Transactions::prepare_again(TransactionContext& context, Why why, Restarts& restarts) {
  switch (why) {
    case Why::kNeedsType:
      return make_durable(*context.needed);
    case Why::kLogFailed:
      return mend_stream();
    case Why::kNeedsVersion:
      checkpoint();
      // Others may go on to change the heap, so the second time it runs alone.
      if (std::exchange(restarts.has_taken_version, true)) restarts.count = kRestartsTogether;
      return;
    case Why::kWaits:
      context.wait_for_change();
      restarts.count = 0;
      return;
    case Why::kMetOthers:
      if (context.wants_alone) restarts.count = kRestartsTogether;
      else back_off(++restarts.count, reinterpret_cast<std::uintptr_t>(&context) >> 6);
  }
}

void Transactions::checkpoint() { value_or_throw(runtime_.checkpoint()); }

// Whoever asked for the version. There is one epoch at a time that is to be settled.
void Transactions::epoch_settled(bool durable) noexcept {
  if (durable && in_version_.load(std::memory_order_relaxed) < cut_time_)
    in_version_.store(cut_time_, std::memory_order_release);
}

// What leads to the objects that transactions work on.
void Transactions::make_roots_durable() {
  const u64 changes = runtime_.heap().roots().changes();
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

// A version has what its transactions did, and its segments are free again. Others of the stream
// need not do that too.
void Transactions::relieve_log(TransactionContext& context) {
  RecordStream& stream = *context.stream();
  const u64 logged = stream.take_logged();
  try {
    checkpoint();
  } catch (...) {
    stream.give_back_logged(logged);
    throw;
  }
}

// All that was appended is of transactions that were operations when the stream failed, or before:
// the checkpoint waits for these.
void Transactions::mend_stream() {
  const u64 failure = stream_->failure();
  if (failure == 0) return;
  checkpoint();
  stream_->mend(failure);
}

void Transactions::end_threads() noexcept {
  if (stream_) stream_->end_write_behind();
}

// In the stream's own thread, which tries again.
void Transactions::try_to_mend_stream() {
  const Status mended = guarded([this]() -> Status {
    mend_stream();
    return {};
  });
  (void)mended;
}

// What makes a transaction durable after its commit, which is not undone any more.
template <class Call>
void Transactions::after_commit(Call&& call) {
  const Status done = guarded([&]() -> Status {
    call();
    return {};
  });
  if (!done)
    throw Error(done.failure().code,
                "a transaction of '" + runtime_.name() +
                    "' has happened, but only in memory, since neither the log nor a "
                    "checkpoint could be written (" +
                    done.failure().message +
                    "); do not repeat it, it becomes durable with the next checkpoint");
}

// Where the log fails a version takes its place.
void Transactions::wait_until_durable(u64 position) {
  if (!stream_->wait(position)) after_commit([this] { mend_stream(); });
}

void Transactions::make_version_of(TransactionContext& context) {
  context.needs_version = false;
  after_commit([this] { checkpoint(); });
}

void Transactions::finish_slow(TransactionContext& context) {
  context.unfinished = false;
  if (context.needs_version) make_version_of(context);
  if (context.waits_for() != 0) wait_until_durable(context.waits_for());
  if (is_mutant("relieve_after_commit") && context.stream()->logged() > log_share_)
    relieve_log(context);
}

void Transactions::set_durability(Durability durability) {
  if (durability_.load() == durability) return;
  if (durability == Durability::kRelaxed && stream_)
    value_or_throw(
        guarded([&] { return stream_->write_behind([this] { try_to_mend_stream(); }); }));
  // Records cannot be repeated without what earlier transactions stored.
  checkpoint();
  durability_ = durability;
}

void Transactions::set_logging(Logging logging) {
  if (runtime_.mutators().in_operation())
    throw Error(Code::kMisuse,
                "set_logging inside a transaction or an operation; what a transaction keeps is "
                "chosen while none runs");
  logging_ = logging;
}

bool Transactions::waits_for_version() const {
  return durability_.load(std::memory_order_relaxed) == Durability::kNone ||
         runtime_.heap().version_required();
}

u64 Transactions::durable_commit() { return note_durable(surely_durable()); }

// While a commit waits for a version, that of a record may be before it.
u64 Transactions::surely_durable() const {
  // First: one that began to wait for a version since then is not among them.
  const u64 now = clock_.load(std::memory_order_acquire);
  if (waits_for_version()) return in_version_;
  if (!stream_) return now;
  return std::max(in_version_.load(), stream_->durable_time());
}

// What was said to be durable stays so, whatever waits since.
u64 Transactions::note_durable(u64 commit) {
  u64 told = told_durable_.load(std::memory_order_relaxed);
  while (told < commit && !told_durable_.compare_exchange_weak(told, commit)) {
  }
  return std::max(told, commit);
}

void Transactions::wait_for(u64 commit) {
  if (commit > clock_.load(std::memory_order_acquire))
    throw Error(Code::kInvalidArgument, "'" + runtime_.name() + "' has no commit " +
                                            std::to_string(commit) +
                                            " yet; last_commit() says a thread's last one");
  if (commit <= durable_commit()) return;
  if (waits_for_version() || !stream_) checkpoint();
  else wait_until_durable(stream_->position_behind(commit));
  note_durable(commit);
}

[[gnu::noinline]] static Transactions& make_transactions(Runtime& runtime) {
  if (runtime.mutators().in_operation()) Transactions::refuse_in_operation();
  return *value_or_throw(guarded([&] {
    return runtime.extensions().find_or_make<Transactions>(
        [&] { return Transactions::create(runtime); });
  }));
}

Transactions& transactions_of(Runtime& runtime) {
  if (Transactions* const made = runtime.extensions().find<Transactions>()) [[likely]]
    return *made;
  return make_transactions(runtime);
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

detail::TransactionSavepoint Transaction::save() {
  return static_cast<detail::TransactionContext&>(thread_).save();
}

void Transaction::keep(const detail::TransactionSavepoint& savepoint) {
  static_cast<detail::TransactionContext&>(thread_).keep(savepoint);
}

void Transaction::undo(const detail::TransactionSavepoint& savepoint) {
  static_cast<detail::TransactionContext&>(thread_).undo(savepoint);
}

void Transaction::retry() { static_cast<detail::TransactionContext&>(thread_).retry(); }

void Transaction::irrevocable() {
  static_cast<detail::TransactionContext&>(thread_).be_irrevocable();
}

void Transaction::destroy_at_commit(void* object, void (*destructor)(void* object)) {
  static_cast<detail::TransactionContext&>(thread_).destroy_at_commit(object, destructor);
}

void Transaction::deallocate(void* block) {
  static_cast<detail::TransactionContext&>(thread_).deallocate(block);
}

namespace {

/// The pieces of 1, 2, 4 or 8 bytes, each aligned, that make up `length` bytes at a place:
/// visit(a piece of the type, done so far).
template <class Visit>
void for_each_piece(std::uintptr_t place, std::size_t length, Visit&& visit) {
  for (std::size_t done = 0; done < length;) {
    const std::uintptr_t at = place + done;
    const std::size_t left = length - done;
    if (at % 8 == 0 && left >= 8) done += visit(std::uint64_t{}, at, done);
    else if (at % 4 == 0 && left >= 4) done += visit(std::uint32_t{}, at, done);
    else if (at % 2 == 0 && left >= 2) done += visit(std::uint16_t{}, at, done);
    else done += visit(std::uint8_t{}, at, done);
  }
}

}  // namespace

void Transaction::load_bytes(const void* from, void* to, std::size_t length) {
  for_each_piece(reinterpret_cast<std::uintptr_t>(from), length,
                 [&]<class Piece>(Piece piece, std::uintptr_t at, std::size_t done) {
                   piece = thread_.load(reinterpret_cast<const Piece*>(at));
                   std::memcpy(static_cast<std::byte*>(to) + done, &piece, sizeof piece);
                   return sizeof piece;
                 });
}

void Transaction::store_bytes(void* to, const void* from, std::size_t length) {
  static_cast<detail::TransactionContext&>(thread_).make_room_for_bytes(length);
  for_each_piece(reinterpret_cast<std::uintptr_t>(to), length,
                 [&]<class Piece>(Piece piece, std::uintptr_t at, std::size_t done) {
                   std::memcpy(&piece, static_cast<const std::byte*>(from) + done, sizeof piece);
                   if constexpr (sizeof piece == 8)
                     thread_.store(reinterpret_cast<Piece*>(at), piece);
                   else thread_.store_part(reinterpret_cast<Piece*>(at), piece);
                   return sizeof piece;
                 });
}

namespace {
/// Whatever is asked of them but to run, which asks by itself.
detail::Transactions& usable_transactions_of(Store& store) {
  value_or_throw(store.runtime().usable());
  return detail::transactions_of(store.runtime());
}
}  // namespace

void set_durability(Store& store, Durability durability) {
  usable_transactions_of(store).set_durability(durability);
}

void set_logging(Store& store, Logging logging) {
  usable_transactions_of(store).set_logging(logging);
}

std::uint64_t last_commit(Store& store) { return usable_transactions_of(store).last_commit(); }

std::uint64_t durable_commit(Store& store) {
  return usable_transactions_of(store).durable_commit();
}

void wait_for_commit(Store& store, std::uint64_t commit) {
  usable_transactions_of(store).wait_for(commit);
}

}  // namespace perdura
