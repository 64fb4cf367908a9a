// What an object's core does where several processes have it: calls that wait for one another's
// executors, and what one that died has left.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "object/object_build.hpp"
#include "object/object_core.hpp"
#include "object/object_executing.hpp"

namespace perdura::object {

using format::ObjectEntry;

// What the first of the processes chose is written in the memory, and is not to be mixed.
Status ObjectCore::check_choices() const {
  const auto refused = [this](const std::string& what) {
    return Failure{Code::kInvalidArgument, "object '" + name_ + "' is open in other processes " +
                                               what + ": open it so, or close it there first"};
  };
  if (control_.durability != static_cast<u8>(options_.durability))
    return refused("with another durability (number " + std::to_string(control_.durability) + ")");
  if (control_.each_its_own != (options_.servers == 0))
    return refused(control_.each_its_own ? "with no servers" : "with servers");
  if (control_.same_build != options_.same_build)
    return refused(control_.same_build ? "with same_build" : "without same_build");
  for (const Function& each : executor_.functions())
    if (each.result_bytes > control_.answer_bytes)
      return refused("with room for answers of " + std::to_string(control_.answer_bytes) +
                     " bytes, and method " + each.name + " answers with " +
                     std::to_string(each.result_bytes));
  return {};
}

// Those who chose have died: what they have left is done as they chose, and then another one does.
// Where this program cannot do it, it waits as it is.
Status ObjectCore::choose_anew() {
  if (options_.same_build && !is_same(control_.head.build, build_)) return join_build();
  const Executing executing(*this);
  PERDURA_TRY(require_usable());
  if (Status done = rounds_until(log_->tail(), true); !done)
    return done.failure().code == Code::kIncompatible ? Status{} : std::move(done);
  control_.durability = static_cast<u8>(options_.durability);
  control_.each_its_own = options_.servers == 0;
  control_.same_build = options_.same_build;
  return {};
}

// Whoever opens it after all of them have died is told that entries may be of either build: both
// heads say so before this process logs any.
Status ObjectCore::join_build() {
  const format::ObjectBuild found = control_.head.build;
  if (is_same(found, build_) || (!is_known(found) && !options_.same_build)) return {};
  if (options_.same_build)
    return Failure{Code::kIncompatible,
                   "object '" + name_ + "' is open in " + build_text(found) +
                       ", and this program is " + build_text(build_) +
                       ": close it there first; or open it without same_build everywhere, if the "
                       "methods do the same"};
  const Executing executing(*this);
  PERDURA_TRY(require_usable());
  return or_fail([this]() -> Status {
    PERDURA_TRY(peers_->require_sound());
    copies_.set_build(several_builds());
    PERDURA_TRY(copies_.repeat_head());
    return copies_.repeat_head();
  });
}

// `life`: of this process; 0: it has them no more.
void ObjectCore::tell_functions(u64 life) {
  KnownFunctions& known = control_.known[peers_->self()];
  known.life.store(0, std::memory_order_relaxed);
  if (life == 0) return;
  const std::vector<Function>& functions = executor_.functions();
  PERDURA_ASSERT(functions.size() <= kSharedFunctionsMax);
  for (std::atomic<u64>& word : known.has) word.store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i].run != nullptr) known.has[i / 64].fetch_or(u64{1} << i % 64);
  known.life.store(life, std::memory_order_release);
}

bool ObjectCore::somebody_has(u32 function) const {
  if (function >= kSharedFunctionsMax) return false;
  return std::ranges::any_of(control_.known, [&](const KnownFunctions& each) {
    const u64 life = each.life.load(std::memory_order_acquire);
    return life != 0 && life != peers_->life() &&
           (each.has[function / 64].load(std::memory_order_relaxed) >> function % 64 & 1) != 0 &&
           peers_->lives(life);
  });
}

// Of whoever executes: this process does not have what the entry at `index` calls.
Failure ObjectCore::lacks(u64 index) {
  const u16 number = log_->entry(index).function;
  lacked_.store(number + 1U, std::memory_order_relaxed);
  u64 entries = 0;
  const u64 end = log_->published_from_done().end;
  for (u64 at = index; at < end; at += log_->entry(at).lines)
    entries += log_->entry(at).function == number ? 1 : 0;
  return {Code::kIncompatible,
          "the log of object '" + name_ + "' calls function " + name_of(number) + " in " +
              std::to_string(entries) + (entries == 1 ? " entry" : " entries") +
              ", which no process has that has the object open now; what was called behind "
              "it is logged, and runs when a program that has the function opens the object: " +
              remedy_by(formerly_of(number))};
}

// `left`: it is another process's to do, which is told.
Status ObjectCore::or_left(Status done, bool& left) {
  if (done || peers_ == nullptr || done.failure().code != Code::kIncompatible) return done;
  const u32 lacked = lacked_.load(std::memory_order_relaxed);
  if (lacked == 0 || !somebody_has(lacked - 1)) return done;
  left = true;
  peers_->call_all();
  return {};
}

// Of a call that nobody waits for: it is done when somebody can.
Status ObjectCore::or_logged(Status done) {
  bool left = false;
  Status told = or_left(std::move(done), left);
  return !told && peers_ != nullptr && told.failure().code == Code::kIncompatible ? Status{}
                                                                                  : std::move(told);
}

// --- calls --------------------------------------------------------------------------------------

// Whoever dies in here has called nothing: the place is the next one's.
Status ObjectCore::log_among_processes(const Call& call, Waiter* waiter, u64& index) {
  for (;;) {
    {
      const ObjectLog::Claiming claiming(*log_);
      index = log_->tail();
      if (log_->has_room(index, call.context.size())) {
        const Turns::Turn turn = turns_.take(call.function, call.domain);
        executor_.set_waiter(index, waiter);
        if (waiter != nullptr) waiter->index.store(index, std::memory_order_relaxed);
        const bool mergeable =
            traits_[call.function].commutes && log_->fits_in_one_piece(index, call);
        log_->publish(index, call, mergeable);
        log_->claim_published(call.context.size());
        note_logged(call, index, turn, mergeable);
        return {};
      }
    }
    PERDURA_TRY(make_room(index, call.context.size()));
  }
}

Status ObjectCore::call_among_processes(const Call& call, void* result) {
  WaiterSlot& slot = take_slot();
  const auto let_go = [&] { slot.owner.store(0, std::memory_order_release); };
  slot.waiter.result = result == nullptr ? 0 : executor_.place_of(ObjectMemory::answer_of(slot));
  u64 index = 0;
  if (Status logged = log_among_processes(call, &slot.waiter, index); !logged) {
    let_go();
    return logged;
  }
  if (Status done = until_done(index + 1, false); !done) {
    slot.is_left.store(true, std::memory_order_release);
    return done;
  }
  if (result != nullptr)
    std::memcpy(result, ObjectMemory::answer_of(slot), function_of(call).result_bytes);
  let_go();
  return {};
}

// There are more of them than threads that wait at once, if not: they wait for one another.
WaiterSlot& ObjectCore::take_slot() {
  // A thread goes on where it was, each process from another one on.
  static constinit thread_local u64 passed = 0;
  const u64 first = peers_->self() * (kWaiterSlots / kProcessesMax);
  for (Execution::Wait wait(execution_);;) {
    for (u64 i = 0; i < kWaiterSlots; ++i) {
      const u64 number = (first + passed + i) % kWaiterSlots;
      WaiterSlot& slot = memory_.slot(number);
      u64 nobody = 0;
      if (slot.owner.load(std::memory_order_relaxed) != 0 ||
          !slot.owner.compare_exchange_strong(nobody, peers_->life()))
        continue;
      passed = (passed + i) % kWaiterSlots;
      slot.is_left.store(false, std::memory_order_relaxed);
      slot.waiter.index.store(0, std::memory_order_relaxed);
      return slot;
    }
    take_back_slots();
    wait.pause([] { return false; });
  }
}

// Those of processes that died, and of threads that gave up, once nobody stores an answer there.
void ObjectCore::take_back_slots() {
  const ObjectLog::Claiming one_at_a_time(*log_);
  for (u64 number = 0; number < kWaiterSlots; ++number) {
    WaiterSlot& slot = memory_.slot(number);
    const u64 owner = slot.owner.load(std::memory_order_acquire);
    if (owner == 0 || slot.waiter.index.load(std::memory_order_relaxed) >= log_->done()) continue;
    if (slot.is_left.load(std::memory_order_acquire) || !peers_->lives(owner))
      slot.owner.store(0, std::memory_order_release);
  }
}

// --- the executor that died ---------------------------------------------------------------------

// What is done already, or durable, and so about to be. Where each thread runs its own calls that
// of the dead one comes before those that follow, whoever runs it.
u64 ObjectCore::end_of_broken() const {
  return control_.each_its_own ? log_->tail() : std::max(log_->done(), log_->durable());
}

// Of whoever executes next. What the dead one was writing to the medium was no answer yet: the
// group is written again. A thread ends after its calls of the system, so none of its writes is
// still to come. Its methods may have changed the state in part.
Status ObjectCore::mend() {
  if (!execution_.is_broken()) [[likely]]
    return {};
  log_->mend();
  for (u64 index = head().checkpoint; index != end_of_broken(); index += log_->entry(index).lines)
    if (!executor_.knows(index)) return lacks(index);
  if (Status again = guarded([this] { return do_again(); }); !again) return fail(std::move(again));
  execution_.note_mended();
  execution_.notify();
  return {};
}

// All that was done when it died, for nobody; and what is durable beyond that, for those who wait.
// Where its head names a checkpoint that the log on the medium does not reach, another one comes
// first: what is logged from there on would begin in the middle of a group.
Status ObjectCore::do_again() {
  const std::optional<NotCancelled> not_cancelled = in_system_calls();
  AlignedBuffer copy(memory_.pages().size());
  PERDURA_TRY(copies_.load(copy.span()));
  std::memcpy(memory_.pages().data(), copy.data(), copy.size());
  PERDURA_TRY(executor_.repeat(head().checkpoint, log_->done()));
  PERDURA_TRY(executor_.run(end_of_broken()));
  return head().checkpoint > log_->durable() ? write_checkpoint() : Status{};
}

}  // namespace perdura::object
