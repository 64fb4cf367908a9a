// What the threads of a program called of an object when it ran before, for a program that is run
// again from its beginning and does the same: calls that are recorded are answered and not done
// again, each caller's in its order; from the first one on that is not, its calls are new.
//
// Kept in memory until it is asked for: of the arguments the sum alone.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "object/object_archive.hpp"
#include "object/object_log.hpp"

namespace perdura::object {

class CallRecord {
 public:
  CallRecord();

  /// When the object is opened, in the order of the log.
  void add(const RecordedCall& call);

  // --- any thread; of one caller one thread at a time goes on

  enum class Found { kNew, kRecorded, kAnother };
  /// Whether the caller's next call is recorded. Then `result` has its answer, of `result_bytes`
  /// bytes, and the one after it is the next; of another call than this nothing happens.
  Found answer(const Call& call, u64 result_bytes, void* result) {
    Caller* const caller = caller_of(call.potid);
    if (caller == nullptr || caller->done.load(std::memory_order_relaxed)) return Found::kNew;
    return answer_by(*caller, call, result_bytes, result);
  }
  /// The same, where a caller gives the object another size.
  Found answer_resize(u32 potid, u64 bytes);
  /// Some caller has recorded calls that it has not made yet in this run.
  bool is_pending() const { return pending_.load(std::memory_order_relaxed) != 0; }

  /// What the caller's next recorded call is, for a message.
  struct Next {
    u64 number = 0;  ///< among its calls, from 1
    u16 function = 0;
    u64 sum = 0;  ///< of its arguments
  };
  Next next(u32 potid) const;
  static u64 sum_of(std::span<const std::byte> context);

 private:
  struct Kept {
    u64 sum;
    u16 function;
    u16 answer_bytes;
  };
  struct Caller {
    std::atomic<bool> in_use{false};
    std::atomic<bool> done{false};  ///< nothing of it is left
    std::vector<Kept> calls;
    std::vector<std::byte> answers;
    u64 next = 0;
    u64 next_answer = 0;
  };
  /// While it lives no other thread asks for the same caller's.
  class Using;

  /// nullptr: nothing is recorded of it that it has not called again.
  Caller* caller_of(u32 potid) const {
    if (last_.record != id_ || last_.potid != potid) [[unlikely]]
      last_ = {.record = id_, .potid = potid, .caller = find(potid)};
    return last_.caller;
  }
  Caller* find(u32 potid) const;
  Found answer_by(Caller& caller, const Call& call, u64 result_bytes, void* result);

  /// Whose calls this thread asked for last.
  struct Last {
    u64 record = 0;  ///< no other one of the process has or had its number; 0: none
    u32 potid = 0;
    Caller* caller = nullptr;
  };
  static constinit thread_local Last last_;

  const u64 id_;
  std::unordered_map<u32, std::unique_ptr<Caller>> callers_;  ///< as they were when it was opened
  std::atomic<u64> pending_{0};                               ///< callers with calls left
  u32 added_potid_ = 0;
  Caller* added_ = nullptr;  ///< that one's
};

}  // namespace perdura::object
