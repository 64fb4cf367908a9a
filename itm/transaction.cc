// The calls that begin and end transactions, and those that say what is going on.
#include <cstdio>
#include <cstdlib>

#include "abi.hpp"

using namespace perdura;
using namespace perdura::detail;

extern "C" {

void _ITM_commitTransaction() { itm::commit(); }

void _ITM_commitTransactionEH(void* exception) { itm::commit_with_exception(exception); }

[[noreturn]] void _ITM_abortTransaction(u32 reason) { itm::cancel((reason & kOuterAbort) != 0); }

// The one mode there is to change to is serial and irrevocable.
void _ITM_changeTransactionMode(u32) {
  itm::give_up(
      "from here on its code could not be undone, since GCC has not instrumented it; make "
      "it __transaction_atomic, whose errors name what is not transaction_safe, and move "
      "that out of it",
      __builtin_return_address(0));
}

void _ITM_addUserCommitAction(Action action, u64 transaction, void* argument) {
  if (transaction != kNoTransaction)
    itm::give_up("a commit action is of the transaction that adds it; name no other one");
  itm::at_commit(action, argument);
}

void _ITM_addUserUndoAction(Action action, void* argument) { itm::at_undo(action, argument); }

u64 _ITM_getTransactionId() { return itm::transaction_id(); }

Executing _ITM_inTransaction() {
  return itm::is_inside() ? Executing::kRetryable : Executing::kOutside;
}

int _ITM_getThreadnum() { return static_cast<int>(itm::thread_number()); }

int _ITM_versionCompatible(int version) { return version == kAbiVersion ? 1 : 0; }

const char* _ITM_libraryVersion() { return "Perdura " PERDURA_VERSION ", ABI 0.90"; }

[[noreturn]] void _ITM_error(const SourceLocation* location, int code) {
  std::fprintf(stderr, "perdura: %s: the transaction's code says error %d\n",
               location != nullptr && location->source != nullptr ? location->source : "?", code);
  std::abort();
}
}
