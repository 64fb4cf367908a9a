#include "object/call_record.hpp"

#include <cstring>

#include "base/checksum.hpp"
#include "base/spin.hpp"

namespace perdura::object {
namespace {

std::atomic<u64> next_record{1};

}  // namespace

constinit thread_local CallRecord::Last CallRecord::last_;

CallRecord::CallRecord() : id_(next_record.fetch_add(1)) {}

// Arguments of a function have one size, so that those of a word are their own sum.
u64 CallRecord::sum_of(std::span<const std::byte> context) {
  u64 sum = 0;
  if (context.size() > sizeof sum) return checksum(context.data(), context.size());
  if (!context.empty()) std::memcpy(&sum, context.data(), context.size());
  return sum;
}

void CallRecord::add(const RecordedCall& call) {
  if (added_ == nullptr || added_potid_ != call.potid) {
    std::unique_ptr<Caller>& caller = callers_[call.potid];
    if (!caller) {
      caller = std::make_unique<Caller>();
      ++pending_;
    }
    added_ = caller.get();
    added_potid_ = call.potid;
  }
  added_->calls.push_back({.sum = sum_of(call.context),
                           .function = call.function,
                           .answer_bytes = static_cast<u16>(call.answer.size())});
  if (!call.answer.empty())
    added_->answers.insert(added_->answers.end(), call.answer.begin(), call.answer.end());
}

class CallRecord::Using {
 public:
  explicit Using(Caller& caller) : caller_(caller) {
    await_soon([&] { return !caller.in_use.exchange(true, std::memory_order_acquire); });
  }
  ~Using() { caller_.in_use.store(false, std::memory_order_release); }
  Using(const Using&) = delete;

 private:
  Caller& caller_;
};

CallRecord::Caller* CallRecord::find(u32 potid) const {
  const auto found = callers_.find(potid);
  if (found == callers_.end() || found->second->done.load(std::memory_order_acquire))
    return nullptr;
  return found->second.get();
}

CallRecord::Found CallRecord::answer_by(Caller& caller, const Call& call, u64 result_bytes,
                                        void* result) {
  const Using in_use(caller);
  if (caller.next == caller.calls.size()) return Found::kNew;
  const Kept& kept = caller.calls[caller.next];
  if (kept.function != call.function || kept.sum != sum_of(call.context) ||
      kept.answer_bytes != result_bytes)
    return Found::kAnother;
  if (result != nullptr && result_bytes != 0)
    std::memcpy(result, caller.answers.data() + caller.next_answer, result_bytes);
  caller.next_answer += kept.answer_bytes;
  if (++caller.next == caller.calls.size()) {
    caller.calls = {};
    caller.answers = {};
    caller.next = 0;
    caller.done.store(true, std::memory_order_release);
    --pending_;
  }
  return Found::kRecorded;
}

CallRecord::Found CallRecord::answer_resize(u32 potid, u64 bytes) {
  Call call{.function = format::kObjectResized, .potid = potid};
  call.context = std::as_bytes(std::span(&bytes, 1));
  return answer(call, 0, nullptr);
}

CallRecord::Next CallRecord::next(u32 potid) const {
  Caller* const caller = find(potid);
  if (caller == nullptr) return {};
  const Using in_use(*caller);
  if (caller->next == caller->calls.size()) return {};
  const Kept& kept = caller->calls[caller->next];
  return {.number = caller->next + 1, .function = kept.function, .sum = kept.sum};
}

}  // namespace perdura::object
