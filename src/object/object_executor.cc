#include "object/object_executor.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace perdura::object {
namespace {

using format::ObjectEntry;

constexpr u64 kSharedEntriesMin = 32;  // else helpers come when it is done

}  // namespace

constinit thread_local bool detail::inside_method = false;
constinit thread_local ObjectChanges* detail::reported_to = nullptr;
constinit thread_local u64 detail::state_bytes = 0;

ObjectExecutor::ObjectExecutor(const Parts& parts, std::vector<Function> functions)
    : parts_(parts),
      functions_(std::move(functions)),
      joins_(std::ranges::any_of(functions_, [](const Function& f) { return f.join != nullptr; })),
      owns_(std::ranges::any_of(functions_, [](const Function& f) { return f.own_thread; })),
      twins_(twins_for(parts.state.size())) {}

ObjectExecutor::Twins ObjectExecutor::twins_for(u64 state_bytes) const {
  const u64 bytes = parts_.verifies ? std::max<u64>(state_bytes, 1) : 1;
  return {AlignedBuffer(bytes), AlignedBuffer(bytes)};
}

void ObjectExecutor::move_to(std::span<std::byte> state, Twins&& twins) noexcept {
  parts_.state = state;
  twins_ = std::move(twins);
}

u64 ObjectExecutor::end_of_turn(u64 end) {
  u64 index = parts_.log->done();
  while (index != end && anothers(index) == 0) index += parts_.log->entry(index).lines;
  return index;
}

// The first one that this process does not have, which another one must do.
u64 ObjectExecutor::end_of_known(u64 end) const {
  u64 index = parts_.log->done();
  while (index != end && knows(index)) index += parts_.log->entry(index).lines;
  return index;
}

Status ObjectExecutor::repeat(u64 begin, u64 end) {
  const InMethod in_method(parts_.state.size(), parts_.changes);
  repeats_ = true;
  Status repeated = guarded([&]() -> Status {
    if (alone()) return run_apart(begin, end);
    if (begin != end) run_in_order(begin, end);
    return {};
  });
  repeats_ = false;
  return repeated;
}

Status ObjectExecutor::run(u64 end) {
  const InMethod in_method(parts_.state.size(), parts_.changes);
  if (parts_.log->is_among_processes()) end = end_of_known(end);
  if (owns_) end = end_of_turn(end);
  const bool helped = parts_.servers > 1 && parts_.execution->was_wanted();
  const bool in_order = alone() || owns_ || (!joins_ && !helped);
  for (u64 index = parts_.log->done(); index != end;) {
    const bool is_of_all = parts_.log->entry(index).domain == format::kDomainAll;
    const u64 next = in_order ? end : end_of_segment(index, end);
    if (alone()) PERDURA_TRY(run_apart(index, next));
    else if (is_of_all || in_order) run_in_order(index, next);
    else run_lists(index, next);
    index = next;
    parts_.log->note_done(index);
  }
  return {};
}

Status ObjectExecutor::run_one(u64 index, void* result) {
  const InMethod in_method(parts_.state.size(), parts_.changes);
  const ObjectEntry& entry = parts_.log->entry(index);
  if (alone()) {
    PERDURA_TRY(run_apart(index, result));
  } else {
    run_on_state(functions_[entry.function], parts_.log->context_of(index), result);
    count_alone({1, 1});
  }
  parts_.log->note_done(index + entry.lines);
  return {};
}

// Of entries that work on all of the object, or of such as work on domains. One whose context ends
// at the beginning of the circle is a segment of its own: it is read into memory that there is
// once.
u64 ObjectExecutor::end_of_segment(u64 index, u64 end) const {
  const ObjectLog& log = *parts_.log;
  const bool is_of_all = log.entry(index).domain == format::kDomainAll;
  if (!log.is_in_one_piece(index)) return index + log.entry(index).lines;
  while (index != end && log.is_in_one_piece(index) &&
         (log.entry(index).domain == format::kDomainAll) == is_of_all)
    index += log.entry(index).lines;
  return index;
}

// Calls in their order, of which there are some: `entry_at` says where the entry at a place from
// `begin` on is, and `next` which place follows. Those that follow a call may be done with it,
// where its method can be joined.
template <class EntryAt, class Next>
ObjectExecutor::Counts ObjectExecutor::run_calls(u64 begin, u64 end, const EntryAt& entry_at,
                                                 const Next& next) {
  u64 runs = 0;
  u64 calls = 0;
  alignas(kLineBytes) std::byte joined[kJoinedContextMax];
  for (u64 place = begin; place != end; ++runs) {
    const u64 index = entry_at(place);
    const ObjectEntry& entry = parts_.log->entry(index);
    const Function& function = functions_[entry.function];
    calls += entry.calls;
    place = next(place);
    const auto can_join = [&] {
      if (place == end) return false;
      const ObjectEntry& other = parts_.log->entry(entry_at(place));
      return other.function == entry.function && other.domain == entry.domain;
    };
    if (function.join == nullptr || !can_join()) {
      run_entry(index);
      continue;
    }
    std::memcpy(joined, parts_.log->context_of(index), entry.context_bytes);
    while (can_join() && function.join(joined, parts_.log->context_of(entry_at(place)))) {
      calls += parts_.log->entry(entry_at(place)).calls;
      place = next(place);
    }
    run_on_state(function, joined, nullptr);
  }
  return {calls, runs};
}

// Nobody helps meanwhile, so that these need not be additions that wait for others.
void ObjectExecutor::count_alone(Counts more) {
  calls_.store(calls() + more.calls, std::memory_order_relaxed);
  runs_.store(runs() + more.runs, std::memory_order_relaxed);
}

void ObjectExecutor::run_in_order(u64 begin, u64 end) {
  count_alone(run_calls(
      begin, end, [](u64 index) { return index; },
      [this](u64 index) { return index + parts_.log->entry(index).lines; }));
}

// Others do their lists at the same time.
void ObjectExecutor::run_list(const std::vector<u64>& entries) {
  const Counts done = run_calls(
      0, entries.size(), [&](u64 place) { return entries[place]; },
      [](u64 place) { return place + 1; });
  calls_.fetch_add(done.calls, std::memory_order_relaxed);
  runs_.fetch_add(done.runs, std::memory_order_relaxed);
}

// Where the answer to an entry goes; nullptr: nobody asks for it. Among processes it is told again
// if this one dies before it says that the call is done; there each entry's is set.
void* ObjectExecutor::take_result(u64 index) {
  const Waiter* const waiter = repeats_ ? nullptr : waiter_of(index);
  if (waiter == nullptr) return nullptr;
  if (!parts_.log->is_among_processes()) set_waiter(index, nullptr);
  return waiter->result == 0 ? nullptr : at(waiter->result);
}

void ObjectExecutor::run_entry(u64 index) {
  const ObjectEntry& entry = parts_.log->entry(index);
  run_on_state(functions_[entry.function], parts_.log->context_of(index), take_result(index));
}

// Where a history is kept each call has its answer apart, also if nobody waits for it.
Status ObjectExecutor::run_apart(u64 begin, u64 end) {
  for (u64 index = begin; index != end; index += parts_.log->entry(index).lines)
    PERDURA_TRY(run_apart(index, take_result(index)));
  return {};
}

Status ObjectExecutor::run_apart(u64 index, void* result) {
  const ObjectEntry& entry = parts_.log->entry(index);
  const Function& function = functions_[entry.function];
  const std::byte* const context = parts_.log->context_of(index);
  if (answer_.size() < function.result_bytes) answer_ = AlignedBuffer(function.result_bytes);
  PERDURA_TRY(run_verified(function, context));
  if (result != nullptr) std::memcpy(result, answer_.data(), function.result_bytes);
  if (parts_.history != nullptr) {
    parts_.history->note(entry.potid, entry.calls, answer_.first(function.result_bytes));
    parts_.changes->note(parts_.history->of(entry.potid), sizeof(format::ObjectCaller));
  }
  if (parts_.answers != nullptr)
    parts_.answers->insert(parts_.answers->end(), answer_.data(),
                           answer_.data() + function.result_bytes);
  count_alone({entry.calls, 1});
  return {};
}

std::string ObjectExecutor::text_of(const Function& function) const {
  return "method " + function.name + (parts_.name ? " of object '" + *parts_.name + "'" : "");
}

Status ObjectExecutor::run_verified(const Function& function, const std::byte* context) {
  if (parts_.verifies) {
    std::memcpy(twins_.twin.data(), parts_.state.data(), parts_.state.size());
    std::memcpy(twins_.before.data(), parts_.state.data(), parts_.state.size());
    if (twin_answer_.size() < function.result_bytes)
      twin_answer_ = AlignedBuffer(function.result_bytes);
    function.run(twins_.twin.data(), context, twin_answer_.data());
  }
  run_on_state(function, context, answer_.data());
  if (!parts_.verifies) return {};
  const bool answers_same =
      !function.answers_are_bytes ||
      std::memcmp(twin_answer_.data(), answer_.data(), function.result_bytes) == 0;
  if (answers_same &&
      std::memcmp(twins_.twin.data(), parts_.state.data(), parts_.state.size()) == 0)
    return check_reports(function);
  return Failure{Code::kMisuse,
                 text_of(function) +
                     " did something else when it was run again, or answered so, and the object "
                     "or what is kept of its answers would be another one after a crash; it must "
                     "depend on the state and its arguments alone"};
}

// What no method has reported a checkpoint would leave out. Where processes share the object
// nothing is left out.
Status ObjectExecutor::check_reports(const Function& function) const {
  if (!parts_.changes->are_kept() || !parts_.changes->are_known()) return {};
  const LineSet& reported = parts_.changes->lines();
  for (u64 at = 0; at < parts_.state.size(); at += kLineBytes) {
    const u64 bytes = std::min<u64>(parts_.state.size() - at, kLineBytes);
    if (std::memcmp(twins_.before.data() + at, parts_.state.data() + at, bytes) == 0) continue;
    const u64 line = at / kLineBytes;
    if ((reported.of_page(line / kLinesPerPage) >> line % kLinesPerPage & 1) != 0) continue;
    return Failure{Code::kMisuse,
                   text_of(function) + " changed the state at offset " + std::to_string(at) +
                       " and did not report it, so a checkpoint would leave it out; call "
                       "perdura::object_changed, or do not say kReports of the method"};
  }
  return {};
}

// The number of a domain's list in this segment; a new one where it has none.
u32 ObjectExecutor::list_of(std::int32_t domain) {
  KnownList& known = known_lists_[static_cast<u32>(domain) % kKnownLists];
  if (known.segment == segment_ && known.domain == domain) return known.list;
  const auto [found, is_new] = list_of_.try_emplace(domain, count_of_lists_);
  if (is_new) {
    if (++count_of_lists_ > lists_.size()) lists_.emplace_back();
    lists_[found->second].clear();
  }
  known = {segment_, domain, found->second};
  return found->second;
}

void ObjectExecutor::run_lists(u64 begin, u64 end) {
  ++segment_;
  list_of_.clear();
  count_of_lists_ = 0;
  u64 entries = 0;
  for (u64 index = begin; index != end; index += parts_.log->entry(index).lines, ++entries)
    lists_[list_of(parts_.log->entry(index).domain)].push_back(index);
  const u32 count = count_of_lists_;
  if (count == 1 || parts_.servers <= 1 || entries < kSharedEntriesMin) {
    for (u32 i = 0; i < count; ++i) run_list(lists_[i]);
  } else {
    crew_.share(count, std::min(parts_.servers, count) - 1, [this](u32 i) {
      const InMethod in_method(parts_.state.size(), parts_.changes);
      run_list(lists_[i]);
    });
  }
}

}  // namespace perdura::object
