// Fields of the lanes: words, halves of words beside those of others, and accounts of all lanes.
#include <atomic>

#include "live.hpp"

namespace perdura::model {
namespace {

u64 index_of(const Step& step, Domain domain) {
  return (domain == Domain::kOperation ? 0 : kOf) + step.target % kOf;
}

void plan_number(u64 first, const LaneModel& model, const Step& step, Domain domain, u64 value,
                 std::vector<Change>& changes) {
  const u64 cell = first + index_of(step, domain);
  Value after;
  after.id = value;
  changes.push_back({cell, model.cells[cell], after});
}

const StepRegistration kWord({
    .name = "word",
    .weight = 3,
    .by_operations = true,
    .by_transactions = true,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain domain, u64 id,
           std::vector<Change>& changes) {
          plan_number(cells::kWord, model, step, domain, word_of(id, step.number), changes);
        },
    .operate =
        [](LaneRun& run, const Operation& operation, const Planned& planned) {
          for (const Change& change : planned.changes) {
            u64& word = run.lane->words[change.cell - cells::kWord];
            operation.touch(&word, sizeof word);
            word = change.after.id;
          }
        },
    .transact =
        [](LaneRun& run, Transaction& tx, const Planned& planned) {
          for (const Change& change : planned.changes) {
            u64& word = run.lane->words[change.cell - cells::kWord];
            require(tx.read(word) == change.before.id, "a transaction reads another word");
            tx.write(word, change.after.id);
            require(tx.read(word) == change.after.id, "a transaction does not read what it wrote");
          }
        },
});

const StepRegistration kHalf({
    .name = "half",
    .weight = 2,
    .by_operations = true,
    .by_transactions = true,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain domain, u64 id,
           std::vector<Change>& changes) {
          plan_number(cells::kHalf, model, step, domain,
                      static_cast<std::uint32_t>(word_of(id, step.number)), changes);
        },
    .operate =
        [](LaneRun& run, const Operation& operation, const Planned& planned) {
          for (const Change& change : planned.changes) {
            run.live.journal.use(Feature::kSmallFields);
            auto& half = run.lane->halves[change.cell - cells::kHalf].of_operations;
            operation.touch(&half, sizeof half);
            half = static_cast<std::uint32_t>(change.after.id);
          }
        },
    .transact =
        [](LaneRun& run, Transaction& tx, const Planned& planned) {
          for (const Change& change : planned.changes) {
            run.live.journal.use(Feature::kSmallFields);
            auto& half = run.lane->halves[change.cell - cells::kHalf - kOf].of_transactions;
            require(tx.read(half) == change.before.id, "a transaction reads another half word");
            tx.write(half, static_cast<std::uint32_t>(change.after.id));
          }
        },
});

/// Money between two accounts that all lanes use. The cell is what this lane added.
const StepRegistration kAccount({
    .name = "account",
    .weight = 1.5,
    .by_operations = true,
    .by_transactions = true,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain domain, u64,
           std::vector<Change>& changes) {
          const u64 from = index_of(step, domain);
          const u64 to = index_of({{}, step.target / kOf, 0}, domain);
          if (from == to) return;
          const u64 amount = step.number % 1000;
          const auto add = [&](u64 account, u64 by) {
            const Value& now = model.cells[cells::kAccount + account];
            Value after = now;
            after.id += by;
            changes.push_back({cells::kAccount + account, now, after});
          };
          add(from, ~amount + 1);
          add(to, amount);
        },
    .operate =
        [](LaneRun& run, const Operation& operation, const Planned& planned) {
          for (const Change& change : planned.changes) {
            auto& account = run.live.world->accounts[change.cell - cells::kAccount];
            operation.touch(&account, sizeof account);
            std::atomic_ref(account).fetch_add(
                static_cast<std::int64_t>(change.after.id - change.before.id));
          }
        },
    .transact =
        [](LaneRun& run, Transaction& tx, const Planned& planned) {
          for (const Change& change : planned.changes) {
            auto& account = run.live.world->accounts[change.cell - cells::kAccount];
            tx.write(account, tx.read(account) +
                                  static_cast<std::int64_t>(change.after.id - change.before.id));
          }
        },
});

}  // namespace
}  // namespace perdura::model
