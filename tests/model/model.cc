#include "model.hpp"

#include "journal.hpp"
#include "live.hpp"

namespace perdura::model {

void LaneModel::apply(const Change& change, Domain domain, u64 id) {
  cells[change.cell] = change.after;
  if (domain == Domain::kOperation) stored_by[change.cell] = id;
}

namespace {

/// Steps mean what they find after those before them.
std::vector<Planned> plan_steps(const Program& program, LaneModel model, const Action& action,
                                Domain domain, size_t begin, size_t end) {
  std::vector<Planned> planned;
  for (size_t i = begin; i < end; ++i) {
    Planned one{&action.steps[i]};
    step_kind(one.step->kind).plan(program, model, *one.step, domain, action.id, one.changes);
    for (const Change& change : one.changes) model.apply(change, domain, action.id);
    planned.push_back(std::move(one));
  }
  return planned;
}

}  // namespace

Plan plan(const Program& program, const LaneModel& model, const Action& action) {
  const ActionKind& kind = action_kind(action.kind);
  if (!kind.has_steps) return {};
  const size_t count = action.steps.size();
  // Actions of these kinds undo their first half; see actions_transaction.cc.
  if (action.kind == "transact_in_vain")
    return {plan_steps(program, model, action, kind.domain, 0, count), {}};
  if (action.kind == "transact_or_else")
    return {plan_steps(program, model, action, kind.domain, 0, count / 2),
            plan_steps(program, model, action, kind.domain, count / 2, count)};
  return {{}, plan_steps(program, model, action, kind.domain, 0, count)};
}

void apply(LaneModel& model, const Action& action, const Plan& plan, u64 count) {
  const Domain domain = action_kind(action.kind).domain;
  if (action.kind == "transact_in_vain") return;
  for (u64 i = 0; i < std::min<u64>(count, plan.kept.size()); ++i)
    for (const Change& change : plan.kept[i].changes) model.apply(change, domain, action.id);
  if (domain == Domain::kOperation) model.operation = action.id;
  else model.transaction = action.id;
}

namespace {

/// A lane from one opening to the next: what the session did, and then what the next one found.
class LaneReplay {
 public:
  LaneReplay(const Program& program, const Journal& journal, u64 lane)
      : program_(program), journal_(journal), lane_(lane) {}

  void run(const Action& action) {
    const ActionKind& kind = action_kind(action.kind);
    const Progress progress = journal_.progress[action.id];
    if (progress == Progress::kNone || progress == Progress::kFailed) return;
    if (!kind.has_steps) {
      if (kind.covers && progress == Progress::kDone) now_.covered = now_.operation;
      return;
    }
    const Plan planned = plan(program_, now_, action);
    const u64 count =
        progress == Progress::kBegun ? planned.kept.size() : journal_.steps[action.id].load();
    done_.push_back({&action, planned, count});
    apply(now_, action, planned, count);
  }

  /// The next session found that the lane had come so far.
  std::string find(const Reached& reached) {
    LaneModel model = begun_;
    for (const Done& done : done_) {
      const bool operation = action_kind(done.action->kind).domain == Domain::kOperation;
      if (done.action->id > (operation ? reached.operation : reached.transaction)) continue;
      LaneModel after = model;
      for (u64 i = 0; i < std::min<u64>(done.count, done.plan.kept.size()); ++i)
        for (const Change& change : done.plan.kept[i].changes) {
          if (!(after.cells[change.cell] == change.before))
            return name() + "action " + std::to_string(done.action->id) +
                   " is there, and one before it that it builds on is lost";
          after.cells[change.cell] = change.after;
        }
      apply(model, *done.action, done.plan, done.count);
    }
    if (model.operation != reached.operation || model.transaction != reached.transaction)
      return name() + "it says it came to operation " + std::to_string(reached.operation) +
             " and transaction " + std::to_string(reached.transaction) + "; possible are " +
             std::to_string(model.operation) + " and " + std::to_string(model.transaction);
    model.covered = model.operation;
    model.stored_by.fill(0);
    begun_ = now_ = model;
    done_.clear();
    return {};
  }

  const LaneModel& model() const { return now_; }

 private:
  struct Done {
    const Action* action;
    Plan plan;
    u64 count;
  };
  std::string name() const { return "lane " + std::to_string(lane_) + ": "; }

  const Program& program_;
  const Journal& journal_;
  const u64 lane_;
  LaneModel begun_;
  LaneModel now_;
  std::vector<Done> done_;
};

}  // namespace

Replayed replay(const Program& program, const Journal& journal, size_t session) {
  Replayed replayed;
  for (u64 lane = 0; lane < kLanes; ++lane) {
    LaneReplay replay(program, journal, lane);
    for (size_t i = 0; i <= session; ++i) {
      if (journal.sessions[i].opened) {
        const auto& found = journal.sessions[i].found[lane];
        replayed.problem = replay.find({found.operation, found.transaction});
        if (!replayed.problem.empty()) return replayed;
      }
      if (i == session) break;
      for (const Action& action : program.sessions[i].actions)
        if (action.lane == lane) replay.run(action);
    }
    replayed.lanes[lane] = replay.model();
  }
  return replayed;
}

}  // namespace perdura::model
