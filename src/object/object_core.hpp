// An object: its state in memory, its log, its copies, and who executes what is logged.
//
//   defer   claim ── publish ──────────────────────────────────────────────► later, in a round
//   call    claim ── publish ── wait, or execute a round ── the answer
//   round   all that is published: durable with one barrier, then done one by one, then answered
//
// Invariants:
//  - Whoever holds executing_ is the only one who stores to the state, and to the medium.
//  - A checkpoint that fails fails nobody's call: it is tried again, until there is no log left.
//  - An entry is durable before it is executed, and executed once in a process's life; what the
//    resilient copy lacks is executed again by the next opening, in the same order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "object/object_copies.hpp"
#include "object/object_log.hpp"

namespace perdura::object {

/// What an entry may call. `result` is nullptr where nobody waits for it.
struct Function {
  std::string name;
  u64 context_bytes = 0;
  void (*run)(void* state, const void* context, void* result) = nullptr;
};

struct CoreOptions {
  u64 checkpoint_calls = 1000;  ///< group-based persistence: so many calls, then a checkpoint
  u64 pending_lines = 4096;     ///< of deferred ones that are not durable: more force a round
};

/// Counts since it was opened, for tests and statistics.
struct CoreCounts {
  u64 rounds = 0;
  u64 executed = 0;
  u64 checkpoints = 0;
};

class ObjectCore {
 public:
  struct Parts {
    media::LinearMedium* medium = nullptr;  ///< outlives it
    u64 head_place = 0;
    format::ObjectHead head{};
    u64 session = 0;  ///< no earlier one of this object has the same
    /// What entries call by their numbers; one of which the program has nothing does not run.
    std::vector<Function> functions;
    CoreOptions options;
  };

  /// A new one, durable as `state` says. `parts.head` says where everything is.
  static Result<std::unique_ptr<ObjectCore>> create(Parts parts, std::span<const std::byte> state);
  /// One that was created before, as it was after the last group that was durable.
  static Result<std::unique_ptr<ObjectCore>> recover(Parts parts);
  ObjectCore(const ObjectCore&) = delete;

  // --- any thread

  /// It is done at some time, after what was called before it. Durable with the next instant.
  Status defer(const Call& call);
  /// Done, once, and durable with all that was called before it; `result` has its answer.
  Status call(const Call& call, void* result);
  /// `look` sees the state after all that was called before is durable and done, and nobody stores
  /// to it meanwhile.
  Status read(const std::function<void(const void* state)>& look);
  /// All that was called is durable and done.
  Status sync();
  /// The same, and in the resilient copy.
  Status checkpoint();

  CoreCounts counts() const;
  /// checkpoint(), where that is possible; from then on calls fail, and touch the medium no more.
  Status close();
  /// Where nobody calls any more; its name and places at any time.
  const format::ObjectHead& head() const { return copies_.head(); }
  /// As whoever called last has left it.
  format::ObjectHead settled_head() const;

 private:
  /// A thread that waits for the answer to its entry. In its stack.
  struct Waiter {
    void* result;
  };

  ObjectCore(Parts&& parts, std::unique_ptr<ObjectLog> log);
  static Result<std::unique_ptr<ObjectCore>> make(Parts&& parts);
  void have_memory(u64 bytes);
  Status repeat();
  Status begin_session();
  Status check_known(const format::ObjectEntry& entry) const;
  Result<u64> log_call(const Call& call, Waiter* waiter);
  Status require_not_forked() const;
  Status require_usable() const;
  Status make_room();
  Status free_log();
  Status rounds_until(u64 end);
  template <class Body>
  Status execute_alone(Body&& body);
  Status round();
  void execute(u64 end);
  Status write_checkpoint();
  Waiter*& waiter_of(u64 index) { return waiters_[index & (log_->lines() - 1)]; }

  const std::vector<Function> functions_;
  const CoreOptions options_;
  const u64 session_;
  ObjectCopies copies_;
  std::unique_ptr<ObjectLog> log_;
  AlignedBuffer memory_;
  std::span<std::byte> state_;
  std::vector<Waiter*> waiters_;  ///< by the first line of their entries
  mutable std::mutex executing_;
  std::atomic<bool> failed_{false};  ///< for good: a group may be durable or not
  std::atomic<bool> closed_{false};
  const u64 generation_ = process_generation();
  u64 calls_since_checkpoint_ = 0;
  CoreCounts counts_;
};

}  // namespace perdura::object
