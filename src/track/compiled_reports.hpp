// What code looks at that was compiled to report its stores (compiler/pass): the store that this
// thread stored to last. Such code appends its reports itself, as detail::report does, and comes to
// the library where it cannot: to register the thread, for another store, outside of operations,
// and where the mutator's buffer has no room (store/compiled_reports.cc).
//
// A store of such code outside of operations begins one, which ends with the thread's next
// perdura_poll(), or with what wants to be called outside of operations: a thread that says where
// its data are consistent needs no other brackets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.hpp"
#include "base/result.hpp"
#include "track/mutators.hpp"

namespace perdura::track {

/// Compiled code knows the offsets of the first three, perdura_report_store those of all.
struct ThreadReports {
  u64 begin = 0;  ///< of the region
  u64 bytes = 0;  ///< of addresses: none, where there is no store yet
  detail::Mutator* mutator;
  /// The first of those in operations that stores have begun, the newest (next_polled).
  MutatorSlot* polled = nullptr;

  void begin_polled(MutatorSlot& mutator);
  /// Leaves all of them inside which nothing was begun. The flags of those mutators (`closed`).
  u32 poll();
  /// Leaves its operation, if a store has begun that and nothing was begun inside it.
  void end_polled(MutatorSlot& mutator);
  /// Whether the outermost operation is one that a store has begun.
  bool is_polled(const MutatorSlot& mutator) const;
  /// The mutator is no longer this thread's.
  void forget(MutatorSlot& mutator);
  /// It is about to be gone, for any thread to say, outside of the operations of this one. What
  /// this thread makes of another store meanwhile it may have to find out once more.
  void forget_elsewhere(const MutatorSlot& mutator);
  /// In a forked child, where all of them are its parent's.
  void forget_all();

 private:
  /// Whether it was among them.
  bool remove_polled(MutatorSlot& mutator);
};

// They are taken off first: what leaving one calls may begin others.
inline u32 ThreadReports::poll() {
  u32 closed = 0;
  MutatorSlot* leaving = nullptr;
  MutatorSlot** last = &leaving;
  for (MutatorSlot** place = &polled; *place != nullptr;) {
    MutatorSlot& slot = **place;
    closed |= slot.closed.load(std::memory_order_relaxed);
    if (slot.depth.load(std::memory_order_relaxed) != 1) {
      place = &slot.next_polled;
      continue;
    }
    *place = slot.next_polled;
    slot.next_polled = nullptr;
    *last = &slot;
    last = &slot.next_polled;
  }
  while (leaving != nullptr) {
    MutatorSlot& slot = *leaving;
    leaving = slot.next_polled;
    detail::leave(slot);
  }
  return closed;
}

/// All of those addresses lie in a window of as much: what is shifted so far is its number. Code
/// that ThreadSanitizer watches has another window, since that leaves the first one to nobody.
constexpr unsigned kCompiledWindowShift = 44;
constexpr u64 kCompiledWindow = 4;
constexpr u64 kCompiledWindowOfTsan = 5;

/// Whether it lies in one of them.
inline bool in_compiled_window(const void* address) {
  static_assert(kCompiledWindow / 2 == kCompiledWindowOfTsan / 2);
  return reinterpret_cast<std::uintptr_t>(address) >> (kCompiledWindowShift + 1) ==
         kCompiledWindow / 2;
}

/// Of two copies of the library in a process that have it in common, one can make reports to the
/// other: changes with ThreadReports, Mutator and MutatorSlot.
constexpr size_t kReportsLayout = 2 << 16 | sizeof(ThreadReports);

/// Whether such code can report to a region: some of the program is it, and it is where that
/// expects regions.
Status check_compiled(const std::byte* base, u64 bytes);

}  // namespace perdura::track

extern "C" {
/// Its name and what it begins with are the pass's as well.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit perdura::track::ThreadReports
    perdura_thread_reports;

/// Where reports go of addresses in no store of this copy of the library: to another copy in the
/// process, libperdura_malloc.so, which may make what `reports` says that of its own region.
using perdura_take_report = void (*)(const void* address, size_t length,
                                     perdura::track::ThreadReports* reports);
/// False where that copy is of another version: `layout` is its kReportsLayout.
bool perdura_send_reports(size_t layout, perdura_take_report take);
}
