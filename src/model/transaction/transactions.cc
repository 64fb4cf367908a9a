#include "model/transaction/transactions.hpp"

#include <algorithm>
#include <cstring>

#include "base/process.hpp"
#include "format/container_format.hpp"
#include "store/transaction_replay.hpp"

namespace perdura {
namespace detail {
namespace {

using Why = TransactionAgain::Why;

constexpr unsigned kBackOffShiftMax = 10;

// Let others go on, the longer the more often it was begun again; `salt` differs by thread.
void back_off(u64 restarts, u64 salt) {
  const unsigned shift = static_cast<unsigned>(std::min<u64>(restarts, kBackOffShiftMax));
  const u64 spins = (restarts * 0x9e3779b97f4a7c15 + salt) % (u64{4} << shift);
  for (u64 i = 0; i < spins; ++i) __builtin_ia32_pause();
}

}  // namespace

// --- of a store ----------------------------------------------------------------------------------

Result<std::unique_ptr<Transactions>> Transactions::create(Runtime& runtime) {
  if (runtime.read_only())
    return Failure{Code::kUnsupported, "'" + runtime.name() +
                                           "' is open to be read; transactions need a store that "
                                           "is open to write"};
  if (runtime.is_in_group())
    return Failure{Code::kUnsupported,
                   "'" + runtime.name() +
                       "' is one of a group of processes, whose versions become durable together; "
                       "a transaction would become so without the others"};
  if (runtime.log() == nullptr)
    return Failure{Code::kUnsupported,
                   "'" + runtime.name() + "' has no redo log; transactions need Engine::kRedoLog"};
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
  PERDURA_TRY(all->globals_.begin());
  runtime.heap().tell_of_epochs(*all);
  return all;
}

TransactionContext& Transactions::new_context(Mutator& mutator) {
  std::lock_guard lock(mutex_);
  with_memory([&] { contexts_.push_back(std::make_unique<TransactionContext>(globals_)); });
  contexts_.back()->mutator = &mutator;
  mutator.transactions = static_cast<store::TransactionBlocks*>(contexts_.back().get());
  return *contexts_.back();
}

// On byte-addressable media each stream keeps a segment, also while its threads are idle: all of
// these together are a quarter of the log's limit, like what is in them.
u64 Transactions::streams_max() const {
  if (globals_.stream() != nullptr) return 1;
  const u64 quarter = runtime_.log()->limit_bytes() / 4;
  return std::clamp<u64>(quarter / runtime_.volume().segment_bytes(), 1, format::kTransactionSlots);
}

std::pair<RecordStream&, bool> Transactions::stream_of_next_thread() {
  std::lock_guard lock(mutex_);
  const u64 index = streams_joined_ % streams_max();
  if (index == streams_.size()) {
    with_memory([&] {
      auto made = std::make_unique<RecordStream>(static_cast<u16>(index));
      if (globals_.stream() == nullptr)
        made->writer.emplace(*runtime_.log(), runtime_.volume(), runtime_.region().id(),
                             made->slot);
      streams_.push_back(std::move(made));
    });
    globals_.set_log_share(runtime_.log()->limit_bytes() / 4 / streams_.size());
  }
  return {*streams_[index], streams_joined_++ >= streams_max()};
}

// Of a thread that is about to begin its first transaction. Nobody may be committing when the
// stream of a single thread becomes that of several.
void Transactions::join_stream(TransactionContext& context) {
  const auto [stream, has_others] = stream_of_next_thread();
  if (has_others && !stream.is_shared() && globals_.stream() == nullptr) {
    runtime_.mutators().stop();
    stream.share();
    runtime_.mutators().resume();
  }
  context.set_stream(stream);
}

void Transactions::prepare_stream(TransactionContext& context) {
  if (context.stream() == nullptr) join_stream(context);
  if (context.stream()->logged() > globals_.log_share()) relieve_log(context);
  context.needs_stream = false;
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
    if (context.has_changed() || globals_.stream() != nullptr || runtime_.heap().version_required())
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

// Whoever asked for the version.
void Transactions::epoch_settled(bool durable) noexcept {
  if (durable) globals_.note_in_version(cut_time_);
}

// What leads to the objects that transactions work on.
void Transactions::make_roots_durable() {
  const u64 changes = runtime_.heap().roots().changes();
  checkpoint();
  root_changes_ = changes;
}

// A record says a type's number alone.
void Transactions::make_durable(const perdura_type& type) {
  {
    Mutator& mutator = runtime_.mutators().this_thread();
    const track::InOperation operation(mutator);
    value_or_throw(runtime_.heap().types().number_of(mutator, type));
  }
  checkpoint();
  globals_.note_durable(type);
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
  log::RecordStream& stream = *globals_.stream();
  const u64 failure = stream.failure();
  if (failure == 0) return;
  checkpoint();
  stream.mend(failure);
}

void Transactions::end_threads() noexcept {
  if (log::RecordStream* const stream = globals_.stream()) stream->end_write_behind();
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
  if (!globals_.stream()->wait(position)) after_commit([this] { mend_stream(); });
}

void Transactions::make_version_of(TransactionContext& context) {
  context.needs_version = false;
  after_commit([this] { checkpoint(); });
}

void Transactions::finish_slow(TransactionContext& context) {
  context.unfinished = false;
  if (context.needs_version) make_version_of(context);
  if (context.waits_for() != 0) wait_until_durable(context.waits_for());
  if (is_mutant("relieve_after_commit") && context.stream()->logged() > globals_.log_share())
    relieve_log(context);
}

void Transactions::set_durability(Durability durability) {
  if (globals_.durability() == durability) return;
  if (log::RecordStream* const stream = globals_.stream();
      stream != nullptr && durability == Durability::kRelaxed)
    value_or_throw(guarded([&] { return stream->write_behind([this] { try_to_mend_stream(); }); }));
  // Records cannot be repeated without what earlier transactions stored.
  checkpoint();
  globals_.set_durability(durability);
}

void Transactions::set_logging(Logging logging) {
  if (!runtime_.mutators().leave_polled())
    throw Error(Code::kMisuse,
                "set_logging inside a transaction or an operation; what a transaction keeps is "
                "chosen while none runs");
  globals_.set_logging(logging);
}

bool Transactions::waits_for_version() const {
  return globals_.durability() == Durability::kNone || runtime_.heap().version_required();
}

u64 Transactions::durable_commit() { return note_durable(surely_durable()); }

// While a commit waits for a version, that of a record may be before it.
u64 Transactions::surely_durable() const {
  // First: one that began to wait for a version since then is not among them.
  const u64 now = globals_.now();
  if (waits_for_version()) return globals_.in_version();
  const log::RecordStream* const stream = globals_.stream();
  return stream != nullptr ? std::max(globals_.in_version(), stream->durable_time()) : now;
}

// What was said to be durable stays so, whatever waits since.
u64 Transactions::note_durable(u64 commit) {
  u64 told = told_durable_.load(std::memory_order_relaxed);
  while (told < commit && !told_durable_.compare_exchange_weak(told, commit)) {
  }
  return std::max(told, commit);
}

void Transactions::wait_for(u64 commit) {
  if (commit > globals_.now())
    throw Error(Code::kInvalidArgument, "'" + runtime_.name() + "' has no commit " +
                                            std::to_string(commit) +
                                            " yet; last_commit() says a thread's last one");
  if (commit <= durable_commit()) return;
  if (waits_for_version() || globals_.stream() == nullptr) checkpoint();
  else wait_until_durable(globals_.stream()->position_behind(commit));
  note_durable(commit);
}

[[gnu::noinline]] static Transactions& make_transactions(Runtime& runtime) {
  if (!runtime.mutators().leave_polled()) Transactions::refuse_in_operation();
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
  return detail::context_of(thread_).allocate(size, alignment);
}

void* Transaction::allocate_array(const perdura_type& type, std::size_t bytes) {
  return detail::context_of(thread_).allocate_array(type, bytes);
}

void* Transaction::allocate(const perdura_type& type, std::size_t count) {
  return detail::context_of(thread_).allocate(type, count);
}

detail::TransactionSavepoint Transaction::save() { return detail::context_of(thread_).save(); }

void Transaction::keep(const detail::TransactionSavepoint& savepoint) {
  detail::context_of(thread_).keep(savepoint);
}

void Transaction::undo(const detail::TransactionSavepoint& savepoint) {
  detail::context_of(thread_).undo(savepoint);
}

void Transaction::retry() { detail::context_of(thread_).retry(); }

void Transaction::irrevocable() { detail::context_of(thread_).be_irrevocable(); }

void Transaction::destroy_at_commit(void* object, void (*destructor)(void* object)) {
  detail::context_of(thread_).destroy_at_commit(object, destructor);
}

void Transaction::deallocate(void* block) { detail::context_of(thread_).deallocate(block); }

void Transaction::load_bytes(const void* from, void* to, std::size_t length) {
  detail::context_of(thread_).load_bytes(from, to, length);
}

void Transaction::store_bytes(void* to, const void* from, std::size_t length) {
  detail::context_of(thread_).store_bytes(to, from, length);
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
