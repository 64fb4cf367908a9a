#include "recording.hpp"

namespace perdura::proof {
namespace {

constexpr u64 kNodeWords = 40;

void begin(Run& run, Durability durability = Durability::kNonTemporal,
           Logging logging = Logging::kRedo) {
  run.node_words_max = kNodeWords;
  run.open();
  run.ledger();
  run.set_durability(durability);
  run.set_logging(logging);
}

/// Transactions before a version, and after it.
void around_version(Run& run) {
  run.transact(6);
  run.checkpoint();
  run.transact(6);
}

void each_durable(Run& run) {
  begin(run);
  around_version(run);
  run.kill();
}
const Registration kEach({"transactions", "each step durable by itself", each_durable});

void lazy_bulk(Run& run) {
  begin(run, Durability::kLazyBulk);
  around_version(run);
  run.kill();
}
const Registration kLazyBulk({"transactions-lazy-bulk", "a record, and then its mark", lazy_bulk});

void per_write(Run& run) {
  begin(run, Durability::kPerWrite);
  run.transact(2);
  run.checkpoint();
  run.transact(3);
  run.kill();
}
const Registration kPerWrite({"transactions-per-write", "each word of a record by itself",
                              per_write});

void not_logged(Run& run) {
  begin(run, Durability::kNone);
  for (int i = 0; i < 3; ++i) {
    run.transact(8);
    run.checkpoint();
  }
  run.transact(5);
  run.set_durability(Durability::kNonTemporal);
  run.transact(3);
  run.kill();
}
const Registration kNotLogged({"transactions-not-logged",
                               "durable with versions, and then by themselves", not_logged});

void undo(Run& run) {
  begin(run, Durability::kNonTemporal, Logging::kUndo);
  run.concurrent_transactions(2, 5, [&run] {
    run.transact_in_vain(5, 7);
    run.checkpoint();
  });
  run.transact(2, 5);
  run.kill();
}
const Registration kUndo({"transactions-undo", "memory changes at once, and is put back", undo});

void undone(Run& run) {
  begin(run);
  for (int i = 0; i < 3; ++i) {
    run.transact(3);
    run.transact_in_vain(2);
    if (i == 1) run.checkpoint();
  }
  run.close();
}
const Registration kUndone({"transactions-undone", "some throw, and never were", undone});

void blocks(Run& run) {
  run.options.log_limit_bytes = 160 * kKiB;
  begin(run);
  run.node_words_max = 1500;
  run.transact(8);
  run.checkpoint();
  run.transact(8);
  run.kill();
}
const Registration kBlocks({"transactions-blocks", "large blocks come and go, and fill segments",
                            blocks});

void threads(Run& run) {
  begin(run);
  run.concurrent_transactions(3, 8, [] {});
  run.kill();
}
const Registration kThreads({"transactions-threads", "three threads, together where they wait",
                             threads});

void checkpoints(Run& run) {
  begin(run);
  run.concurrent_transactions(2, 12, [&run] {
    for (int i = 0; i < 3; ++i) run.checkpoint();
  });
  run.checkpoint();
  run.transact(2);
  run.kill();
}
const Registration kCheckpoints({"transactions-checkpoints", "versions are made beside two threads",
                                 checkpoints});

// Recovery repeats what the version does not have, and may be cut short at any point.
void reopened(Run& run) {
  begin(run);
  for (int life = 0; life < 4; ++life) {
    if (life != 0) run.open();
    run.transact(4, life % 2);
    if (life == 1) run.checkpoint();
    if (life == 3) run.close();
    else if (life == 1) run.kill();
    else run.cut_power();
  }
}
const Registration kReopened({"transactions-reopened", "recovery repeats them, again and again",
                              reopened});

void relaxed(Run& run) {
  begin(run, Durability::kRelaxed);
  run.concurrent_transactions(2, 8, [] {});
  run.wait_for_commits();
  run.transact(4);
  run.kill();
}
const Registration kRelaxed({"transactions-relaxed", "acknowledged before they are durable",
                             relaxed});

// Versions free their segments, and later records come to the same places.
void wrapped(Run& run) {
  run.options.log_limit_bytes = 96 * kKiB;
  begin(run);
  for (int i = 0; i < 4; ++i) {
    run.transact(12);
    run.steps(20, 6);
    run.checkpoint();
  }
  run.transact(3);
  run.kill();
}
const Registration kWrapped({"transactions-wrap", "segments of the log are used again", wrapped});

}  // namespace
}  // namespace perdura::proof
