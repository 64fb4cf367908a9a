// Blocks come, grow and go, in slots and roots.
#include <algorithm>

#include "live.hpp"

namespace perdura::model {
namespace {

/// A slot that the domain may use.
u64 slot_of(const Step& step, Domain domain) {
  const u64 slot = step.target % (2 * kOf);
  if (slot >= kOf) return kOf + slot;  // of both
  return domain == Domain::kOperation ? slot : kOf + slot;
}
u64 slot_of(const Change& change) { return change.cell - cells::kSlot; }

bool uses_heap_together(const Program& program, const Options&) {
  return program.transactions() && program.heap_use == HeapUse::kBoth;
}

/// What operations made of a slot that both use is no matter of transactions before a version has
/// it: nothing says that it is there when they are repeated.
bool may(const LaneModel& model, u64 slot, Domain domain) {
  return domain == Domain::kOperation || model.is_covered(cells::kSlot + slot);
}

Value drawn_block(const Program& program, const Step& step, u64 id) {
  Value value;
  value.id = id * 64 + step.target % 64;
  const u64 kind = step.number % 64;
  const u64 size = step.number >> 8;
  value.words = kind < 40   ? size % 20
                : kind < 56 ? size % 400
                : kind < 62 ? size % 4000
                            : 4000 + size % 16000;
  value.form = program.typed || kind % 8 == 7 ? (kind % 2 == 0 ? Form::kTyped : Form::kFlexible)
               : kind % 8 == 6                ? Form::kAligned
                                              : Form::kRaw;
  if (value.form == Form::kTyped) value.words = Node::kWords;
  return value;
}

u64 bytes_of(const Value& value) { return sizeof(Block) + value.words * sizeof(u64); }

void note(LaneRun& run, const Value& value) {
  run.live.journal.use(Feature::kAllocate);
  if (value.form == Form::kFlexible) run.live.journal.use(Feature::kFlexible);
  if (bytes_of(value) > 32 * kKiB) run.live.journal.use(Feature::kLargeBlock);
}

void fill(Block* block, const Value& value, u64 from = 0) {
  block->id = value.id;
  block->words = value.words;
  block->self = value.form == Form::kBare ? nullptr : block;
  for (u64 i = from; i < value.words; ++i) block->data[i] = word_of(value.id, i);
}

void require_whole(const Block* block, const Value& value) {
  require(block != nullptr && block->id == value.id && block->words == value.words,
          "a block that is given back is of action " +
              (block == nullptr ? "none" : std::to_string(block->id)) + ", not of " +
              std::to_string(value.id));
  for (u64 i = 0; i < value.words; ++i)
    require(block->data[i] == word_of(value.id, i), "a block that is given back was overwritten");
}

Block* allocate(LaneRun& run, const Operation& operation, const Value& value) {
  note(run, value);
  return static_cast<Block*>(run.live.library([&] {
    switch (value.form) {
      case Form::kTyped:
        return operation.allocate(TypeRecord<Node>::value);
      case Form::kFlexible:
        return run.live.store->allocate_flexible(kFlexibleType, bytes_of(value));
      case Form::kAligned:
        return operation.allocate(bytes_of(value), 64);
      default:
        return operation.allocate(bytes_of(value));
    }
  }));
}

/// Allocate first: where that throws nothing has changed.
Block* replace(LaneRun& run, const Operation& operation, Block* old, const Change& change) {
  Block* made = nullptr;
  if (change.after.is_block()) {
    made = allocate(run, operation, change.after);
    fill(made, change.after);
  }
  if (change.before.is_block()) {
    require_whole(old, change.before);
    run.live.journal.use(Feature::kFree);
    run.live.library([&] { operation.deallocate(old); });
  }
  return made;
}

void operate_slot(LaneRun& run, const Operation& operation, const Planned& planned) {
  for (const Change& change : planned.changes) {
    Block*& slot = run.lane->slots[slot_of(change)];
    operation.touch(&slot, sizeof slot);
    slot = replace(run, operation, slot, change);
  }
}

/// The same in a transaction, which finds `old`.
Block* replace(LaneRun& run, Transaction& tx, Block* old, const Change& change) {
  Block* made = nullptr;
  if (change.after.is_block()) {
    note(run, change.after);
    made = static_cast<Block*>(
        change.after.form == Form::kTyped
            ? tx.allocate(TypeRecord<Node>::value)
            : tx.allocate(bytes_of(change.after), change.after.form == Form::kAligned ? 64 : 16));
    // Stored to with and without the transaction's help, in this order.
    if (change.after.id % 3 == 0)
      tx.or_else([&](Transaction& part) { part.write(made->id, u64{7}); }, [](Transaction&) {});
    fill(made, change.after);
  }
  if (change.before.is_block()) {
    require(old != nullptr && tx.read(old->id) == change.before.id,
            "a transaction finds another block in its slot");
    run.live.journal.use(Feature::kFree);
    tx.deallocate(old);
  } else {
    require(old == nullptr, "a transaction finds a block in an empty slot");
  }
  return made;
}

void transact_slot(LaneRun& run, Transaction& tx, const Planned& planned) {
  for (const Change& change : planned.changes) {
    Block*& slot = run.lane->slots[slot_of(change)];
    tx.write(slot, replace(run, tx, tx.read(slot), change));
  }
}

/// A transaction knows typed blocks of whole objects only.
Value drawn_transactional(const Program& program, const Step& step, u64 id) {
  Value value = drawn_block(program, step, id);
  if (value.form != Form::kFlexible) return value;
  value.form = program.typed ? Form::kTyped : Form::kRaw;
  if (program.typed) value.words = Node::kWords;
  return value;
}

const StepRegistration kPut({
    .name = "put",
    .weight = 5,
    .by_operations = true,
    .by_transactions = true,
    .heap = true,
    .plan =
        [](const Program& program, const LaneModel& model, const Step& step, Domain domain, u64 id,
           std::vector<Change>& changes) {
          const u64 slot = slot_of(step, domain);
          if (!may(model, slot, domain)) return;
          const Value value = domain == Domain::kTransaction
                                  ? drawn_transactional(program, step, id)
                                  : drawn_block(program, step, id);
          changes.push_back({cells::kSlot + slot, model.cells[cells::kSlot + slot], value});
        },
    .operate = operate_slot,
    .transact = transact_slot,
});

void plan_free(const LaneModel& model, u64 target, Domain domain, std::vector<Change>& changes) {
  const u64 slot = slot_of(Step{{}, target, 0}, domain);
  const Value& now = model.cells[cells::kSlot + slot];
  if (now.is_block() && may(model, slot, domain)) changes.push_back({cells::kSlot + slot, now, {}});
}

const StepRegistration kFree({
    .name = "free",
    .weight = 4,
    .by_operations = true,
    .by_transactions = true,
    .heap = true,
    .plan = [](const Program&, const LaneModel& model, const Step& step, Domain domain, u64,
               std::vector<Change>& changes) { plan_free(model, step.target, domain, changes); },
    .operate = operate_slot,
    .transact = transact_slot,
});

/// All of a lane's at once: slabs become empty and go back.
const StepRegistration kFreeAll({
    .name = "free_all",
    .weight = 0.3,
    .by_operations = true,
    .by_transactions = true,
    .heap = true,
    .plan =
        [](const Program&, const LaneModel& model, const Step&, Domain domain, u64,
           std::vector<Change>& changes) {
          for (u64 target = 0; target < 2 * kOf; ++target)
            plan_free(model, target, domain, changes);
        },
    .operate = operate_slot,
    .transact = transact_slot,
});

/// Other words in the same block.
const StepRegistration kRewrite({
    .name = "rewrite",
    .weight = 2,
    .by_operations = true,
    .by_transactions = true,
    .heap = true,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain domain, u64 id,
           std::vector<Change>& changes) {
          const u64 slot = slot_of(step, domain);
          const Value& now = model.cells[cells::kSlot + slot];
          if (!now.is_block() || !may(model, slot, domain)) return;
          if (domain == Domain::kTransaction && now.words > 500) return;
          Value value = now;
          value.id = id * 64 + step.target % 64;
          changes.push_back({cells::kSlot + slot, now, value});
        },
    .operate =
        [](LaneRun& run, const Operation& operation, const Planned& planned) {
          for (const Change& change : planned.changes) {
            Block* const block = run.lane->slots[slot_of(change)];
            require_whole(block, change.before);
            operation.touch(block, bytes_of(change.after));
            fill(block, change.after);
          }
        },
    .transact =
        [](LaneRun& run, Transaction& tx, const Planned& planned) {
          for (const Change& change : planned.changes) {
            Block* const block = tx.read(run.lane->slots[slot_of(change)]);
            require(block != nullptr && tx.read(block->id) == change.before.id,
                    "a transaction finds another block in its slot");
            tx.write(block->id, change.after.id);
            for (u64 i = 0; i < change.after.words; ++i) {
              require(tx.read(block->data[i]) == word_of(change.before.id, i),
                      "a transaction reads a block that was overwritten");
              tx.write(block->data[i], word_of(change.after.id, i));
            }
          }
        },
});

const StepRegistration kReallocate({
    .name = "reallocate",
    .weight = 1.5,
    .by_operations = true,
    .heap = true,
    .plan =
        [](const Program& program, const LaneModel& model, const Step& step, Domain domain, u64 id,
           std::vector<Change>& changes) {
          const u64 slot = slot_of(step, domain);
          const Value& now = model.cells[cells::kSlot + slot];
          if (now.form != Form::kRaw && now.form != Form::kFlexible) return;
          Value value = now;  // words that follow from the same number, more or fewer
          value.words = drawn_block(program, {{}, 0, step.number}, id).words;
          changes.push_back({cells::kSlot + slot, now, value});
        },
    .operate =
        [](LaneRun& run, const Operation& operation, const Planned& planned) {
          for (const Change& change : planned.changes) {
            run.live.journal.use(Feature::kReallocate);
            Block*& slot = run.lane->slots[slot_of(change)];
            require_whole(slot, change.before);
            operation.touch(&slot, sizeof slot);
            auto* const block = static_cast<Block*>(run.live.library(
                [&] { return run.live.store->reallocate(slot, bytes_of(change.after)); }));
            slot = block;
            operation.touch(block, bytes_of(change.after));
            fill(block, change.after, std::min(change.before.words, change.after.words));
          }
        },
});

/// A block that is there for a transaction.
const StepRegistration kOffer({
    .name = "offer",
    .weight = 1.5,
    .by_operations = true,
    .heap = true,
    .possible = uses_heap_together,
    .plan =
        [](const Program& program, const LaneModel& model, const Step& step, Domain, u64 id,
           std::vector<Change>& changes) {
          const u64 cell = cells::kOffer + step.target % kOffers;
          if (!model.cells[cell].is_block())
            changes.push_back({cell, {}, drawn_block(program, step, id)});
        },
    .operate =
        [](LaneRun& run, const Operation& operation, const Planned& planned) {
          for (const Change& change : planned.changes) {
            Block*& offer = run.lane->offers[change.cell - cells::kOffer];
            operation.touch(&offer, sizeof offer);
            offer = replace(run, operation, offer, change);
          }
        },
});

/// It gets into a slot, whether a version has it or not: what relies on it waits for one.
const StepRegistration kAdopt({
    .name = "adopt",
    .weight = 1.5,
    .by_transactions = true,
    .heap = true,
    .possible = uses_heap_together,
    .plan =
        [](const Program&, const LaneModel& model, const Step& step, Domain, u64,
           std::vector<Change>& changes) {
          const u64 offer = cells::kOffer + step.target % kOffers;
          const u64 slot = cells::kSlot + kOf + step.target / kOffers % kOf;
          if (!model.cells[offer].is_block() || model.cells[slot].is_block()) return;
          changes.push_back({slot, {}, model.cells[offer]});
          changes.push_back({offer, model.cells[offer], {}});
        },
    .transact =
        [](LaneRun& run, Transaction& tx, const Planned& planned) {
          if (planned.changes.empty()) return;
          Block*& slot = run.lane->slots[slot_of(planned.changes[0])];
          Block*& offer = run.lane->offers[planned.changes[1].cell - cells::kOffer];
          Block* const block = tx.read(offer);
          require(block != nullptr && tx.read(block->id) == planned.changes[1].before.id,
                  "a transaction finds another offer");
          require(tx.read(slot) == nullptr, "a transaction finds a block in an empty slot");
          tx.write(slot, block);
          tx.write(offer, static_cast<Block*>(nullptr));
        },
});

/// A block that its lane knows by its distance. Nothing in the store says its address, so that
/// what gave it out must be right by itself.
const StepRegistration kDistance({
    .name = "distance",
    .weight = 2,
    .by_transactions = true,
    .heap = true,
    .possible = [](const Program& program, const Options&) { return !program.typed; },
    .plan =
        [](const Program& program, const LaneModel& model, const Step& step, Domain, u64 id,
           std::vector<Change>& changes) {
          const u64 cell = cells::kDistance + step.target % kDistances;
          const Value& now = model.cells[cell];
          const bool goes = now.is_block() && step.target / kDistances % 2 == 0;
          Value value;
          if (!goes) {
            value = drawn_block(program, step, id);
            value.form = Form::kBare;
          }
          changes.push_back({cell, now, value});
        },
    .transact =
        [](LaneRun& run, Transaction& tx, const Planned& planned) {
          for (const Change& change : planned.changes) {
            u64& distance = run.lane->distances[change.cell - cells::kDistance];
            Block* const old = block_at(*run.lane, tx.read(distance));
            tx.write(distance, distance_to(*run.lane, replace(run, tx, old, change)));
          }
        },
});

const StepRegistration kRoot({
    .name = "set_root",
    .weight = 0.7,
    .by_operations = true,
    .heap = true,
    .plan =
        [](const Program& program, const LaneModel& model, const Step& step, Domain, u64 id,
           std::vector<Change>& changes) {
          const u64 cell = cells::kRoot + step.target % kRoots;
          const Value& now = model.cells[cell];
          if (now.is_block() && step.number % 2 == 0) changes.push_back({cell, now, {}});
          else changes.push_back({cell, now, drawn_block(program, step, id)});
        },
    .operate =
        [](LaneRun& run, const Operation& operation, const Planned& planned) {
          for (const Change& change : planned.changes) {
            run.live.journal.use(Feature::kRoot);
            const std::string name = "lane " + std::to_string(run.number) + " root " +
                                     std::to_string(change.cell - cells::kRoot);
            auto* const old = static_cast<Block*>(run.live.store->get_root(name));
            Block* made = nullptr;
            if (change.after.is_block()) {
              made = allocate(run, operation, change.after);
              fill(made, change.after);
            }
            try {
              run.live.library([&] { run.live.store->set_root(name, made); });
            } catch (...) {
              if (made != nullptr) operation.deallocate(made);
              throw;
            }
            if (change.before.is_block()) {
              require_whole(old, change.before);
              operation.deallocate(old);
            }
          }
        },
});

}  // namespace
}  // namespace perdura::model
