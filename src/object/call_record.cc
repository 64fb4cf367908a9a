#include "object/call_record.hpp"

#include <algorithm>

#include "base/spin.hpp"

namespace perdura::object {
namespace {

std::atomic<u64> next_record{1};

}  // namespace

constinit thread_local CallRecord::Last CallRecord::last_;

CallRecord::CallRecord() : id_(next_record.fetch_add(1)) {}

u64 CallRecord::sum_of_others(std::span<const std::byte> context) {
  return checksum(context.data(), context.size());
}

void CallRecord::begin_adding(u32 potid) {
  std::unique_ptr<Caller>& caller = callers_[potid];
  if (!caller) {
    caller = std::make_unique<Caller>();
    ++pending_;
  }
  added_ = caller.get();
  added_potid_ = potid;
}

CallRecord::Caller* CallRecord::find(u32 potid) const {
  const auto found = callers_.find(potid);
  if (found == callers_.end() || found->second->done.load(std::memory_order_acquire))
    return nullptr;
  return found->second.get();
}

// A thread that asked for others meanwhile has its hold still. One whose number is another one's is
// dead, and its hold is that one's.
void CallRecord::take(u32 potid) {
  Caller* const caller = find(potid);
  if (caller == nullptr) {
    last_ = {.record = id_, .potid = potid};
    return;
  }
  Hold* holder = caller->holder.load(std::memory_order_acquire);
  if (holder == nullptr || !::pthread_equal(holder->thread, ::pthread_self())) {
    const std::lock_guard lock(mutex_);
    caller->holds.push_back(std::make_unique<Hold>(::pthread_self()));
    const Hold* const before =
        caller->holder.exchange(caller->holds.back().get(), std::memory_order_seq_cst);
    holder = caller->holds.back().get();
    if (before != nullptr) {
      heavy_fence();
      await_soon([&] { return !before->in_use.load(std::memory_order_acquire); });
    } else {
      caller->next = caller->calls.data();
      caller->end = caller->next + caller->calls.size();
      caller->times_left = caller->next->times;
      caller->next_answer = caller->answers.data();
    }
  }
  last_ = {.record = id_, .potid = potid, .caller = caller, .hold = holder};
}

// To the calls behind those that were made as often as they are recorded.
void CallRecord::advance(Caller& caller) {
  if (++caller.next != caller.end) {
    caller.times_left = caller.next->times;
    return;
  }
  caller.calls = {};
  caller.answers = {};
  caller.next = caller.end = nullptr;
  caller.done.store(true, std::memory_order_release);
  last_.caller = nullptr;
  --pending_;
}

CallRecord::Found CallRecord::answer_by(Caller& caller, const Call& call, u64 result_bytes,
                                        void* result) {
  const Kept* const kept = caller.next;
  if (kept == caller.end) return Found::kNew;
  if (kept->function != call.function || kept->sum != sum_of(call.context) ||
      kept->answer_bytes != result_bytes)
    return Found::kAnother;
  if (result != nullptr && result_bytes != 0) std::memcpy(result, caller.next_answer, result_bytes);
  caller.next_answer += result_bytes;
  ++caller.made;
  if (--caller.times_left == 0) advance(caller);
  return Found::kRecorded;
}

CallRecord::Found CallRecord::answer(const Call& call, u64 result_bytes, void* result) {
  Found found = Found::kNew;
  look_at(call.potid,
          [&](Caller& caller) { found = answer_by(caller, call, result_bytes, result); });
  return found;
}

CallRecord::Found CallRecord::answer_resize(u32 potid, u64 bytes) {
  Call call{.function = format::kObjectResized, .potid = potid};
  call.context = std::as_bytes(std::span(&bytes, 1));
  return answer(call, 0, nullptr);
}

CallRecord::Next CallRecord::next(u32 potid) {
  Next next;
  look_at(potid, [&](const Caller& caller) {
    if (caller.next == caller.end) return;
    next = {.number = caller.made + 1, .function = caller.next->function, .sum = caller.next->sum};
  });
  return next;
}

}  // namespace perdura::object
