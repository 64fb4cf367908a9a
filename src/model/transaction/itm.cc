#include "model/transaction/itm.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "model/transaction/outside_memory.hpp"
#include "model/transaction/transactions.hpp"

// Of libstdc++, for transactions: of one that is on its way, and of the last so many that are being
// handled nothing is left, and no destructor runs.
extern "C" void __cxa_tm_cleanup(void* unthrown, void* thrown, unsigned handled) noexcept;

namespace perdura::detail::itm {
namespace {

using Why = TransactionAgain::Why;

/// Answers of _ITM_beginTransaction.
constexpr u32 kRunInstrumented = 0x1;
constexpr u32 kSaveLiveVariables = 0x4;
constexpr u32 kRestoreLiveVariables = 0x8;
constexpr u32 kAbort = 0x10;

struct ToRun {
  Action action;
  void* argument;
};

/// The outermost transaction of a thread, or one inside it that may be cancelled by itself: how far
/// all was when it began. Others inside it only count.
struct Level {
  Place place;
  u32 depth;
  size_t undo;
  size_t blocks;
  size_t freed;
  size_t at_commit;
  size_t at_undo;
  size_t unthrown;
  size_t in_flight;
  u32 handled;
  u64 id;
  TransactionSavepoint durable;  ///< of one inside; since the store was known
};

/// A thread's transaction. Is never destroyed; the next thread takes it over.
struct Thread {
  std::atomic<bool> used{true};
  Thread* next = nullptr;
  u32 depth = 0;
  std::vector<Level> levels;
  Transactions::Restarts restarts;
  Transactions* all = nullptr;  ///< of the store, from its first word on
  TransactionContext* context = nullptr;
  OutsideMemory outside;
  std::vector<ToRun> blocks;  ///< ordinary ones, given back where it is undone
  std::vector<ToRun> freed;   ///< when it has committed
  std::vector<ToRun> at_commit;
  std::vector<ToRun> at_undo;
  std::vector<void*> unthrown;   ///< exceptions
  std::vector<void*> in_flight;  ///< thrown, and not caught
  u32 handled = 0;               ///< caught, and not done with

  /// Nothing is left to be done for a transaction.
  void forget() {
    blocks.clear();
    freed.clear();
    at_commit.clear();
    at_undo.clear();
    unthrown.clear();
    in_flight.clear();
    handled = 0;
  }
};

/// What each load and store looks at. Without a store it is empty.
struct Hot {
  std::uintptr_t base = 0;
  u64 bytes = 0;
  TransactionContext* context = nullptr;
  u64 snapshot = 0;  ///< of the context, as of which `outside` was checked
  Thread* thread = nullptr;
  /// The block that it has allocated last, as long as nothing that began since then can be undone
  /// by itself: nobody else sees it, and its content at the end is what is logged.
  std::uintptr_t fresh = 0;
  u64 fresh_bytes = 0;
  bool holds(const void* place) const {
    return reinterpret_cast<std::uintptr_t>(place) - base < bytes;
  }
  bool is_fresh(const void* place, size_t length) const {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(place) - fresh;
    return at < fresh_bytes && length <= fresh_bytes - at;
  }
  void forget_fresh() { fresh_bytes = 0; }
};

constinit thread_local Hot hot;
constinit std::atomic<Thread*> threads{nullptr};
constinit std::atomic<u64> ids{1};  // 1 says that there is none

// What other threads were about to change stays theirs.
void forget_in_child() noexcept {
  Thread* const own = hot.thread;
  OutsideMemory::forget_others(own == nullptr ? nullptr : &own->outside);
  if (own == nullptr) return;
  own->depth = 0;
  own->context = nullptr;
  own->forget();
  hot = {.thread = own};
}

/// Gives it back when the thread ends.
struct Ending {
  ~Ending() {
    if (hot.thread == nullptr) return;
    hot.thread->used.store(false, std::memory_order_release);
    hot = {};
  }
};

[[gnu::noinline]] Thread& new_thread() {
  static thread_local Ending ending;
  (void)&ending;
  at_fork_in_child(&forget_in_child);
  for (Thread* each = threads.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    bool used = false;
    if (each->used.compare_exchange_strong(used, true)) return *(hot.thread = each);
  }
  auto* const made = new Thread;
  made->outside.add();
  made->next = threads.load(std::memory_order_relaxed);
  while (!threads.compare_exchange_weak(made->next, made, std::memory_order_release)) {
  }
  return *(hot.thread = made);
}

/// Runs what may fail; its failure ends the program.
template <class Call>
auto surely(Call&& call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    give_up("out of memory");
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

Thread& this_thread() noexcept {
  if (hot.thread != nullptr) [[likely]]
    return *hot.thread;
  return surely(new_thread);
}

/// That of a thread which is in a transaction.
Thread& running() noexcept {
  if (hot.thread == nullptr || hot.thread->depth == 0) [[unlikely]]
    give_up("instrumented code runs outside of a transaction");
  return *hot.thread;
}

// --- back to where it began ----------------------------------------------------------------------

[[noreturn, gnu::noinline]] void resume(const Place& place, u32 answer) noexcept {
  asm volatile(
      "movq 16(%%rdi), %%rbx\n\t"
      "movq 24(%%rdi), %%rbp\n\t"
      "movq 32(%%rdi), %%r12\n\t"
      "movq 40(%%rdi), %%r13\n\t"
      "movq 48(%%rdi), %%r14\n\t"
      "movq 56(%%rdi), %%r15\n\t"
      "movq 0(%%rdi), %%rsp\n\t"
      "jmpq *8(%%rdi)"
      :
      : "D"(&place), "a"(answer)
      : "memory");
  __builtin_unreachable();
}

/// libstdc++'s __cxa_exception, which lies before the exception.
struct CaughtException {
  void* type_and_others[5];
  int handlers;  ///< negative: it has been thrown again, and its handlers are being left
  void* others[4];
  _Unwind_Exception header;
  bool is_of_gcc() const { return header.exception_class >> 8 == 0x474e5543432b2b; }  // GNUCC++
};
static_assert(sizeof(CaughtException) == 112);

/// libstdc++'s __cxa_eh_globals.
struct ExceptionGlobals {
  CaughtException* handled;  ///< the last one
  unsigned uncaught;
};

ExceptionGlobals& exception_globals() {
  return *reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
}

void* header_of(void* exception) { return static_cast<_Unwind_Exception*>(exception) - 1; }

/// One that its handler has thrown again, and that is not left yet; nullptr: none.
void* thrown_again() {
  CaughtException* const last = exception_globals().handled;
  return last != nullptr && last->is_of_gcc() && last->handlers < 0 ? last + 1 : nullptr;
}

void take_back_throw() {
  CaughtException& last = *exception_globals().handled;
  last.handlers = -last.handlers;
  --exception_globals().uncaught;
}

void undo_exceptions(Thread& tx, const Level& level) {
  for (; tx.in_flight.size() > level.in_flight; tx.in_flight.pop_back()) {
    if (tx.in_flight.back() == thrown_again()) {
      take_back_throw();
      continue;
    }
    const unsigned left = exception_globals().uncaught - 1;
    __cxa_tm_cleanup(nullptr, header_of(tx.in_flight.back()), 0);
    exception_globals().uncaught = left;
  }
  if (tx.handled != level.handled) {
    if (thrown_again() != nullptr) take_back_throw();
    __cxa_tm_cleanup(nullptr, nullptr, tx.handled - level.handled);
  }
  tx.handled = level.handled;
  for (; tx.unthrown.size() > level.unthrown; tx.unthrown.pop_back())
    abi::__cxa_free_exception(tx.unthrown.back());
}

void run_back_to(std::vector<ToRun>& actions, size_t count) {
  while (actions.size() > count) {
    const ToRun each = actions.back();
    actions.pop_back();
    each.action(each.argument);
  }
}

/// All that was done since then in memory that is no store's.
void undo_outside(Thread& tx, const Level& level) {
  undo_exceptions(tx, level);
  tx.outside.undo(level.undo, level.place.stack);
  tx.freed.resize(level.freed);
  tx.at_commit.resize(level.at_commit);
}

/// And what a body does by itself, when nothing of it is left.
void run_undo_actions(Thread& tx, const Level& level) {
  run_back_to(tx.blocks, level.blocks);
  run_back_to(tx.at_undo, level.at_undo);
}

/// The same of the outermost one: what they do may be transactions.
void run_undo_actions(Thread& tx) {
  tx.depth = 0;
  if (tx.blocks.empty() && tx.at_undo.empty()) return;
  const Level level = tx.levels.front();
  const Transactions::Restarts restarts = tx.restarts;
  std::vector<ToRun> blocks = std::exchange(tx.blocks, {});
  std::vector<ToRun> at_undo = std::exchange(tx.at_undo, {});
  run_back_to(blocks, 0);
  run_back_to(at_undo, 0);
  tx.levels.assign(1, level);
  tx.restarts = restarts;
}

/// It has no store any more.
void leave_store(Thread& tx) noexcept {
  hot = {.thread = &tx};
  tx.outside.set_durable(nullptr);
}

void roll_back(Thread& tx) {
  const Level& level = tx.levels.front();
  undo_outside(tx, level);
  if (tx.context != nullptr) {
    tx.context->roll_back();
    tx.all->leave(*tx.context);
  }
  tx.outside.release();
  tx.outside.leave();
  leave_store(tx);
}

void back_off(Transactions::Restarts& restarts) {
  const u64 spins = u64{4} << std::min<u64>(++restarts.count, 10);
  for (u64 i = 0; i < spins; ++i) __builtin_ia32_pause();
}

void start(Thread& tx) noexcept {
  tx.depth = 1;
  tx.outside.begin();
  if (tx.restarts.count >= Transactions::kRestartsTogether) tx.outside.stop_others();
}

/// In no handler: what is thrown ends before.
[[noreturn, gnu::noinline]] void begin_again(Thread& tx, Why why) noexcept {
  surely([&] {
    roll_back(tx);
    if (TransactionContext* const context = std::exchange(tx.context, nullptr))
      tx.all->prepare_again(*context, why, tx.restarts);
    else back_off(tx.restarts);
    tx.levels.resize(1);
    run_undo_actions(tx);
  });
  OutsideMemory::await_stopped();
  start(tx);
  resume(tx.levels.front().place, kRunInstrumented | kRestoreLiveVariables);
}

/// Runs a part of it; where it meets others, it begins again.
template <class Call>
[[gnu::always_inline]] inline auto part(Thread& tx, Call&& call) -> decltype(call()) {
  Why why{};
  try {
    return call();
  } catch (const TransactionAgain& again) {
    why = again.why;
  } catch (const std::bad_alloc&) {
    give_up("out of memory");
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  begin_again(tx, why);
}

/// The same of what says by false that it is to.
template <class Call>
void outside_part(Thread& tx, Call&& call) {
  if (!surely(call)) begin_again(tx, Why::kMetOthers);
}

// The snapshot of the store has been extended: what was read outside of it is to be as it was, too.
[[gnu::noinline]] void follow_store(Thread& tx) {
  hot.snapshot = hot.context->snapshot();
  outside_part(tx, [&] { return tx.outside.validate(); });
}

inline void check_snapshot() {
  if (hot.context->snapshot() != hot.snapshot) [[unlikely]]
    follow_store(*hot.thread);
}

/// From the first word of a store on it is that one's transaction.
[[gnu::noinline]] void join_store(Thread& tx, Runtime& runtime) {
  if (tx.context != nullptr) {
    if (tx.all == part(tx, [&] { return &transactions_of(runtime); })) return;
    give_up("its words lie in two stores; a transaction is of one");
  }
  part(tx, [&] {
    Transactions& all = transactions_of(runtime);
    TransactionContext& context = all.prepare();
    all.enter(context, tx.restarts.count);
    tx.all = &all;
    tx.context = &context;
    for (size_t i = 1; i < tx.levels.size(); ++i) tx.levels[i].durable = context.save();
  });
  hot.base = reinterpret_cast<std::uintptr_t>(runtime.region().base());
  hot.bytes = runtime.region().reserved_bytes();
  hot.context = tx.context;
  tx.outside.set_durable(tx.context);
  follow_store(tx);
}

/// Whether a place is of a store, which is its own from now on.
bool is_durable(Thread& tx, const void* place) {
  if (hot.holds(place)) return true;
  Runtime* const runtime = runtime_holding(place);
  if (runtime == nullptr) return false;
  join_store(tx, *runtime);
  return true;
}

// --- begin and end -------------------------------------------------------------------------------

Level level_at(const Thread& tx, const Place& place) {
  return {.place = place,
          .depth = tx.depth,
          .undo = tx.outside.undo_length(),
          .blocks = tx.blocks.size(),
          .freed = tx.freed.size(),
          .at_commit = tx.at_commit.size(),
          .at_undo = tx.at_undo.size(),
          .unthrown = tx.unthrown.size(),
          .in_flight = tx.in_flight.size(),
          .handled = tx.handled,
          .id = 0,
          .durable = {}};
}

// What was read outside is checked while all that is stored is owned; what was read in the store is
// checked by its commit, unless nothing is stored there. Others see what is outside when the
// store's record has its place: theirs, if they rely on it, is behind.
void commit_both(Thread& tx) {
  outside_part(tx, [&] { return tx.outside.prepare(); });
  if (tx.context != nullptr) {
    if (tx.outside.has_written() && !tx.context->validate()) begin_again(tx, Why::kMetOthers);
    part(tx, [&] { value_or_throw(tx.context->commit()); });
  }
  tx.outside.release();
}

void commit_outermost(Thread& tx) {
  const bool took_away = tx.outside.has_written() || !tx.freed.empty();
  commit_both(tx);
  TransactionContext* const context = std::exchange(tx.context, nullptr);
  if (context != nullptr) tx.all->leave(*context);
  tx.outside.leave();
  leave_store(tx);
  tx.depth = 0;
  if (took_away) tx.outside.await_others();
  if (context != nullptr) surely([&] { tx.all->finish(*context); });
  tx.blocks.clear();
  tx.at_undo.clear();
  tx.unthrown.clear();
  tx.in_flight.clear();
  tx.handled = 0;
  // What they do may be transactions.
  if (!tx.freed.empty() || !tx.at_commit.empty()) [[unlikely]] {
    for (const ToRun& each : std::exchange(tx.freed, {})) each.action(each.argument);
    for (const ToRun& each : std::exchange(tx.at_commit, {})) each.action(each.argument);
  }
}

void commit_inner(Thread& tx) {
  const Level& level = tx.levels.back();
  if (level.depth + 1 == tx.depth) {
    if (tx.context != nullptr) tx.context->keep(level.durable);
    tx.levels.pop_back();
  }
  --tx.depth;
}

[[noreturn]] void cancel_inner(Thread& tx) {
  const Level level = tx.levels.back();
  hot.forget_fresh();
  undo_outside(tx, level);
  if (tx.context != nullptr) tx.context->undo(level.durable);
  tx.levels.pop_back();
  tx.depth = level.depth;
  run_undo_actions(tx, level);
  resume(level.place, kAbort | kRestoreLiveVariables);
}

[[noreturn]] void cancel_outermost(Thread& tx) {
  const Place place = tx.levels.front().place;
  roll_back(tx);
  tx.context = nullptr;
  surely([&] { run_undo_actions(tx); });
  resume(place, kAbort | kRestoreLiveVariables);
}

/// Of a function that was called since the outermost transaction began: its thread's alone.
bool is_own_frame(const Thread& tx, const void* place) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return reinterpret_cast<std::uintptr_t>(place) - here < tx.levels.front().place.stack - here;
}

void note_frame(Thread& tx, const void* place, size_t length) {
  surely([&] { tx.outside.note(place, length, OutsideMemory::Of::kFrame); });
}

[[gnu::noinline]] void load_elsewhere(void* to, const void* from, size_t length) noexcept {
  Thread& tx = running();
  if (hot.is_fresh(from, length) || is_own_frame(tx, from)) {
    std::memcpy(to, from, length);
  } else if (is_durable(tx, from)) {
    part(tx, [&] { hot.context->load_bytes(from, to, length); });
    check_snapshot();
  } else {
    outside_part(tx, [&] { return tx.outside.read(to, from, length); });
  }
}

[[gnu::noinline]] void store_elsewhere(void* to, const void* from, size_t length) noexcept {
  Thread& tx = running();
  if (hot.is_fresh(to, length)) {
    std::memcpy(to, from, length);
  } else if (is_own_frame(tx, to)) {
    if (tx.levels.size() > 1) note_frame(tx, to, length);
    std::memcpy(to, from, length);
  } else if (is_durable(tx, to)) {
    part(tx, [&] { hot.context->store_bytes(to, from, length); });
    check_snapshot();
  } else {
    outside_part(tx, [&] { return tx.outside.write(to, from, length); });
  }
}

void keep_to_run(std::vector<ToRun>& list, Action action, void* argument) {
  surely([&] { list.push_back({action, argument}); });
}

}  // namespace

u32 begin(const Place& place, bool may_cancel) noexcept {
  Thread& tx = this_thread();
  if (tx.depth == 0) {
    tx.levels.clear();
    surely([&] { tx.levels.push_back(level_at(tx, place)); });
    tx.restarts = {};
    start(tx);
  } else {
    if (may_cancel)
      surely([&] {
        Level level = level_at(tx, place);
        if (tx.context != nullptr) level.durable = tx.context->save();
        tx.levels.push_back(level);
        hot.forget_fresh();
      });
    ++tx.depth;
  }
  return kRunInstrumented | kSaveLiveVariables;
}

void commit() noexcept {
  Thread& tx = running();
  if (tx.depth == 1) commit_outermost(tx);
  else commit_inner(tx);
}

// One that code has thrown which is not instrumented is not known yet.
void commit_with_exception(void* header) noexcept {
  Thread& tx = running();
  void* const exception = static_cast<_Unwind_Exception*>(header) + 1;
  if (std::ranges::find(tx.in_flight, exception) == tx.in_flight.end())
    surely([&] { tx.in_flight.push_back(exception); });
  commit();
}

void cancel(bool outermost) noexcept {
  Thread& tx = running();
  if (outermost || tx.levels.size() == 1) cancel_outermost(tx);
  cancel_inner(tx);
}

bool is_inside() noexcept { return hot.thread != nullptr && hot.thread->depth != 0; }

u64 transaction_id() noexcept {
  if (!is_inside()) return 1;
  u64& id = hot.thread->levels.back().id;
  if (id == 0) id = ids.fetch_add(1, std::memory_order_relaxed) + 1;
  return id;
}

u32 thread_number() noexcept { return this_thread().outside.number(); }

void at_commit(Action action, void* argument) noexcept {
  keep_to_run(running().at_commit, action, argument);
}

void at_undo(Action action, void* argument) noexcept {
  keep_to_run(running().at_undo, action, argument);
}

void give_up(const char* why, const void* place) noexcept {
  std::string where;
  Dl_info info{};
  if (place != nullptr && ::dladdr(place, &info) != 0) {
    char text[64];
    std::snprintf(text, sizeof text, "+0x%zx",
                  static_cast<size_t>(static_cast<const char*>(place) -
                                      static_cast<const char*>(info.dli_fbase)));
    where = " at " + std::string(info.dli_fname) + text;
    if (info.dli_sname != nullptr) where += std::string(" (") + info.dli_sname + ")";
  }
  std::fprintf(stderr, "perdura: a transaction%s cannot go on: %s\n", where.c_str(), why);
  std::abort();
}

// --- loads and stores ----------------------------------------------------------------------------

template <class Word>
Word load(const Word* from) noexcept {
  Word value;
  if (hot.is_fresh(from, sizeof value)) {
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  if (hot.holds(from) && reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) == 0) [[likely]] {
    value = part(*hot.thread, [&] { return hot.context->load(from); });
    check_snapshot();
    return value;
  }
  load_elsewhere(&value, from, sizeof value);
  return value;
}

template <class Word>
void store(Word* to, Word value) noexcept {
  if (hot.is_fresh(to, sizeof(Word))) {
    std::memcpy(to, &value, sizeof value);
  } else if (hot.holds(to) && reinterpret_cast<std::uintptr_t>(to) % sizeof(Word) == 0) [[likely]] {
    part(*hot.thread, [&] {
      if constexpr (sizeof(Word) == 8) hot.context->store(to, value);
      else hot.context->store_part(to, value);
    });
    check_snapshot();
  } else {
    store_elsewhere(to, &value, sizeof value);
  }
}

template u8 load(const u8*) noexcept;
template u16 load(const u16*) noexcept;
template u32 load(const u32*) noexcept;
template u64 load(const u64*) noexcept;
template void store(u8*, u8) noexcept;
template void store(u16*, u16) noexcept;
template void store(u32*, u32) noexcept;
template void store(u64*, u64) noexcept;

void load_bytes(void* to, const void* from, size_t length) noexcept {
  if (length != 0) load_elsewhere(to, from, length);
}

void store_bytes(void* to, const void* from, size_t length) noexcept {
  if (length != 0) store_elsewhere(to, from, length);
}

void note(const void* place, size_t length) noexcept {
  Thread& tx = running();
  if (is_own_frame(tx, place)) return note_frame(tx, place, length);
  surely([&] { tx.outside.note(place, length, OutsideMemory::Of::kAny); });
}

// --- blocks --------------------------------------------------------------------------------------

void* allocate(size_t size) noexcept {
  Thread& tx = running();
  if (tx.context == nullptr) {
    Runtime* const only = surely(only_or_current_runtime);
    if (only == nullptr && has_open_stores())
      give_up(
          "it allocates before it has used a store, and several are open; let it load a word "
          "of one first");
    if (only == nullptr) return allocate_outside(std::malloc(size), std::free);
    join_store(tx, *only);
  }
  void* const block = part(tx, [&]() -> void* {
    try {
      return tx.context->allocate(size, 16);
    } catch (const Error& error) {
      if (error.code() != Code::kNoSpace) throw;
      return nullptr;
    }
  });
  if (block != nullptr) {
    hot.fresh = reinterpret_cast<std::uintptr_t>(block);
    hot.fresh_bytes = size;
  }
  return block;
}

void* allocate_outside(void* block, Action free) noexcept {
  if (block != nullptr) keep_to_run(running().blocks, free, block);
  return block;
}

void deallocate(void* block, Action free) noexcept {
  if (block == nullptr) return;
  Thread& tx = running();
  if (!is_durable(tx, block)) return keep_to_run(tx.freed, free, block);
  hot.forget_fresh();
  part(tx, [&] { tx.context->deallocate(block); });
  check_snapshot();
}

// --- exceptions ----------------------------------------------------------------------------------

void exception_allocated(void* exception) noexcept {
  surely([&] { running().unthrown.push_back(exception); });
}

void exception_freed(void* exception) noexcept { std::erase(running().unthrown, exception); }

void exception_thrown(void* exception) noexcept {
  Thread& tx = running();
  std::erase(tx.unthrown, exception);
  surely([&] { tx.in_flight.push_back(exception); });
}

void catch_begins(void* exception) noexcept {
  Thread& tx = running();
  std::erase(tx.in_flight, exception);
  ++tx.handled;
}

// The handler may have thrown it again.
void catch_ends() noexcept {
  Thread& tx = running();
  --tx.handled;
  void* const exception = thrown_again();
  if (exception != nullptr && std::ranges::find(tx.in_flight, exception) == tx.in_flight.end())
      [[unlikely]]
    surely([&] { tx.in_flight.push_back(exception); });
}

}  // namespace perdura::detail::itm
