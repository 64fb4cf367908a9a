#include "object/object_core.hpp"
#include "object/object_executing.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/threads.hpp"

namespace perdura::object {

using format::ObjectCaller;
using format::ObjectEntry;
using format::ObjectHead;

namespace {

constexpr u64 kAheadOfDone = 4;  // times what may wait, a thread defers no further

}  // namespace

constinit thread_local OwnEntry own_entry;

// --- calls --------------------------------------------------------------------------------------

// A forked child has its parent's objects in memory, not on the medium; and where another thread of
// the parent was executing nobody ever ends that.
Status ObjectCore::require_not_forked() const {
  if (!forked_since(generation_)) return {};
  return Failure{Code::kForked, "object '" + name_ +
                                    "' was opened by the parent process; open the objects again "
                                    "where that has closed them"};
}

// Set by whoever executes: where it holds before a round it holds until its end.
Status ObjectCore::require_usable() const {
  PERDURA_TRY(require_not_forked());
  if (stage_.load(std::memory_order_acquire) == Stage::kClosed)
    return Failure{Code::kMisuse, "object '" + name_ + "' is closed; open it again"};
  if (has_failed())
    return Failure{control_.failure.code,
                   "object '" + name_ +
                       "' has failed, and what was called since may be durable "
                       "or not; open the objects again. Why: " +
                       control_.failure.message};
  return {};
}

Result<u64> ObjectCore::bytes() const {
  PERDURA_TRY(require_usable());
  return newest().head.bytes;
}

const Function& ObjectCore::function_of(const Call& call) const {
  PERDURA_ASSERT(call.function < executor_.functions().size());
  return executor_.functions()[call.function];
}

// All that a call must be, where that takes no longer than to look at it.
inline bool ObjectCore::is_plain(const Call& call) const {
  PERDURA_ASSERT(call.function < traits_.size() &&
                 traits_[call.function].context_bytes == call.context.size());
  return traits_[call.function].is_plain && is_callable() && !InMethod::any();
}

Status ObjectCore::check_call(const Call& call) {
  const Function& function = function_of(call);
  if (InMethod::any())
    return Failure{Code::kMisuse,
                   "a method of an object, which whoever executes waits for, calls "
                   "one of object '" +
                       name_ + "'; call it when the method has returned"};
  PERDURA_TRY(require_usable());
  if (function.accepts != nullptr && !function.accepts(call.context.data()))
    return Failure{Code::kInvalidArgument, "method " + function.name + " of object '" + name_ +
                                               "' does not accept these arguments; its predicate "
                                               "says which it does"};
  if (history_ && !history_->admit(call.potid))
    return Failure{Code::kNoSpace, "object '" + name_ + "' has a history of " +
                                       std::to_string(head().callers) +
                                       " callers, and one more has come; make it with more"};
  return be_home();
}

// `index`: of the entry that is published. Its place in the order is that of execution.
[[gnu::always_inline]] inline Status ObjectCore::log_call(const Call& call, Waiter* waiter,
                                                          u64& index) {
  const bool plain = is_plain(call);
  if (peers_ != nullptr) [[unlikely]] {
    if (!plain) PERDURA_TRY(check_call(call));
    return log_among_processes(call, waiter, index);
  }
  const Turns::Turn turn = merges_ ? turns_.take(call.function, call.domain) : Turns::Turn{};
  if (plain) [[likely]]
    index = log_->claim(call.context.size());
  else PERDURA_TRY(claim_checked(call, index));
  if (!log_->has_room(index, call.context.size())) [[unlikely]]
    PERDURA_TRY(have_room(call, index));
  if (waiter != nullptr) executor_.set_waiter(index, waiter);
  const bool mergeable = traits_[call.function].commutes && log_->fits_in_one_piece(index, call);
  log_->publish(index, call, mergeable);
  note_logged(call, index, turn, mergeable);
  return {};
}

bool ObjectCore::merge_into_own(const Call& call) {
  OwnEntry& own = own_entry;
  if (own.core != id_ || own.function != call.function || own.domain != call.domain ||
      own.potid != call.potid || own.calls >= options_.pending_calls ||
      !turns_.is(own.turn, own.domain) || !is_plain(call))
    return false;
  const bool merged = log_->merge(own.index, [&](std::byte* context) {
    return function_of(call).join(context, call.context.data());
  });
  if (merged) ++own.calls;
  else own.core = 0;
  return merged;
}

// Where it was about to move out nothing was claimed. When it has, it is brought home; it may move
// out again before a place is claimed.
Status ObjectCore::have_room(const Call& call, u64& index) {
  while (ObjectLog::is_none(index)) {
    {
      const Executing until_moved(*this);
    }
    PERDURA_TRY(claim_checked(call, index));
  }
  if (log_->has_room(index, call.context.size())) return {};
  return make_room(index, call.context.size());
}

// Who has claimed a place waits for nobody who executes: that one may wait for what is to be
// published there (rounds_until), and makes room itself.
Status ObjectCore::make_room(u64 index, u64 context_bytes) {
  const auto is_over = [&] { return log_->has_room(index, context_bytes) || !is_usable(); };
  for (Execution::Wait wait(execution_); !is_over();) {
    PERDURA_TRY(require_not_forked());
    bool executed = false;
    bool left = false;
    if (const Executing executing(*this, std::try_to_lock); executing) {
      executed = true;
      PERDURA_TRY(or_left(round(), left));
      if (!left && !is_over() && log_->free_end() != log_->done() && is_between_groups())
        PERDURA_TRY(free_log());
    }
    if (executed && !left) {
      // A thread before this one may be about to publish what it has claimed.
      if (!is_over()) ::sched_yield();
    } else if (!executor_.crew().help()) {
      wait.pause_for_room([&] { return is_over() || executor_.crew().has_work(); });
    }
  }
  return require_usable();
}

// A place that was claimed and stays empty keeps all that follow from being executed. So where no
// room can be had that is the end, for those who wait for it and those who wait for them.
Status ObjectCore::free_log() {
  return or_fail([this] { return write_checkpoint(); });
}

// Before anybody can be told. All that processes share is as unsure as this object is.
Status ObjectCore::fail(Status why) {
  if (has_failed()) return why;
  control_.failure.set(why.failure());
  if (peers_ != nullptr) peers_->fail(why.failure());
  return why;
}

// Where another thread executes this one helps it; and where it is far ahead of that it waits, so
// that what is logged is in the caches still when it is done.
Status ObjectCore::relieve(u64 index) {
  for (Execution::Wait wait(execution_);;) {
    if (const Executing executing(*this, std::try_to_lock); executing) return or_logged(round());
    const auto is_near = [&] {
      return index - log_->done() < kAheadOfDone * options_.pending_lines || !is_usable();
    };
    if (executor_.crew().help() || is_near()) return {};
    wait.pause_for_room([&] { return is_near() || executor_.crew().has_work(); });
  }
}

Status ObjectCore::defer_new(const Call& call) {
  if (options_.servers == 0) return call_alone(call, nullptr, false);
  bool merged_enough = false;
  if (merges_ && traits_[call.function].commutes) {
    if (merge_into_own(call)) return {};
    merged_enough = own_entry.core == id_ && own_entry.calls >= options_.pending_calls;
  }
  u64 index = 0;
  PERDURA_TRY(log_call(call, nullptr, index));
  const u64 end = index + format::object_entry_lines(call.context.size());
  if (!merged_enough && end - log_->done() < options_.pending_lines) [[likely]]
    return {};
  return relieve(index);
}

// Where another thread has done it meanwhile it is answered, whatever came then. Where this fails
// there is no round any more that would answer to a waiter that has gone.
Status ObjectCore::call_new(const Call& call, void* result) {
  if (options_.servers == 0)
    return call_alone(call, result, options_.durability != Durability::kRelaxed);
  if (peers_ != nullptr) {
    if (!is_plain(call)) PERDURA_TRY(check_call(call));
    return call_among_processes(call, result);
  }
  Waiter waiter{executor_.place_of(result), function_of(call).own_thread ? ::pthread_self() : 0};
  u64 index = 0;
  PERDURA_TRY(log_call(call, &waiter, index));
  if (!is_nvm_) asked_.fetch_add(1, std::memory_order_relaxed);
  return until_done(index + 1, false);
}

// Each thread does its own: nothing is claimed by anybody else. It may be moved out again until
// this thread executes.
Status ObjectCore::call_alone(const Call& call, void* result, bool durable) {
  for (;;) {
    if (!is_plain(call)) [[unlikely]]
      PERDURA_TRY(check_call(call));
    const Executing executing(*this);
    if (!is_usable()) return require_usable();
    if (!is_away()) [[likely]]
      return call_executing(call, result, durable);
  }
}

Status ObjectCore::call_executing(const Call& call, void* result, bool durable) {
  PERDURA_TRY(mend());
  if (recording_) PERDURA_TRY(have_archive_room_alone(call.context.size()));
  const u64 index = log_->tail();
  while (!log_->has_room(index, call.context.size())) [[unlikely]]
    PERDURA_TRY(free_log());
  log_->publish(index, call);
  log_->claim_published(call.context.size());
  const u64 end = log_->tail();
  if (durable || is_due(end)) PERDURA_TRY(make_durable(index, end));
  PERDURA_TRY(or_fail([&] { return executor_.run_one(index, result); }));
  if (++calls_since_checkpoint_ >= options_.checkpoint_calls) (void)write_checkpoint();
  return {};
}

// Of calls that are done, or about to be, and may be lost.
bool ObjectCore::is_due(u64 end) const {
  return options_.durability == Durability::kEach ||
         (options_.durability != Durability::kRelaxed &&
          end - log_->durable() >= options_.pending_lines);
}

Status ObjectCore::read(const std::function<void(const void* state)>& look) {
  if (InMethod::any())
    return Failure{Code::kMisuse, "a method of an object reads object '" + name_ +
                                      "'; read it when the method has returned"};
  // What is seen is not lost, but of an object of which anything may be.
  return execute_alone(options_.durability != Durability::kRelaxed, [&]() -> Status {
    const InMethod in_method(head().bytes);
    look(image_.data());
    return {};
  });
}

Status ObjectCore::sync() {
  if (InMethod::any())
    return Failure{Code::kMisuse, "a method of an object waits for object '" + name_ +
                                      "'; do that when the method has returned"};
  PERDURA_TRY(require_usable());
  return until_done(log_->tail(), true);
}

Status ObjectCore::sync_soon() {
  PERDURA_TRY(require_usable());
  const u64 end = log_->tail();
  if (log_->done() >= end && log_->durable() >= end) return {};
  const Executing executing(*this, std::try_to_lock);
  if (!executing) return {};
  PERDURA_TRY(round());
  return log_->durable() < log_->done() ? flush() : Status{};
}

Result<u64> ObjectCore::checkpoint() {
  if (InMethod::any())
    return Failure{Code::kMisuse, "a method of an object checkpoints object '" + name_ +
                                      "'; do that when the method has returned"};
  u64 version = 0;
  PERDURA_TRY(execute_alone(false, [&]() -> Status {
    PERDURA_TRY(write_checkpoint());
    version = head().sequence;
    return {};
  }));
  return version;
}

// Both heads, before what they named is another one's.
Status ObjectCore::rename_functions(u64 place, u64 bytes, u64 checksum) {
  return execute_alone(true, [&]() -> Status {
    copies_.rename_functions(place, bytes, checksum);
    return or_fail([this] { return begin_session(); });
  });
}

Status ObjectCore::have_room_to_resize() {
  return execute_alone(true, [this] { return have_resize_room_alone(); });
}

Result<ObjectCaller> ObjectCore::caller(u32 potid) {
  if (!history_)
    return Failure{Code::kMisuse,
                   "object '" + name_ + "' keeps no history of its callers; make it with some"};
  ObjectCaller found{};
  found.potid = potid;
  PERDURA_TRY(read([&](const void*) {
    if (const ObjectCaller* const known = history_->of(potid); known != nullptr) found = *known;
  }));
  return found;
}

// Who calls meanwhile is before it or finds it closed; what is deferred meanwhile may be lost.
Status ObjectCore::close() {
  if (forked_since(generation_)) return {};
  const Result<u64> last = checkpoint();
  const Executing executing(*this);
  stage_.store(Stage::kClosed, std::memory_order_release);
  if (peers_ != nullptr) tell_functions(0);
  return last ? Status{} : copy_of(last.failure());
}

CoreCounts ObjectCore::counts() {
  const Executing executing(*this);
  CoreCounts counts = counts_;
  counts.executed = executor_.calls();
  counts.runs = executor_.runs();
  counts.copied_bytes = copies_.written_bytes();
  return counts;
}

ObjectHead ObjectCore::settled_head() { return settled_entry().head; }

ObjectTable::Entry ObjectCore::settled_entry() {
  const Executing executing(*this);
  return copies_.entry();
}

// --- whoever executes ---------------------------------------------------------------------------

// Until all entries before `end` are done, by this thread or another one, which it helps.
Status ObjectCore::until_done(u64 end, bool durable) {
  for (Execution::Wait wait(execution_, company_.awake_until()); !is_done(end, durable);) {
    bool left = false;
    if (const Executing executing(*this, std::try_to_lock); executing) {
      PERDURA_TRY(or_left(rounds_until(end, durable), left));
      if (!left) continue;
    }
    if (!executor_.crew().help())
      wait.pause([&] { return is_done(end, durable) || executor_.crew().has_work(); });
  }
  return {};
}

// An entry that is claimed and not published yet is about to be, or its thread waits for room,
// which a checkpoint gives. It returns before that where another thread has to go on.
Status ObjectCore::rounds_until(u64 end, bool durable) {
  PERDURA_TRY(mend());
  for (u64 spins = 0; log_->done() < end; ++spins) {
    const u64 before = log_->done();
    PERDURA_TRY(round());
    if (log_->done() < end && execution_.is_given()) return {};
    if (log_->done() != before) continue;
    if (log_->is_full() && log_->free_end() != before) PERDURA_TRY(free_log());
    if (spins < 1000) _mm_pause();
    else ::sched_yield();
  }
  return durable && log_->durable() < end ? flush() : Status{};
}

// What is published by now, and no more: nobody serves others for ever. Or the rest of a group, in
// which a call was another thread's: the next one comes when all of it is done, since checkpoints
// lie between groups.
Status ObjectCore::round() {
  if (!is_usable()) return require_usable();
  PERDURA_TRY(mend());
  const u64 begin = log_->done();
  const bool gathers = !is_nvm_ && options_.durability != Durability::kRelaxed;
  if (gathers && is_between_groups()) await_company();
  const u64 asked = asked_.load(std::memory_order_relaxed);
  ObjectLog::Published published = log_->published_from_done();
  if (published.end == log_->done()) return {};
  if (!is_between_groups()) {
    published.end = log_->durable();
  } else {
    log_->freeze(published);
    const auto began = gathers ? Company::Clock::now() : Company::Clock::time_point{};
    if (options_.durability != Durability::kRelaxed)
      PERDURA_TRY(make_durable(published.last, published.end));
    if (gathers) {
      company_.note_barrier(asked_.load(std::memory_order_relaxed) - taken_,
                            Company::Clock::now() - began);
      taken_ = asked;
    }
  }
  ++counts_.rounds;
  counts_.server_changes += std::exchange(server_, ::pthread_self()) != ::pthread_self();
  PERDURA_TRY(run(published.end));
  if (peers_ != nullptr && log_->done() == begin) return lacks(begin);
  // What was called has happened, and is durable, whether the checkpoint succeeds or not.
  if (calls_since_checkpoint_ >= options_.checkpoint_calls && is_between_groups())
    (void)write_checkpoint();
  return {};
}

// On a disk, for those who wait for answers.
void ObjectCore::await_company() {
  const auto has_come = [&] {
    return company_.has_come(asked_.load(std::memory_order_relaxed) - taken_);
  };
  if (has_come()) return;
  const auto end = Company::Clock::now() + Company::kWait;
  while (!has_come() && Company::Clock::now() < end) ::sched_yield();
}

Status ObjectCore::run(u64 end) {
  const u64 before = executor_.calls();
  PERDURA_TRY(or_fail([&] { return executor_.run(end); }));
  calls_since_checkpoint_ += executor_.calls() - before;
  if (log_->done() != end) execution_.give_turn(executor_.anothers(log_->done()));
  return {};
}

// Calls of the system are where a thread can be cancelled. NVM takes none; and what lets nobody
// cancel waits for all stores to it.
std::optional<NotCancelled> ObjectCore::in_system_calls() const {
  if (is_nvm_) return std::nullopt;
  return std::optional<NotCancelled>(std::in_place);
}

// A group that could not be written may be durable or not, so nothing is executed behind it.
Status ObjectCore::make_durable(u64 last, u64 end) {
  const std::optional<NotCancelled> not_cancelled = in_system_calls();
  return or_fail([&]() -> Status {
    if (peers_ != nullptr) PERDURA_TRY(peers_->require_sound());
    if (options_.durability == Durability::kTwoSteps)
      return log_->make_durable_in_two_steps(last, end);
    if (options_.durability != Durability::kEach) return log_->make_durable(last, end);
    while (log_->durable() != end) {
      const u64 index = log_->durable();
      PERDURA_TRY(log_->make_durable(index, index + log_->entry(index).lines));
    }
    return {};
  });
}

// What was done and is not durable yet. A group ends where a head may begin that failed: if it is
// found, recovery goes on from there.
Status ObjectCore::flush() {
  for (const u64 end : {std::min(control_.unclear_checkpoint, log_->done()), log_->done()}) {
    if (log_->durable() >= end) continue;
    u64 last = log_->durable();
    for (u64 next = last; next != end; next += log_->entry(next).lines) last = next;
    PERDURA_TRY(make_durable(last, end));
  }
  return {};
}

// The log keeps what the other copy lacks, where it has that. The copy in an overflow store lacks
// nothing.
Status ObjectCore::write_checkpoint() {
  if (is_away()) return {};
  const std::optional<NotCancelled> not_cancelled = in_system_calls();
  const u64 done = log_->done();
  PERDURA_ASSERT(is_between_groups());
  const u64 before = copies_.head().checkpoint;
  const bool is_in_log = log_->durable() >= done;
  PERDURA_TRY(guarded([&]() -> Status {
    if (peers_ != nullptr) {
      PERDURA_TRY(peers_->require_sound());
      // What others have run is known to nobody here, nor what they wrote in vain.
      changes_.note_all();
      copies_.forget_written();
    }
    if (recording_) PERDURA_TRY(archive(done));
    if (!is_in_log) {
      PERDURA_TRY(copies_.clear_next_head());  // there is one unclear head at most
      control_.unclear_checkpoint = done;
    }
    PERDURA_TRY(copies_.write(image_, changes_, done, session_));
    if (recording_) note_archived();
    if (is_in_log) return {};
    log_->note_covered(done);
    return copies_.repeat_head();
  }));
  changes_.clear();
  log_->note_checkpoint(is_in_log ? before : done, done);
  note_wear();
  execution_.notify_room();
  calls_since_checkpoint_ = 0;
  ++counts_.checkpoints;
  return {};
}

}  // namespace perdura::object
