// What is logged is done: in the order of the log where calls work on the same, at once where they
// work on different domains and threads are there to help.
//
//   domains   1  2  1  2  2 | ALL | 1  1 ...
//   lists     1: 1  1         all   1: 1  1        each list by one thread, in its order;
//             2: 2  2  2                           no list begins before those on the left end
//
// Neighbours in a list whose method can be joined are done as one call. That changes nothing of
// what the state becomes, so recovery may join others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "object/call_history.hpp"
#include "object/execution.hpp"
#include "object/object_changes.hpp"
#include "object/object_log.hpp"
#include "object/object_memory.hpp"

namespace perdura::object {

/// What an entry may call. `result` is nullptr where nobody waits for it.
struct Function {
  std::string name;  ///< as people read it
  u64 context_bytes = 0;
  u64 result_bytes = 0;
  void (*run)(void* state, const void* context, void* result) = nullptr;
  /// The first call becomes one that does what both would do one after the other, or it says no.
  bool (*join)(void* first, const void* next) = nullptr;
  /// Whether it may be called so; nullptr: always.
  bool (*accepts)(const void* context) = nullptr;
  /// Calls of it may be done in any order among themselves.
  bool commutes = false;
  /// It looks at more than the state: the thread that called it does it, and nobody else.
  bool own_thread = false;
  /// It says what it changes (ObjectChanges::report); else anything may have changed.
  bool reports = false;
  /// Equal answers have equal bytes, so that two runs can be told apart by them.
  bool answers_are_bytes = false;
  /// Where the program has another name for it now, the number under that.
  std::optional<u16> present = std::nullopt;
};
/// Of a method that can be joined.
constexpr u64 kJoinedContextMax = kMergedContextMax;

namespace detail {
extern constinit thread_local bool inside_method;
/// Of the state that this thread's method works on.
extern constinit thread_local u64 state_bytes;
}  // namespace detail

/// While it lives this thread is in a method of an object, which whoever executes waits for.
class InMethod {
 public:
  /// `changes`: where it reports to.
  explicit InMethod(u64 state_bytes, ObjectChanges* changes = nullptr)
      : before_(std::exchange(detail::inside_method, true)),
        reported_to_(std::exchange(detail::reported_to, changes)),
        state_bytes_(std::exchange(detail::state_bytes, state_bytes)) {}
  ~InMethod() {
    detail::inside_method = before_;
    detail::reported_to = reported_to_;
    detail::state_bytes = state_bytes_;
  }
  InMethod(const InMethod&) = delete;
  /// Whether there is one.
  static bool any() { return detail::inside_method; }
  /// Of the state of that one's object; 0 where there is none.
  static u64 bytes() { return detail::state_bytes; }

 private:
  const bool before_;
  ObjectChanges* const reported_to_;
  const u64 state_bytes_;
};

/// In the thread that executes; whoever helps calls help() of the crew.
class ObjectExecutor {
 public:
  struct Parts {
    ObjectLog* log = nullptr;        ///< all of these outlive it
    CallHistory* history = nullptr;  ///< nullptr: none is kept
    /// Where a history is kept: answers are appended to it, in the order of calls. nullptr: not.
    std::vector<std::byte>* answers = nullptr;
    Execution* execution = nullptr;
    ObjectChanges* changes = nullptr;
    std::span<std::byte> state{};
    std::atomic<u64>* waiters = nullptr;  ///< zeros, by the first line of their entries
    std::byte* base = nullptr;            ///< what these count from
    u32 servers = 1;                      ///< that do calls at once, at most
    bool verifies = false;                ///< each call is done twice, and must do the same
    const std::string* name = nullptr;    ///< of the object, for what is found so
  };
  ObjectExecutor(const Parts& parts, std::vector<Function> functions);

  const std::vector<Function>& functions() const { return functions_; }
  Crew& crew() { return crew_; }
  /// Where the thread that claimed the entry at `index` waits for its answer, or nullptr; before it
  /// is published.
  void set_waiter(u64 index, const Waiter* waiter) {
    waiter_at(index).store(waiter == nullptr ? 0 : place_of(waiter), std::memory_order_relaxed);
  }
  /// What a waiter's `result` is for an answer at an address.
  u64 place_of(const void* at) const {
    if (at == nullptr) return 0;
    return reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(parts_.base);
  }

  /// Does the calls from done() to `end`, or to one that another thread must do, and says so to the
  /// log. kMisuse: verification has found a method that does not do the same twice, and what is
  /// done is not what the log says.
  Status run(u64 end);
  /// The same of one call, for the thread that has made it.
  Status run_one(u64 index, void* result);
  /// Whose the call at `index` is, which this thread must leave to it; 0: anybody's.
  pthread_t anothers(u64 index) const {
    const Waiter* const waiter = owns_ ? waiter_of(index) : nullptr;
    return waiter == nullptr || waiter->thread == ::pthread_self() ? 0 : waiter->thread;
  }
  /// The calls from `begin` on were done before, and what they did is lost: they are done again,
  /// for nobody.
  Status repeat(u64 begin, u64 end);
  /// Whether this process has what the entry at `index` calls.
  bool knows(u64 index) const {
    const u16 function = parts_.log->entry(index).function;
    return function < functions_.size() && functions_[function].run != nullptr;
  }
  /// The memory that verifying takes for a state of this size.
  struct Twins {
    AlignedBuffer twin{1};    ///< the state that the other run makes
    AlignedBuffer before{1};  ///< and what it was
  };
  Twins twins_for(u64 state_bytes) const;
  /// While nobody executes anything: the state is elsewhere, and has another size, for which
  /// `twins` are.
  void move_to(std::span<std::byte> state, Twins&& twins) noexcept;
  /// Since it was made.
  u64 calls() const { return calls_.load(std::memory_order_relaxed); }
  /// Of methods; calls that were merged are one.
  u64 runs() const { return runs_.load(std::memory_order_relaxed); }

 private:
  struct Counts {
    u64 calls;
    u64 runs;
  };
  /// Calls are done one after the other, each with an answer of its own.
  bool alone() const { return parts_.history != nullptr || parts_.verifies; }
  std::atomic<u64>& waiter_at(u64 index) const {
    return parts_.waiters[index & (parts_.log->lines() - 1)];
  }
  Waiter* waiter_of(u64 index) const {
    const u64 place = waiter_at(index).load(std::memory_order_relaxed);
    return place == 0 ? nullptr : reinterpret_cast<Waiter*>(at(place));
  }
  std::byte* at(u64 place) const {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(parts_.base) + place);
  }
  void* take_result(u64 index);
  u64 end_of_turn(u64 end);
  u64 end_of_known(u64 end) const;
  u64 end_of_segment(u64 index, u64 end) const;
  template <class EntryAt, class Next>
  Counts run_calls(u64 begin, u64 end, const EntryAt& entry_at, const Next& next);
  void count_alone(Counts more);
  void run_in_order(u64 begin, u64 end);
  u32 list_of(std::int32_t domain);
  void run_lists(u64 begin, u64 end);
  void run_list(const std::vector<u64>& entries);
  void run_entry(u64 index);
  void run_on_state(const Function& function, const void* context, void* result) {
    if (!function.reports) parts_.changes->note_all();
    function.run(parts_.state.data(), context, result);
  }
  Status run_apart(u64 begin, u64 end);
  Status run_apart(u64 index, void* result);
  std::string text_of(const Function& function) const;
  Status run_verified(const Function& function, const std::byte* context);
  Status check_reports(const Function& function) const;

  Parts parts_;
  const std::vector<Function> functions_;
  const bool joins_;      ///< some function does
  const bool owns_;       ///< some function is its caller's alone
  bool repeats_ = false;  ///< nobody waits for what is done
  Crew crew_;
  std::vector<std::vector<u64>> lists_;  ///< by number of a domain in the segment
  std::unordered_map<std::int32_t, u32> list_of_;
  u32 count_of_lists_ = 0;
  /// Of list_of_, what is asked most.
  struct KnownList {
    u64 segment;  ///< another one than this: it is nobody's
    std::int32_t domain;
    u32 list;
  };
  static constexpr size_t kKnownLists = 64;
  std::array<KnownList, kKnownLists> known_lists_{};
  u64 segment_ = 0;
  Twins twins_;                   ///< verifying
  AlignedBuffer answer_;          ///< of a call that is done apart
  AlignedBuffer twin_answer_{1};  ///< verifying: of its other run
  std::atomic<u64> calls_{0};
  std::atomic<u64> runs_{0};
};

}  // namespace perdura::object
