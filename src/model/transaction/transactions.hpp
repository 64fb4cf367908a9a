// Software transactions on a store's heap and log.
//
//   begin     an operation of the store, so that no version falls inside
//   body      loads and stores, under ownership records (perdura/detail/stm.hpp)
//   commit    time, validation, record in the log, values to memory, records of ownership released
//
// A version holds, in TransactionState, which transactions it has; recovery repeats the others.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/mutant.hpp"
#include "model/transaction/transaction_context.hpp"
#include "store/runtime.hpp"

namespace perdura::detail {

/// Of one store.
class Transactions final : public store::Extension, public commit::EpochGuest {
 public:
  static Result<std::unique_ptr<Transactions>> create(Runtime& runtime);

  void run(TransactionBody body, void* context);
  [[noreturn]] static void refuse_in_operation();

  // --- the parts of run, for C
  static constexpr u64 kRestartsTogether = 32;  ///< then it runs alone
  /// Of one transaction.
  struct Restarts {
    u64 count = 0;
    bool has_taken_version = false;
  };
  /// After an attempt that was rolled back, and leave(): what is to be before the next one. Throws.
  void prepare_again(TransactionContext& context, TransactionAgain::Why why, Restarts& restarts);
  /// This thread's, about to begin one.
  TransactionContext& prepare();
  /// Outside of operations.
  void enter(TransactionContext& context, u64 restarts);
  void leave(TransactionContext& context);
  /// After a commit, and leave(): when it is durable.
  void finish(TransactionContext& context);
  void finish_slow(TransactionContext& context);
  /// Where the stream has failed, a version holds what it may have lost, and it goes on. Throws.
  void mend_stream();
  void try_to_mend_stream();
  void set_durability(Durability durability);
  void set_logging(Logging logging);
  u64 last_commit() { return this_thread().last_commit(); }
  u64 durable_commit();
  void wait_for(u64 commit);

  void epoch_begins() noexcept override { cut_time_ = globals_.now(); }
  void epoch_settled(bool durable) noexcept override;
  void end_threads() noexcept override;

 private:
  explicit Transactions(Runtime& runtime) : runtime_(runtime), globals_(runtime) {}
  TransactionContext& this_thread();
  TransactionContext& new_context(Mutator& mutator);
  u64 streams_max() const;
  /// And whether others have it already.
  std::pair<RecordStream&, bool> stream_of_next_thread();
  void join_stream(TransactionContext& context);
  void relieve_log(TransactionContext& context);
  template <class Call>
  void after_commit(Call&& call);
  void wait_until_durable(u64 position);
  u64 surely_durable() const;
  u64 note_durable(u64 commit);
  void make_version_of(TransactionContext& context);
  void check_outside(TransactionContext& context);
  void prepare_stream(TransactionContext& context);
  using Why = TransactionAgain::Why;
  /// Why it is to be begun again.
  std::optional<Why> attempt(TransactionContext& context, TransactionBody body, void* with);
  std::optional<Why> attempt_inside(TransactionContext* outer, TransactionContext& context,
                                    TransactionBody body, void* with);
  static void undo(TransactionContext& context, TransactionBody body, void* with);
  static void run_inside(TransactionContext& context, TransactionBody body, void* with);
  void checkpoint();
  /// Commits have no records, or one is there whose record could not be written.
  bool waits_for_version() const;
  void make_roots_durable();
  void make_durable(const perdura_type& type);

  Runtime& runtime_;
  TransactionGlobals globals_;
  u64 cut_time_ = 0;                  ///< of the epoch that ended last
  std::atomic<u64> told_durable_{0};  ///< the newest commit that was said to be durable
  std::mutex mutex_;
  std::vector<std::unique_ptr<TransactionContext>> contexts_;
  std::vector<std::unique_ptr<RecordStream>> streams_;  ///< under mutex_
  u64 streams_joined_ = 0;                              ///< by threads; under mutex_
  std::atomic<u64> root_changes_{0};                    ///< of the heap, that a version has
};

// --- what each transaction does ------------------------------------------------------------------

inline TransactionContext& Transactions::this_thread() {
  Mutator& mutator = runtime_.mutators().this_thread();
  if (mutator.transactions == nullptr) [[unlikely]]
    return new_context(mutator);
  return static_cast<TransactionContext&>(store::blocks_of(mutator));
}

// Of a transaction that is to begin. Here what fails is all that fails: nothing was done yet. So
// the checkpoint that relieves the log of the last transaction's records is taken before the next.
inline void Transactions::check_outside(TransactionContext& context) {
  if (runtime_.heap().roots().changes() != root_changes_.load(std::memory_order_relaxed))
      [[unlikely]]
    make_roots_durable();
  if (context.needs_stream) [[unlikely]]
    prepare_stream(context);
}

inline TransactionContext& Transactions::prepare() {
  TransactionContext& context = this_thread();
  if (context.mutator->depth.load(std::memory_order_relaxed) != 0 &&
      !runtime_.mutators().leave_polled()) [[unlikely]]
    refuse_in_operation();
  check_outside(context);
  return context;
}

// An operation, or with all others standing still.
inline void Transactions::enter(TransactionContext& context, u64 restarts) {
  if (restarts >= kRestartsTogether) [[unlikely]]
    context.stop_others();
  else detail::enter_outermost(*context.mutator);
  context.begin();
}

inline void Transactions::leave(TransactionContext& context) {
  context.end();
  detail::leave(*context.mutator);
  if (context.alone) [[unlikely]]
    context.let_others_go_on();
}

inline void Transactions::finish(TransactionContext& context) {
  if (context.unfinished || is_mutant("relieve_after_commit")) finish_slow(context);
}

/// Those of a store; made when there are none. Throws.
Transactions& transactions_of(Runtime& runtime);

}  // namespace perdura::detail
