#include "object/object_core.hpp"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/threads.hpp"

namespace perdura::object {

using format::ObjectEntry;

ObjectCore::ObjectCore(Parts&& parts, std::unique_ptr<ObjectLog> log)
    : functions_(std::move(parts.functions)),
      options_(parts.options),
      session_(parts.session),
      copies_(*parts.medium, parts.head_place, parts.head),
      log_(std::move(log)),
      waiters_(parts.head.log_lines) {}

Result<std::unique_ptr<ObjectCore>> ObjectCore::make(Parts&& parts) {
  const LogPlace place{parts.head.log_place, parts.head.log_lines, parts.head.identity,
                       parts.session};
  PERDURA_ASSIGN(auto log, ObjectLog::create(*parts.medium, place, parts.head.checkpoint));
  const u64 bytes = parts.head.bytes;
  std::unique_ptr<ObjectCore> core(new ObjectCore(std::move(parts), std::move(log)));
  core->have_memory(bytes);
  return core;
}

Result<std::unique_ptr<ObjectCore>> ObjectCore::create(Parts parts,
                                                       std::span<const std::byte> state) {
  parts.head.bytes = state.size();
  parts.head.checkpoint = ObjectLog::kFirstIndex;
  parts.head.copy = 1;  // the first one is the other
  PERDURA_ASSIGN(auto core, make(std::move(parts)));
  std::memcpy(core->state_.data(), state.data(), state.size());
  PERDURA_TRY(core->begin_session());
  return core;
}

Result<std::unique_ptr<ObjectCore>> ObjectCore::recover(Parts parts) {
  const u64 session = parts.head.session;
  PERDURA_ASSERT(parts.session != session);
  PERDURA_ASSIGN(auto core, make(std::move(parts)));
  PERDURA_TRY(core->copies_.load(core->memory_.span()));
  PERDURA_TRY(core->log_->recover(session));
  PERDURA_TRY(core->repeat());
  return core;
}

void ObjectCore::have_memory(u64 bytes) {
  memory_ = AlignedBuffer(std::max<u64>(bytes, 1));
  state_ = memory_.first(bytes);
}

// What the resilient copy lacks. A checkpoint of it comes before this session appends: its entries
// are told from those of earlier ones by the head's session.
Status ObjectCore::repeat() {
  for (u64 index = log_->done(); index != log_->tail(); index += log_->entry(index).lines)
    PERDURA_TRY(check_known(log_->entry(index)));
  execute(log_->tail());
  return begin_session();
}

// Both slots name the session before anything is appended: where the newer head is damaged later,
// the older one leads to the same entries, or to a gap before them.
Status ObjectCore::begin_session() {
  PERDURA_TRY(write_checkpoint());
  return write_checkpoint();
}

Status ObjectCore::check_known(const ObjectEntry& entry) const {
  const bool is_named = entry.function < functions_.size();
  if (is_named && functions_[entry.function].run != nullptr &&
      functions_[entry.function].context_bytes == entry.context_bytes)
    return {};
  const std::string name = is_named ? "'" + functions_[entry.function].name + "'"
                                    : "number " + std::to_string(entry.function);
  return Failure{Code::kIncompatible,
                 "the log of object '" + std::string(head().name) + "' calls function " + name +
                     " with " + std::to_string(entry.context_bytes) +
                     " bytes of arguments, which this program does not have; open it with the "
                     "program that wrote it, or one that has the function"};
}

// --- calls --------------------------------------------------------------------------------------

// A forked child has its parent's objects in memory, not on the medium; and a lock that another
// thread of the parent held is held there for ever.
Status ObjectCore::require_not_forked() const {
  if (!forked_since(generation_)) return {};
  return Failure{Code::kForked, "object '" + std::string(head().name) +
                                    "' was opened by the parent process; open the objects again "
                                    "where that has closed them"};
}

// Both are set by whoever executes: where it holds before a round it holds until its end.
Status ObjectCore::require_usable() const {
  PERDURA_TRY(require_not_forked());
  if (closed_.load(std::memory_order_acquire))
    return Failure{Code::kMisuse, "object '" + std::string(head().name) + "' is closed"};
  if (failed_.load(std::memory_order_acquire))
    return Failure{Code::kIo, "the log of object '" + std::string(head().name) +
                                  "' could not be written, so what was called since may be durable "
                                  "or not; open the objects again"};
  return {};
}

// Of the entry that is published: its place in the order is that of execution.
Result<u64> ObjectCore::log_call(const Call& call, Waiter* waiter) {
  PERDURA_ASSERT(call.function < functions_.size() &&
                 functions_[call.function].context_bytes == call.context.size());
  PERDURA_TRY(require_usable());
  const u64 index = log_->claim(call.context.size());
  while (!log_->has_room(index, call.context.size())) PERDURA_TRY(make_room());
  waiter_of(index) = waiter;
  log_->publish(index, call);
  return index;
}

template <class Body>
Status ObjectCore::execute_alone(Body&& body) {
  const NotCancelled not_cancelled;
  PERDURA_TRY(require_not_forked());
  const std::lock_guard lock(executing_);
  return body();
}

// Who has claimed a place waits for nobody who executes: that one may wait for what is to be
// published there (rounds_until), and makes room itself.
Status ObjectCore::make_room() {
  const NotCancelled not_cancelled;
  PERDURA_TRY(require_usable());
  const std::unique_lock lock(executing_, std::try_to_lock);
  if (lock) {
    PERDURA_TRY(round());
    if (log_->checkpoint() != log_->done()) return free_log();
  }
  ::sched_yield();  // a thread before this one is about to publish what it has claimed
  return {};
}

// A place that was claimed and stays empty keeps all that follow from being executed. So where no
// room can be had that is the end, for those who wait for it and those who wait for them.
Status ObjectCore::free_log() {
  Status written = write_checkpoint();
  if (!written) failed_.store(true, std::memory_order_release);
  return written;
}

Status ObjectCore::defer(const Call& call) {
  PERDURA_TRY(log_call(call, nullptr));
  if (log_->tail() - log_->done() < options_.pending_lines) return {};
  return execute_alone([this] { return round(); });
}

// Where another thread has done it meanwhile it is answered, whatever came then. Where this fails
// there is no round any more that would answer to a waiter that has gone.
Status ObjectCore::call(const Call& call, void* result) {
  Waiter waiter{result};
  PERDURA_ASSIGN(const u64 index, log_call(call, &waiter));
  return execute_alone([&] { return rounds_until(index + 1); });
}

Status ObjectCore::read(const std::function<void(const void* state)>& look) {
  const u64 end = log_->tail();
  return execute_alone([&]() -> Status {
    PERDURA_TRY(require_usable());
    PERDURA_TRY(rounds_until(end));
    look(state_.data());
    return {};
  });
}

Status ObjectCore::sync() {
  const u64 end = log_->tail();
  return execute_alone([&]() -> Status {
    PERDURA_TRY(require_usable());
    return rounds_until(end);
  });
}

Status ObjectCore::checkpoint() {
  const u64 end = log_->tail();
  return execute_alone([&]() -> Status {
    PERDURA_TRY(require_usable());
    PERDURA_TRY(rounds_until(end));
    return write_checkpoint();
  });
}

// Who calls meanwhile is before it or finds it closed; what is deferred meanwhile may be lost.
Status ObjectCore::close() {
  if (forked_since(generation_)) return {};
  Status last = checkpoint();
  const std::lock_guard lock(executing_);
  closed_.store(true, std::memory_order_release);
  return last;
}

CoreCounts ObjectCore::counts() const {
  const std::lock_guard lock(executing_);
  return counts_;
}

format::ObjectHead ObjectCore::settled_head() const {
  const std::lock_guard lock(executing_);
  return head();
}

// --- whoever executes ---------------------------------------------------------------------------

// Until all entries before `end` are done. One that is claimed and not published yet is about to
// be, or its thread waits for room, which a checkpoint gives.
Status ObjectCore::rounds_until(u64 end) {
  for (u64 spins = 0; log_->done() < end; ++spins) {
    const u64 before = log_->done();
    PERDURA_TRY(round());
    if (log_->done() != before) continue;
    if (log_->is_full() && log_->checkpoint() != before) PERDURA_TRY(free_log());
    if (spins < 1000) _mm_pause();
    else ::sched_yield();
  }
  return {};
}

// What is published by now, and no more: nobody serves others for ever.
Status ObjectCore::round() {
  PERDURA_TRY(require_usable());
  const u64 end = log_->published_end();
  if (end == log_->done()) return {};
  u64 last = log_->done();
  for (u64 next = last; next != end; next += log_->entry(next).lines) last = next;
  if (Status durable = log_->make_durable(last, end); !durable) {
    failed_.store(true, std::memory_order_release);
    return durable;
  }
  ++counts_.rounds;
  execute(end);
  // What was called has happened, and is durable, whether the checkpoint succeeds or not.
  if (calls_since_checkpoint_ >= options_.checkpoint_calls) (void)write_checkpoint();
  return {};
}

void ObjectCore::execute(u64 end) {
  for (u64 index = log_->done(); index != end;) {
    const ObjectEntry& entry = log_->entry(index);
    const u64 next = index + entry.lines;
    Waiter* const waiter = std::exchange(waiter_of(index), nullptr);
    functions_[entry.function].run(state_.data(), log_->context_of(index),
                                   waiter != nullptr ? waiter->result : nullptr);
    ++calls_since_checkpoint_;
    ++counts_.executed;
    index = next;
    log_->note_done(index);
  }
}

Status ObjectCore::write_checkpoint() {
  const u64 done = log_->done();
  if (Status written = copies_.write(state_, done, session_); !written) return written;
  log_->note_checkpoint(done);
  calls_since_checkpoint_ = 0;
  ++counts_.checkpoints;
  return {};
}

}  // namespace perdura::object
