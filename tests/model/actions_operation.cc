// Steps in operations.
#include "live.hpp"

namespace perdura::model {
namespace {

void do_steps(LaneRun& run, const Operation& operation, const Action& action, const Plan& plan) {
  Journal& journal = run.live.journal;
  run.live.library([&] { operation.touch(&run.lane->operation, sizeof run.lane->operation); });
  run.lane->operation = action.id;
  for (const Planned& planned : plan.kept) {
    try {
      if (!planned.changes.empty()) step_kind(planned.step->kind).operate(run, operation, planned);
    } catch (const std::exception& thrown) {
      // What a step began with has changed nothing; those behind it are left out.
      const auto* const error = dynamic_cast<const Error*>(&thrown);
      if (!run.live.is_starvation(thrown)) {
        if (error == nullptr || (error->code() != Code::kNoSpace && !run.live.expected(*error)))
          throw;
        journal.use(Feature::kFull);
      }
      journal.progress[action.id] = Progress::kCut;
      return;
    }
    ++journal.steps[action.id];
  }
}

void operate(Live& live, LaneRun& run, const Action& action) {
  const Plan planned = plan(live.program, run.model, action);
  live.journal.use(Feature::kOperation);
  {
    const auto operation = live.library([&] { return live.store->operation(); });
    if (action.number % 4 == 1) {
      live.journal.use(Feature::kNestedOperation);
      const auto inner = live.store->operation();
      do_steps(run, inner, action, planned);
    } else {
      do_steps(run, operation, action, planned);
    }
  }
  apply(run.model, action, planned, live.journal.steps[action.id]);
  live.journal.done[run.number].operation = action.id;
}

const ActionRegistration kOperate({
    .name = "operate",
    .weight = 10,
    .has_steps = true,
    .run = operate,
});

}  // namespace
}  // namespace perdura::model
