// Transactions of GCC's -fgnu-tm, as libperdura_itm.so takes them from the compiler's calls (itm/):
// those of fstm.cc, without a macro, and over memory outside of stores as well.
//
//   begin         where it begins again; no store yet
//   a word        in a store: that one's transaction begins, or goes on
//                 elsewhere: owned and changed in place (outside_memory.hpp)
//   commit        in the store, then what is outside is released
//
// Nothing here throws, but for a C++ allocation: where a transaction meets others it goes back to
// where it began, and what cannot be done ends the program with a sentence.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::detail::itm {

/// What _ITM_beginTransaction returns to, and the registers that its caller finds again. Filled by
/// itm/begin.cc.
struct Place {
  u64 stack;  ///< the stack pointer behind the return
  u64 code;
  u64 rbx, rbp, r12, r13, r14, r15;
};
static_assert(sizeof(Place) == 64);

// --- begin and end -------------------------------------------------------------------------------

/// What _ITM_beginTransaction answers.
u32 begin(const Place& place, bool may_cancel) noexcept;
void commit() noexcept;
/// The same when an exception leaves the transaction, which may not have happened after all.
void commit_with_exception(void* header) noexcept;
/// Undo the innermost one that may be cancelled, or all of them, and go on behind it.
[[noreturn]] void cancel(bool outermost) noexcept;
bool is_inside() noexcept;
/// Of the innermost one that may be cancelled.
u64 transaction_id() noexcept;
/// Of the thread; from 1 on.
u32 thread_number() noexcept;
/// When it has committed, or is undone.
using Action = void (*)(void* argument);
void at_commit(Action action, void* argument) noexcept;
void at_undo(Action action, void* argument) noexcept;

/// `what` names the place in the program.
[[noreturn]] void give_up(const char* why, const void* place = nullptr) noexcept;

// --- loads and stores ----------------------------------------------------------------------------

/// Of 1, 2, 4 and 8 bytes, at any address.
template <class Word>
Word load(const Word* from) noexcept;
template <class Word>
void store(Word* to, Word value) noexcept;
void load_bytes(void* to, const void* from, size_t length) noexcept;
void store_bytes(void* to, const void* from, size_t length) noexcept;
/// About to be stored to without store(), by its only user; put back where that is undone.
void note(const void* place, size_t length) noexcept;

// --- blocks --------------------------------------------------------------------------------------

/// Of the store that the transaction is of, else of the only one that is open; with none, the
/// program's own. nullptr: there is no room.
void* allocate(size_t size) noexcept;
/// An ordinary one, given back by `free` where the transaction is undone.
void* allocate_outside(void* block, Action free) noexcept;
/// `free` gives back what is in no store, when the transaction has committed.
void deallocate(void* block, Action free) noexcept;

// --- exceptions ----------------------------------------------------------------------------------

/// What happens to them is undone with the transaction.
void exception_allocated(void* exception) noexcept;
void exception_freed(void* exception) noexcept;
void exception_thrown(void* exception) noexcept;
/// The object of it.
void catch_begins(void* exception) noexcept;
void catch_ends() noexcept;

}  // namespace perdura::detail::itm
