// Steps in transactions: alone, nested, undone, in place of others, without a way back.
#include "live.hpp"

namespace perdura::model {
namespace {

bool has_transactions(const Program& program, const Session&) { return program.transactions(); }

struct InVain {};

void do_steps(LaneRun& run, Transaction& tx, const std::vector<Planned>& steps, size_t begin,
              size_t end) {
  for (size_t i = begin; i < end; ++i)
    if (!steps[i].changes.empty()) step_kind(steps[i].step->kind).transact(run, tx, steps[i]);
}

void begin_body(LaneRun& run, Transaction& tx, const Action& action) {
  require(tx.read(run.lane->transaction) == run.model.transaction,
          "a transaction finds another one before it");
  tx.write(run.lane->transaction, action.id);
  if (action.kind == "transact_awaited") tx.write(run.lane->awaited.signal, action.id);
}

/// Of a transaction that returned: what it is worth, and what the model is now.
void finish(Live& live, LaneRun& run, const Action& action, const Plan& planned) {
  live.journal.steps[action.id] = static_cast<std::uint32_t>(planned.kept.size());
  const bool durable = live.durability != Durability::kNone &&
                       (live.durability != Durability::kRelaxed || live.program.medium == "emu");
  if (durable) live.acknowledge_transaction(run.number, action.id);
  apply(run.model, action, planned, planned.kept.size());
  run.last_commit = last_commit(*live.store);
  run.last_commit_of = action.id;
  live.journal.done[run.number].transaction = action.id;
}

/// `body` on the real store. Where there is no room for it nothing happened.
template <class Body>
bool atomic(Live& live, const LaneRun& run, const Action& action, Body&& body) {
  constexpr Feature kWays[] = {Feature::kTransaction, Feature::kRelaxed, Feature::kOtherDurability,
                               Feature::kOtherDurability, Feature::kNoDurability};
  live.journal.use(Feature::kTransaction);
  live.journal.use(kWays[static_cast<size_t>(live.durability)]);
  try {
    live.library([&] { atomically(*live.store, body); });
    return true;
  } catch (const std::bad_alloc& thrown) {
    // Without memory for an Error nothing says that it has happened in memory alone.
    if (!live.is_starvation(thrown) || run.lane->transaction != run.model.transaction) throw;
    live.journal.progress[action.id] = Progress::kFailed;
    return false;
  } catch (const Error& error) {
    // What throws has not happened, unless it is open what became of its record, or it had to wait
    // for a version that could not be made, which it says.
    if (live.program.medium == "emu" && !live.faults->barrier_failed())
      require(run.lane->transaction == run.model.transaction ||
                  std::string_view(error.what()).find("has happened, but only in memory") !=
                      std::string_view::npos,
              std::string("a transaction threw after it had happened: ") + error.what());
    if (live.is_mended && error.code() == Code::kIo)
      throw Problem(std::string("a fault stays that is over: ") + error.what());
    // Another lane may have made room since.
    if (live.faults->fired() != 0 || live.session.full_disk || live.is_starvation(error)) {
      const bool undone = !live.faults->barrier_failed() &&
                          run.lane->transaction == run.model.transaction && live.expected(error);
      if (!undone) throw;
      ++live.journal.failed_calls;
    } else if (error.code() == Code::kNoSpace) {
      live.journal.use(Feature::kFull);
    } else {
      throw;
    }
    live.journal.progress[action.id] = Progress::kFailed;
    return false;
  }
}

/// The first object of a type takes a checkpoint, for which an irrevocable transaction is in the
/// way.
bool makes_types(const Plan& planned) {
  for (const Planned& step : planned.kept)
    for (const Change& change : step.changes)
      if (change.after.form == Form::kTyped) return true;
  return false;
}

void transact(Live& live, LaneRun& run, const Action& action) {
  const Plan planned = plan(live.program, run.model, action);
  const size_t count = planned.kept.size();
  const bool done = atomic(live, run, action, [&](Transaction& tx) {
    if (action.number % 8 == 2 && !makes_types(planned)) {
      live.journal.use(Feature::kIrrevocable);
      tx.irrevocable();
    }
    begin_body(run, tx, action);
    if (action.number % 8 == 1) {
      live.journal.use(Feature::kNestedTransaction);
      do_steps(run, tx, planned.kept, 0, count / 2);
      atomically(*live.store,
                 [&](Transaction& inner) { do_steps(run, inner, planned.kept, count / 2, count); });
    } else {
      if (action.number % 8 == 3) {  // what is caught undoes its part alone
        live.journal.use(Feature::kNestedTransaction);
        live.journal.use(Feature::kThrown);
        try {
          atomically(*live.store, [&](Transaction& inner) {
            do_steps(run, inner, planned.kept, 0, count);
            throw InVain{};
          });
        } catch (const InVain&) {
        }
      }
      do_steps(run, tx, planned.kept, 0, count);
    }
  });
  if (done) finish(live, run, action, planned);
}

const ActionRegistration kTransact({
    .name = "transact",
    .weight = 8,
    .has_steps = true,
    .domain = Domain::kTransaction,
    .possible = has_transactions,
    .run = transact,
});

const ActionRegistration kTransactElsewhere({
    .name = "transact_in_new_thread",
    .weight = 1,
    .has_steps = true,
    .domain = Domain::kTransaction,
    .possible = has_transactions,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          live.journal.use(Feature::kNewThread);
          in_new_thread([&] { transact(live, run, action); });
        },
});

const ActionRegistration kTransactInVain({
    .name = "transact_in_vain",
    .weight = 1.5,
    .has_steps = true,
    .domain = Domain::kTransaction,
    .possible = has_transactions,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          const Plan planned = plan(live.program, run.model, action);
          live.journal.use(Feature::kThrown);
          try {
            const bool done = atomic(live, run, action, [&](Transaction& tx) {
              begin_body(run, tx, action);
              do_steps(run, tx, planned.undone, 0, planned.undone.size());
              throw InVain{};
            });
            require(!done, "a transaction that threw returned");
          } catch (const InVain&) {
          }
        },
});

const ActionRegistration kTransactOrElse({
    .name = "transact_or_else",
    .weight = 1.5,
    .has_steps = true,
    .domain = Domain::kTransaction,
    .possible = has_transactions,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          const Plan planned = plan(live.program, run.model, action);
          live.journal.use(Feature::kOrElse);
          const auto in_vain = [&](Transaction& tx) {
            const size_t count = planned.undone.size();
            if (action.number % 4 == 1) {  // the first half of it in another one that is undone
              tx.or_else(
                  [&](Transaction& inner) {
                    do_steps(run, inner, planned.undone, 0, count / 2);
                    inner.retry();
                  },
                  [&](Transaction& inner) { do_steps(run, inner, planned.undone, 0, count); });
            } else {
              do_steps(run, tx, planned.undone, 0, count);
            }
            tx.retry();
          };
          const bool done = atomic(live, run, action, [&](Transaction& tx) {
            begin_body(run, tx, action);
            tx.or_else(in_vain, [&](Transaction& second) {
              do_steps(run, second, planned.kept, 0, planned.kept.size());
            });
          });
          if (done) finish(live, run, action, planned);
        },
});

// --- how they become durable ------------------------------------------------------------------

const ActionRegistration kSetDurability({
    .name = "set_durability",
    .weight = 0.8,
    .domain = Domain::kTransaction,
    .possible = [](const Program& program,
                   const Session& session) { return program.transactions() && !session.parallel; },
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          const auto durability = static_cast<Durability>(action.number % 5);
          const Done done = live.done();
          set_durability(*live.store, durability);
          if (durability != live.durability) live.acknowledge(done);  // it takes a checkpoint
          live.durability = durability;
        },
});

const ActionRegistration kSetLogging({
    .name = "set_logging",
    .weight = 0.4,
    .domain = Domain::kTransaction,
    .possible = [](const Program& program,
                   const Session& session) { return program.transactions() && !session.parallel; },
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          set_logging(*live.store, action.number % 2 == 0 ? Logging::kUndo : Logging::kRedo);
          if (action.number % 2 == 0) live.journal.use(Feature::kUndoLogging);
        },
});

const ActionRegistration kWaitForCommit({
    .name = "wait_for_commit",
    .weight = 0.6,
    .domain = Domain::kTransaction,
    .possible = has_transactions,
    .run =
        [](Live& live, LaneRun& run, const Action&) {
          if (run.last_commit == 0) return;
          wait_for_commit(*live.store, run.last_commit);
          require(durable_commit(*live.store) >= run.last_commit,
                  "a commit that was waited for is not durable");
          live.acknowledge_transaction(run.number, run.last_commit_of);
        },
});

}  // namespace
}  // namespace perdura::model
