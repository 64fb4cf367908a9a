// What the threads of a program called of an object when it ran before, for a program that is run
// again from its beginning and does the same: calls that are recorded are answered and not done
// again, each caller's in its order; from the first one on that is not, its calls are new.
//
// Kept in memory until it is asked for: of the arguments the sum alone, and of calls that are the
// same and answer nothing, one behind the other, how many. A thread *holds* the calls of its
// caller, so that the next one is found without an atomic operation; another thread that calls as
// the same caller takes them over, when the first is not looking at them.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/assert.hpp"
#include "base/asymmetric_fence.hpp"
#include "base/checksum.hpp"
#include "object/object_archive.hpp"
#include "object/object_log.hpp"

namespace perdura::object {

class CallRecord {
 public:
  CallRecord();

  /// When the object is opened, in the order of the log. More than once only what answers nothing.
  void add(const RecordedCall& call, u64 times) {
    PERDURA_ASSERT(times == 1 || (call.answer.empty() && times != 0));
    if (added_ == nullptr || added_potid_ != call.potid) [[unlikely]]
      begin_adding(call.potid);
    const Kept kept{.sum = sum_of(call.context),
                    .times = times,
                    .function = call.function,
                    .answer_bytes = static_cast<u16>(call.answer.size())};
    if (!added_->calls.empty() && added_->calls.back().is_again(kept))
      added_->calls.back().times += times;
    else added_->calls.push_back(kept);
    if (!call.answer.empty())
      added_->answers.insert(added_->answers.end(), call.answer.begin(), call.answer.end());
  }

  // --- any thread

  enum class Found { kNew, kRecorded, kAnother };
  /// Whether the caller's next call is recorded. Then `result` has its answer, of `result_bytes`
  /// bytes, and the one after it is the next; of another call than this nothing happens.
  Found answer(const Call& call, u64 result_bytes, void* result);
  /// The same, where that takes no longer than to look at it: this thread holds the caller's calls.
  /// False: it is not answered, and may be recorded all the same.
  bool answer_held(const Call& call, u64 result_bytes, void* result);
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
  Next next(u32 potid);
  /// Arguments of a function have one size, so that those of a word are their own sum.
  static u64 sum_of(std::span<const std::byte> context) {
    u64 sum = 0;
    if (context.size() == sizeof(u32)) {
      std::memcpy(&sum, context.data(), sizeof(u32));
    } else if (context.size() == sizeof(u64)) {
      std::memcpy(&sum, context.data(), sizeof(u64));
    } else if (!context.empty()) {
      sum = sum_of_others(context);
    }
    return sum;
  }

 private:
  struct Kept {
    u64 sum;
    u64 times;
    u16 function;
    u16 answer_bytes;

    bool is_again(const Kept& next) const {
      return sum == next.sum && function == next.function && answer_bytes == 0 &&
             next.answer_bytes == 0;
    }
  };
  /// A thread's right to a caller's calls, while `holder` says that it has it. Its own alone: so
  /// that whoever takes it over sees whether the thread is in the middle of a call.
  struct Hold {
    explicit Hold(pthread_t of) : thread(of) {}
    std::atomic<bool> in_use{false};
    const pthread_t thread;
  };
  struct Caller {
    std::atomic<Hold*> holder{nullptr};
    std::atomic<bool> done{false};  ///< nothing of it is left
    std::vector<Kept> calls;
    std::vector<std::byte> answers;
    const Kept* next = nullptr;  ///< of the calls; since some thread has held them
    const Kept* end = nullptr;
    u64 times_left = 0;  ///< of the next one
    const std::byte* next_answer = nullptr;
    u64 made = 0;                              ///< of them all, so far
    std::vector<std::unique_ptr<Hold>> holds;  ///< all that there were
  };
  /// Whose calls this thread asked for last.
  struct Last {
    u64 record = 0;  ///< no other one of the process has or had its number; 0: none
    u32 potid = 0;
    Caller* caller = nullptr;  ///< nullptr: nothing of it is left
    Hold* hold = nullptr;
  };

  static u64 sum_of_others(std::span<const std::byte> context);
  void begin_adding(u32 potid);
  Caller* find(u32 potid) const;
  void take(u32 potid);
  template <class Look>
  bool look_held(u32 potid, const Look& look);
  template <class Look>
  void look_at(u32 potid, const Look& look) {
    while (!look_held(potid, look)) take(potid);
  }
  static bool answer_word(Caller& caller, const Call& call, u64 result_bytes, void* result);
  Found answer_by(Caller& caller, const Call& call, u64 result_bytes, void* result);
  void advance(Caller& caller);

  static constinit thread_local Last last_;

  const u64 id_;
  std::unordered_map<u32, std::unique_ptr<Caller>> callers_;  ///< as they were when it was opened
  std::atomic<u64> pending_{0};                               ///< callers with calls left
  std::mutex mutex_;                                          ///< of who takes calls over
  u32 added_potid_ = 0;
  Caller* added_ = nullptr;  ///< that one's
};

// Calls look(caller) if this thread holds its calls, where something of it is left; false if it
// does not. Who takes them over, and fences all threads, sees that this one is looking, or this one
// that they are gone.
template <class Look>
inline bool CallRecord::look_held(u32 potid, const Look& look) {
  const Last& last = last_;
  if (last.record != id_ || last.potid != potid) [[unlikely]]
    return false;
  Caller* const caller = last.caller;
  Hold* const hold = last.hold;
  if (caller == nullptr) return true;
  hold->in_use.store(true, std::memory_order_relaxed);
  light_fence();
  const bool is_held = caller->holder.load(std::memory_order_acquire) == hold;
  if (is_held) [[likely]]
    look(*caller);
  hold->in_use.store(false, std::memory_order_release);
  return is_held;
}

// What most calls are, without a call of any function: with arguments and an answer of a word at
// most, and not the last one.
inline bool CallRecord::answer_word(Caller& caller, const Call& call, u64 result_bytes,
                                    void* result) {
  const Kept* const kept = caller.next;
  u64 sum = 0;
  if (call.context.size() == sizeof(u32)) std::memcpy(&sum, call.context.data(), sizeof(u32));
  else if (call.context.size() == sizeof(u64)) std::memcpy(&sum, call.context.data(), sizeof(u64));
  else if (!call.context.empty()) return false;
  if (kept == caller.end || kept->function != call.function || kept->sum != sum ||
      kept->answer_bytes != result_bytes)
    return false;
  const bool is_last_time = caller.times_left == 1;
  if (is_last_time && kept + 1 == caller.end) return false;
  if (result_bytes != 0) {
    if (result == nullptr) return false;
    if (result_bytes == sizeof(u32)) std::memcpy(result, caller.next_answer, sizeof(u32));
    else if (result_bytes == sizeof(u64)) std::memcpy(result, caller.next_answer, sizeof(u64));
    else return false;
    caller.next_answer += result_bytes;
  }
  ++caller.made;
  --caller.times_left;
  if (is_last_time) {
    caller.next = kept + 1;
    caller.times_left = kept[1].times;
  }
  return true;
}

inline bool CallRecord::answer_held(const Call& call, u64 result_bytes, void* result) {
  bool answered = false;
  look_held(call.potid,
            [&](Caller& caller) { answered = answer_word(caller, call, result_bytes, result); });
  return answered;
}

}  // namespace perdura::object
