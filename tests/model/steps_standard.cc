// Containers of the standard library.
#include "live.hpp"

namespace perdura::model {
namespace {

bool has_standard(const Program& program, const Options&) { return program.standard; }

Value drawn_text(const Step& step, u64 id) {
  Value value;
  value.form = Form::kRaw;
  value.id = id;
  value.words = step.number % 3 == 0 ? step.number % 15 : step.number % 200;
  return value;
}
std::string text_of(const Value& value) {
  return std::string(value.words, static_cast<char>('a' + value.id % 26));
}

const StepRegistration kKey({
    .name = "key",
    .weight = 2,
    .by_operations = true,
    .heap = true,
    .possible = has_standard,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain, u64 id,
           std::vector<Change>& changes) {
          const u64 cell = cells::kKey + step.target % kKeys;
          const Value& now = model.cells[cell];
          if (now.is_block() && step.number % 2 == 0) changes.push_back({cell, now, {}});
          else changes.push_back({cell, now, drawn_text(step, id)});
        },
    .operate =
        [](LaneRun& run, const Operation&, const Planned& planned) {
          for (const Change& change : planned.changes) {
            run.live.journal.use(Feature::kStandard);
            auto& map = run.lane->standard->map;
            const u64 key = change.cell - cells::kKey;
            if (!change.after.is_block()) {
              map.erase(key);
              continue;
            }
            // All that may throw comes first.
            perdura::string text(text_of(change.after), map.get_allocator());
            const auto found = map.find(key);
            if (found != map.end()) found->second.swap(text);
            else map.emplace(key, std::move(text));
          }
        },
});

const StepRegistration kVector({
    .name = "vector",
    .weight = 1,
    .by_operations = true,
    .heap = true,
    .possible = has_standard,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain, u64 id,
           std::vector<Change>& changes) {
          const Value& now = model.cells[cells::kVector];
          Value after = now;
          if (step.number % 4 == 0 && !now.list.empty()) after.list.pop_back();
          else if (step.number % 64 == 1) after.list.clear();
          else after.list.push_back(word_of(id, step.number));
          changes.push_back({cells::kVector, now, after});
        },
    .operate =
        [](LaneRun& run, const Operation&, const Planned& planned) {
          for (const Change& change : planned.changes) {
            run.live.journal.use(Feature::kStandard);
            auto& vector = run.lane->standard->vector;
            const auto& list = change.after.list;
            if (list.empty()) {
              vector.clear();
              vector.shrink_to_fit();
            } else if (list.size() < vector.size()) {
              vector.pop_back();
            } else {
              vector.push_back(list.back());
            }
          }
        },
});

const StepRegistration kString({
    .name = "string",
    .weight = 0.7,
    .by_operations = true,
    .heap = true,
    .possible = has_standard,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain, u64 id,
           std::vector<Change>& changes) {
          Value after = drawn_text(step, id);
          after.form = Form::kNone;
          changes.push_back({cells::kString, model.cells[cells::kString], after});
        },
    .operate =
        [](LaneRun& run, const Operation&, const Planned& planned) {
          for (const Change& change : planned.changes)
            run.lane->standard->string.assign(text_of(change.after));
        },
});

/// An object with a string and a vector, in place of another one.
const StepRegistration kText({
    .name = "text",
    .weight = 2,
    .by_transactions = true,
    .heap = true,
    .possible = has_standard,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain, u64 id,
           std::vector<Change>& changes) {
          const u64 cell = cells::kText + step.target % kTexts;
          const Value& now = model.cells[cell];
          Value after;
          if (!now.is_block() || step.number % 3 != 0)
            after = drawn_text(step, id * 64 + step.target % 64);
          changes.push_back({cell, now, after});
        },
    .transact =
        [](LaneRun& run, Transaction& tx, const Planned& planned) {
          for (const Change& change : planned.changes) {
            run.live.journal.use(Feature::kAllocatingTypes);
            Text*& place = run.lane->texts[change.cell - cells::kText];
            Text* const old = tx.read(place);
            require((old != nullptr) == change.before.is_block() &&
                        (old == nullptr || tx.read(old->id) == change.before.id),
                    "a transaction finds another text");
            Text* made = nullptr;
            if (change.after.is_block())
              made = tx.make<Text>(change.after.id, change.after.words, text_of(change.after),
                                   Text::Allocator(*run.live.store));
            tx.destroy(old);
            tx.write(place, made);
          }
        },
});

}  // namespace
}  // namespace perdura::model
