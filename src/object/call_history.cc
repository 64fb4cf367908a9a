#include "object/call_history.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"

namespace perdura::object {

using format::ObjectCaller;

CallHistory::CallHistory(std::span<ObjectCaller> records, std::span<std::atomic<u64>> admitted)
    : records_(records), admitted_(admitted) {
  PERDURA_ASSERT(std::has_single_bit(records.size()) && admitted.size() == records.size());
}

void CallHistory::move_to(std::span<ObjectCaller> records) {
  PERDURA_ASSERT(records.size() == records_.size());
  records_ = records;
}

bool CallHistory::admit_recorded() {
  return std::ranges::all_of(records_, [this](const ObjectCaller& each) {
    return each.calls == 0 || (find(each.potid) == &each && admit(each.potid));
  });
}

bool CallHistory::admit(u32 potid) {
  const u64 wanted = u64{potid} + 1;
  for (u64 step = 0; step < admitted_.size(); ++step) {
    std::atomic<u64>& each = admitted_[place(potid, step)];
    u64 other = each.load(std::memory_order_relaxed);
    if (other == wanted || (other == 0 && each.compare_exchange_strong(other, wanted)) ||
        other == wanted)
      return true;
  }
  return false;
}

// The record of it, or the one that it would get; nullptr where all are others'.
ObjectCaller* CallHistory::find(u32 potid) const {
  for (u64 step = 0; step < records_.size(); ++step) {
    ObjectCaller& each = records_[place(potid, step)];
    if (each.calls == 0 || each.potid == potid) return &each;
  }
  return nullptr;
}

const ObjectCaller* CallHistory::of(u32 potid) const {
  const ObjectCaller* const found = find(potid);
  return found != nullptr && found->calls != 0 ? found : nullptr;
}

void CallHistory::note(u32 potid, u64 calls, std::span<const std::byte> answer) {
  ObjectCaller* const found = find(potid);
  PERDURA_ASSERT(found != nullptr && answer.size() <= sizeof found->answer && calls != 0);
  found->potid = potid;
  found->calls += calls;
  found->answer_bytes = static_cast<u32>(answer.size());
  std::memset(found->answer, 0, sizeof found->answer);
  if (!answer.empty()) std::memcpy(found->answer, answer.data(), answer.size());
}

}  // namespace perdura::object
