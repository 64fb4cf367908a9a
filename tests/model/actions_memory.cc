// Memory that is refused for a while: the library's calls fail with kNoMemory, or do what they
// should, nothing is lost, and the program goes on when there is some again.
#include <unistd.h>

#include <cerrno>

#include "live.hpp"

namespace perdura::model {
namespace {

bool may_starve(const Program&, const Session& session) { return !session.parallel; }

/// While it lives the library gets no memory, address space or thread: not once, or not any more.
class Starvation {
 public:
  Starvation(Live& live, u64 number) : live_(live) {
    using test::Call;
    constexpr Call kCalls[] = {Call::kAllocate, Call::kAllocate, Call::kAllocate,
                               Call::kMap,      Call::kRemap,    Call::kThread};
    fault_.call = kCalls[number % std::size(kCalls)];
    fault_.nth = 1 + number / 8 % (number / 4 % 2 == 0 ? 4 : 60);
    fault_.error = fault_.call == Call::kThread ? EAGAIN : ENOMEM;
    // A part of the region that gets no memory for so long ends the program.
    fault_.for_ever = number / 512 % 2 == 0 && !live.session.options.lazy_recovery;
    live.is_starved = live.was_starved = true;
    for (Live::Pending& pending : live.pending) pending.was_starved = true;
    starve_softpm(live.journal);
    test::arm_calls(&fault_);
  }
  ~Starvation() {
    test::disarm_calls();
    live_.is_starved = false;
    live_.journal.use(Feature::kMemoryLimit);
  }
  Starvation(const Starvation&) = delete;

 private:
  Live& live_;
  test::CallFault fault_;
};

/// Another action without memory. Returns whether it was done.
bool run_starved(Live& live, LaneRun& run, const Action& action, const char* kind) {
  const Starvation starvation(live, action.number / 8);
  try {
    action_kind(kind).run(live, run, action);
    return true;
  } catch (const std::exception& thrown) {
    if (!live.is_starvation(thrown)) throw;
    ++live.journal.failed_calls;
    return false;
  }
}

const ActionRegistration kCheckpointStarved({
    .name = "checkpoint_without_memory",
    .weight = 1,
    .possible = may_starve,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          run_starved(live, run, action, "checkpoint");
          action_kind("checkpoint").run(live, run, action);
          live.journal.use(Feature::kMemoryLimit);
        },
    .covers = true,
});

/// Containers and another region, which are opened and take points without memory.
const ActionRegistration kPartsStarved({
    .name = "parts_without_memory",
    .weight = 0.7,
    .possible =
        [](const Program& program, const Session& session) {
          return may_starve(program, session) && has_regions(program, session);
        },
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          constexpr const char* kKinds[] = {"container", "shared", "region_from_c", "softpm"};
          const u64 kinds = std::size(kKinds) - (live.program.own ? 0 : 1);
          const char* const kind = kKinds[action.number % kinds];
          Action inner = action;
          inner.number = test::mix(action.number);
          run_starved(live, run, inner, kind);
          action_kind(kind).run(live, run, inner);
        },
});

const ActionRegistration kOperateStarved({
    .name = "operate_without_memory",
    .weight = 1.5,
    .has_steps = true,
    .possible = may_starve,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          if (run_starved(live, run, action, "operate")) return;
          require(run.lane->operation == run.model.operation,
                  "an operation without memory threw after it had begun");
          live.journal.progress[action.id] = Progress::kFailed;
        },
});

const ActionRegistration kTransactStarved({
    .name = "transact_without_memory",
    .weight = 1.5,
    .has_steps = true,
    .domain = Domain::kTransaction,
    .possible =
        [](const Program& program, const Session& session) {
          return may_starve(program, session) && program.transactions();
        },
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          // What cannot say that it has not happened may have.
          if (!run_starved(live, run, action, "transact")) ::_exit(0);
        },
});

}  // namespace
}  // namespace perdura::model
