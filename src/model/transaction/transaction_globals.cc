#include "model/transaction/transaction_globals.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "store/transaction_replay.hpp"

namespace perdura::detail {

using format::kTransactionRoot;
using format::TransactionState;

namespace {

constexpr perdura_type kStateType{"perdura::format::TransactionState", sizeof(TransactionState),
                                  alignof(TransactionState), 0, nullptr};

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

Status TransactionGlobals::begin() {
  // In one huge page, where the system has them: nearly each load of memory is one of these as
  // well.
  constexpr u64 kRecordBytes = kRecords * sizeof(OwnershipRecord);
  PERDURA_ASSIGN(records_, Mapping::aligned(kRecordBytes, kRecordBytes));
  ::madvise(records_.as(), kRecordBytes, MADV_HUGEPAGE);
  PERDURA_TRY(runtime_.make_move_durable());
  PERDURA_ASSIGN(state_, store::transaction_state(runtime_.name(), runtime_.heap()));
  if (state_ == nullptr) {
    PERDURA_ASSIGN(state_, make_state(runtime_));
  } else if (state_->version != format::kTransactionVersion) {
    // Taken over from an earlier version, whose records are of the same past.
    Mutator& mutator = runtime_.mutators().this_thread();
    const track::InOperation operation(mutator);
    report(mutator, &state_->version, sizeof state_->version);
    state_->version = format::kTransactionVersion;
  }
  // Records mean nothing without the state, nor without what was not noted.
  PERDURA_TRY(runtime_.checkpoint());
  u64 last = 0;
  for (const TransactionState::Slot& slot : state_->slots) last = std::max(last, slot.time);
  clock_ = last;
  in_version_ = last;
  if (!runtime_.volume().medium().geometry().byte_addressable)
    stream_.emplace(*runtime_.log(), runtime_.volume(), runtime_.region().id());
  return {};
}

bool TransactionGlobals::is_durable(const perdura_type& type) {
  std::lock_guard lock(types_mutex_);
  return types_.contains(&type);
}

void TransactionGlobals::note_durable(const perdura_type& type) {
  std::lock_guard lock(types_mutex_);
  with_memory([&] { types_.insert(&type); });
}

}  // namespace perdura::detail
