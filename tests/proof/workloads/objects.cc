#include <initializer_list>
#include <thread>

#include "recording.hpp"

namespace perdura::proof {
namespace {

using Handle = LoggedObjects::Handle;

constexpr u64 kSmallLog = 8192;  // 128 lines
constexpr u64 kArchive = 16 * kSmallLog;

void defer_some(Run& run, Handle& object, u64 count) {
  for (u64 i = 0; i < count; ++i) {
    const u32 lane = static_cast<u32>(run.random(kLanes));
    switch (run.random(6)) {
      case 0:
        object.put_long(lane, run.random(1000));
        break;
      case 1:
        object.churn(run.random(1000));
        break;
      default:
        object.put(lane, run.random(1000));
    }
  }
}

/// Groups of deferred calls, each with an instant.
void groups(Run& run, Handle& object, u64 count) {
  for (u64 i = 0; i < count; ++i) {
    defer_some(run, object, run.random(5));
    if (run.random(4) == 0) object.stir(run.random(1000));
    else object.tell(static_cast<u32>(run.random(kLanes)), run.random(1000));
  }
}

void with_durability(Run& run, ObjectDurability durability, u32 servers = 1) {
  run.open_objects();
  Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog,
                                                .checkpoint_calls = 9,
                                                .durability = durability,
                                                .servers = servers});
  groups(run, object, 9);
  object.sync();
  defer_some(run, object, 3);
  run.kill();
}

void instants(Run& run) { with_durability(run, ObjectDurability::kInstants); }
const Registration kInstants({"objects", "groups of deferred calls with instants", instants});

void each(Run& run) { with_durability(run, ObjectDurability::kEach); }
const Registration kEach({"objects-each", "a barrier for each call", each});

void two_steps(Run& run) { with_durability(run, ObjectDurability::kTwoSteps); }
const Registration kTwoSteps({"objects-two-steps", "the mark behind a barrier of its own",
                              two_steps});

void relaxed(Run& run) {
  run.open_objects();
  Handle& object = run.objects().object(
      "hot",
      {.log_bytes = kSmallLog, .checkpoint_calls = 30, .durability = ObjectDurability::kRelaxed});
  for (u64 i = 0; i < 4; ++i) {
    groups(run, object, 3);
    object.sync();
    groups(run, object, 2);
    if (i % 2 == 1) object.checkpoint();
  }
  groups(run, object, 2);
  run.kill();
}
const Registration kRelaxed({"objects-relaxed", "durable with sync and checkpoints", relaxed});

// What is done and not in the log is durable with the state alone.
void relaxed_full(Run& run) {
  run.open_objects();
  Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog,
                                                .checkpoint_calls = ~u64{0},
                                                .durability = ObjectDurability::kRelaxed});
  for (u64 i = 0; i < 45; ++i) {
    object.put_long(1, i);
    object.tell(static_cast<u32>(run.random(kLanes)), i);
  }
  run.close();
}
const Registration kRelaxedFull({"objects-relaxed-full", "a log is full of what is not durable",
                                 relaxed_full});

void apart(Run& run) { with_durability(run, ObjectDurability::kInstants, 0); }
const Registration kApart({"objects-apart", "each thread runs its own calls", apart});

void wraps(Run& run) {
  run.open_objects();
  Handle& object =
      run.objects().object("hot", {.log_bytes = kSmallLog, .checkpoint_calls = ~u64{0}});
  groups(run, object, 110);
  run.close();
}
const Registration kWraps({"objects-wrap", "the log is full and used again, many times", wraps});

void long_contexts(Run& run) {
  run.open_objects();
  Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog, .checkpoint_calls = 25});
  for (u64 i = 0; i < 12; ++i) {
    if (run.random(2) == 0) object.put_longer(static_cast<u32>(run.random(kLanes)), i);
    if (run.random(2) == 0) object.put_long(static_cast<u32>(run.random(kLanes)), i);
    for (u64 k = run.random(3); k != 0; --k) object.put(0, i);
    object.tell(1, i);
  }
  run.kill();
}
const Registration kLong({"objects-long", "arguments of many lines, about the end of the circle",
                          long_contexts});

// Rounds begin where nobody waits for an answer.
void thresholds(Run& run) {
  run.open_objects();
  Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog, .checkpoint_calls = 3});
  for (u64 i = 0; i < 160; ++i) object.put(static_cast<u32>(i % kLanes), i);
  object.sync();
  run.kill();
}
const Registration kThresholds({"objects-thresholds", "many deferred calls, no answers",
                                thresholds});

void merged(Run& run) {
  run.open_objects();
  Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog, .checkpoint_calls = 40});
  for (u64 i = 0; i < 14; ++i) {
    const u32 lane = static_cast<u32>(run.random(2));
    for (u64 k = run.random(6); k != 0; --k) object.add(lane, k);
    if (run.random(3) == 0) object.put(lane, i);
    for (u64 k = run.random(4); k != 0; --k) object.add(lane ^ 1, k);
    if (run.random(2) == 0) object.tell(lane, i);
  }
  object.sync();
  run.kill();
}
const Registration kMerged({"objects-merged", "calls that are merged in the log, and joined",
                            merged});

void in_threads(Run& run, Handle& object, u64 count, bool merge) {
  run.objects().let_threads_call("hot");
  object.object().merges = merge;
  std::vector<std::thread> threads;
  for (u32 lane = 0; lane < 3; ++lane)
    threads.emplace_back([&object, lane, count, merge] {
      for (u64 i = 0; i < count; ++i) {
        for (u64 k = 0; k < 4 + lane; ++k) {
          if (merge && k % 3 != 0) object.add(lane, i * k);
          else object.put(lane, i * k);
        }
        if (i % 4 == lane) object.put_long(lane, i);
        object.tell(lane, i);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

void threads(Run& run, u32 servers, ObjectHistory history, bool merge) {
  run.open_objects();
  Handle& object = run.objects().object("hot", {.log_bytes = 4 * kSmallLog,
                                                .checkpoint_calls = 60,
                                                .servers = servers,
                                                .history = history,
                                                .callers = 4,
                                                .archive_bytes = kArchive});
  in_threads(run, object, 8, merge);
  run.kill();
}

void servers(Run& run) { threads(run, 4, ObjectHistory::kNone, false); }
const Registration kServers({"objects-servers", "three threads, calls of domains at once",
                             servers});
void threads_apart(Run& run) { threads(run, 0, ObjectHistory::kNone, false); }
const Registration kThreadsApart({"objects-threads-apart", "three threads, each for itself",
                                  threads_apart});
void threads_merge(Run& run) { threads(run, 4, ObjectHistory::kNone, true); }
const Registration kThreadsMerge({"objects-threads-merge", "three threads, whose calls are merged",
                                  threads_merge});
void threads_callers(Run& run) { threads(run, 4, ObjectHistory::kLast, false); }
const Registration kThreadsCallers({"objects-threads-callers", "three callers with a history",
                                    threads_callers});

void threads_archive(Run& run) { threads(run, 4, ObjectHistory::kAll, false); }
const Registration kThreadsArchive({"objects-threads-archive",
                                    "three callers of which all calls are kept", threads_archive});

void callers(Run& run) {
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog,
                                                  .checkpoint_calls = 11,
                                                  .history = ObjectHistory::kLast,
                                                  .callers = 4});
    groups(run, object, 7);
    if (session == 0) run.close();
    else run.kill();
  }
}
const Registration kCallers({"objects-callers", "a history of who called, in three sessions",
                             callers});

// Heads that fail, and are not there; and those that fail and are.
void masked(Run& run, bool is_written, const ObjectOptions& options,
            std::initializer_list<const char*> sites, ObjectState state = ObjectState::kSmall) {
  run.open_objects();
  Handle& object = run.objects().object("hot", options, state);
  for (const char* site : sites) {
    groups(run, object, 3);
    run.refuse({.site = site, .count = 1 + run.random(2), .is_written = is_written});
    groups(run, object, 4);
    object.checkpoint();
    groups(run, object, 1);
    run.refuse({});
    object.checkpoint();
  }
  groups(run, object, 2);
  run.kill();
}
void masked(Run& run, bool is_written, ObjectDurability durability) {
  masked(run, is_written,
         {.log_bytes = 4 * kSmallLog, .checkpoint_calls = 8, .durability = durability},
         {"object head", "object copy", "object head"});
}
void refused(Run& run) { masked(run, false, ObjectDurability::kInstants); }
const Registration kRefused({"objects-refused", "checkpoints fail, and others follow", refused});
void failed(Run& run) { masked(run, true, ObjectDurability::kInstants); }
const Registration kFailed({"objects-failed", "what failed is written all the same", failed});
void relaxed_failed(Run& run) { masked(run, true, ObjectDurability::kRelaxed); }
const Registration kRelaxedFailed({"objects-relaxed-failed",
                                   "the same, of what the log does not have", relaxed_failed});

// What is synced behind a head that failed, and may be there, is in the log alone until the end.
void relaxed_unclear(Run& run) {
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("hot", {.log_bytes = 4 * kSmallLog,
                                                  .checkpoint_calls = 1000,
                                                  .durability = ObjectDurability::kRelaxed});
    groups(run, object, 3);
    object.checkpoint();
    groups(run, object, 3);
    // The first head of a checkpoint, or its second one; not there, or there all the same.
    run.refuse({.site = "object head", .after = session % 2, .is_written = session != 1});
    object.checkpoint();
    defer_some(run, object, 2);
    object.sync();
    groups(run, object, 2);
    object.sync();
    run.kill();
    run.refuse({});
  }
}
const Registration kRelaxedUnclear({"objects-relaxed-unclear",
                                    "calls are synced behind a head that failed", relaxed_unclear});

// --- lines that methods report -------------------------------------------------------------------

// Few of a state of many pages, in sessions that end in each way.
void reports(Run& run) {
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("wide", {.log_bytes = kSmallLog, .checkpoint_calls = 5},
                                          ObjectState::kReporting);
    groups(run, object, 8);
    if (session == 0) run.close();
    else run.kill();
  }
}
const Registration kReported({"objects-reports", "checkpoints of what methods report", reports});

void reports_masked(Run& run, bool is_written, ObjectDurability durability) {
  masked(run, is_written,
         {.log_bytes = 4 * kSmallLog, .checkpoint_calls = 8, .durability = durability},
         {"object head", "object copy", "object head"}, ObjectState::kReporting);
}
void reports_refused(Run& run) { reports_masked(run, false, ObjectDurability::kInstants); }
const Registration kReportsRefused({"objects-reports-refused",
                                    "checkpoints of what is reported fail, and others follow",
                                    reports_refused});
void reports_failed(Run& run) { reports_masked(run, true, ObjectDurability::kRelaxed); }
const Registration kReportsFailed({"objects-reports-failed",
                                   "the same, relaxed, and what failed is written all the same",
                                   reports_failed});

void reports_callers(Run& run) {
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("wide",
                                          {.log_bytes = kSmallLog,
                                           .checkpoint_calls = 6,
                                           .history = ObjectHistory::kLast,
                                           .callers = 4},
                                          ObjectState::kReporting);
    groups(run, object, 8);
    run.kill();
    run.damage_copy("wide");
  }
  run.open_objects();
  groups(run, run.objects().object("wide", {.checkpoint_calls = 6}), 4);
  run.close();
}
const Registration kReportsCallers({"objects-reports-callers",
                                    "the same of callers with a history, and a damaged copy",
                                    reports_callers});

// The newest copy is damaged between sessions, and made anew from the other one.
void repaired(Run& run) {
  for (u64 session = 0; session < 4; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog, .checkpoint_calls = 6});
    groups(run, object, session == 2 ? 0 : 6);
    if (session == 1) run.close();
    else run.kill();
    if (session != 3) run.damage_copy("hot");
  }
}
const Registration kRepaired({"objects-repaired", "the newest copy is damaged, again and again",
                              repaired});

// Space and places of one that goes are another one's next.
void removed(Run& run) {
  run.open_objects();
  groups(run, run.objects().object("first", {.log_bytes = kSmallLog}), 3);
  groups(run, run.objects().object("second", {.log_bytes = 2 * kSmallLog}, ObjectState::kLarge), 2);
  run.objects().remove("first");
  groups(run, run.objects().object("third", {.log_bytes = kSmallLog}), 3);
  run.objects().remove("third");
  run.objects().remove("second");
  groups(run, run.objects().object("first", {.log_bytes = kSmallLog}, ObjectState::kLarge), 3);
  run.kill();
  run.open_objects();
  run.objects().object("first");
  run.objects().remove("first");
  groups(run,
         run.objects().object(
             "first", {.log_bytes = kSmallLog, .history = ObjectHistory::kLast, .callers = 4}),
         3);
  run.close();
}
const Registration kRemoved({"objects-removed", "objects come and go, also of one name", removed});

void large(Run& run) {
  run.open_objects();
  Handle& object = run.objects().object("wide", {.log_bytes = kSmallLog, .checkpoint_calls = 5},
                                        ObjectState::kLarge);
  groups(run, object, 10);
  run.kill();
}
const Registration kLarge({"objects-large", "a state of several pages", large});

// Beside a heap that has versions of its own.
void beside(Run& run) {
  for (u64 session = 0; session < 2; ++session) {
    run.open();
    run.open_objects();
    for (u64 i = 0; i < 3; ++i) {
      run.steps(10);
      groups(run, run.objects().object("one", {.log_bytes = kSmallLog, .checkpoint_calls = 6}), 2);
      run.checkpoint();
      groups(run,
             run.objects().object(
                 "two", {.log_bytes = kSmallLog, .history = ObjectHistory::kLast, .callers = 4}),
             2);
    }
    if (session == 0) run.close();
    else run.kill();
  }
}
const Registration kBeside({"objects-beside", "two objects, and a heap of the same store", beside});

void several(Run& run) {
  run.open_objects();
  Handle& one = run.objects().object("one", {.log_bytes = kSmallLog, .checkpoint_calls = 5});
  Handle& two = run.objects().object("two", {.log_bytes = kSmallLog}, ObjectState::kLarge);
  Handle& three = run.objects().object("three", {.log_bytes = kSmallLog,
                                                 .checkpoint_calls = 7,
                                                 .history = ObjectHistory::kLast,
                                                 .callers = 4});
  for (u64 i = 0; i < 4; ++i) {
    groups(run, one, 2);
    defer_some(run, two, 3);
    groups(run, three, 2);
    if (i == 2) two.checkpoint();
  }
  run.close();
}
const Registration kSeveral({"objects-several", "three objects of a region", several});

void power_cuts(Run& run) {
  for (u64 session = 0; session < 6; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("hot", {.log_bytes = kSmallLog, .checkpoint_calls = 7});
    groups(run, object, 1 + run.random(6));
    defer_some(run, object, run.random(20));
    run.cut_power();
  }
}
const Registration kPowerCuts({"objects-power-cuts", "power fails, and the calls go on",
                               power_cuts});

// A later program has more of them.
void methods(Run& run) {
  run.open_objects();
  Handle& before = run.objects().object("hot", {.log_bytes = kSmallLog}, ObjectState::kSmall, 3);
  for (u64 i = 0; i < 4; ++i) {
    before.put(1, i);
    before.tell(2, i);
  }
  run.kill();
  run.open_objects();
  groups(run, run.objects().object("hot"), 4);
  run.kill();
}
const Registration kMethods({"objects-methods", "a later program has more methods", methods});

// --- all calls are kept, and called again by each opening ----------------------------------------

ObjectOptions archived(u64 checkpoint_calls) {
  return {.log_bytes = kSmallLog,
          .checkpoint_calls = checkpoint_calls,
          .history = ObjectHistory::kAll,
          .callers = 4,
          .archive_bytes = kArchive};
}

void archive(Run& run) {
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("hot", archived(7));
    groups(run, object, 7);
    if (session == 1) object.checkpoint();
    if (session == 0) run.close();
    else run.kill();
  }
}
const Registration kArchived({"objects-archive", "all calls are kept, in three sessions", archive});

// Blocks of all that the log held.
void archive_wraps(Run& run) {
  run.open_objects();
  groups(run, run.objects().object("hot", archived(~u64{0})), 80);
  run.kill();
}
const Registration kArchiveWraps({"objects-archive-wrap", "the same, of a log that is used again",
                                  archive_wraps});

void archive_long(Run& run) {
  run.open_objects();
  Handle& object = run.objects().object("hot", archived(9));
  for (u64 i = 0; i < 10; ++i) {
    if (run.random(2) == 0) object.put_longer(static_cast<u32>(run.random(kLanes)), i);
    defer_some(run, object, run.random(4));
    object.tell(1, i);
  }
  run.kill();
}
const Registration kArchiveLong({"objects-archive-long", "the same, with arguments of many lines",
                                 archive_long});

void archive_relaxed(Run& run) {
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    ObjectOptions options = archived(12);
    options.durability = ObjectDurability::kRelaxed;
    Handle& object = run.objects().object("hot", options);
    groups(run, object, 6);
    object.sync();
    groups(run, object, 3);
    object.checkpoint();
    groups(run, object, 1);
    run.kill();
  }
}
const Registration kArchiveRelaxed({"objects-archive-relaxed",
                                    "calls are kept that the log never had", archive_relaxed});

void archive_masked(Run& run, bool is_written) {
  ObjectOptions options = archived(8);
  options.log_bytes = 4 * kSmallLog;
  masked(run, is_written, options,
         {"object archive", "object head", "object copy", "object archive"});
}
void archive_refused(Run& run) { archive_masked(run, false); }
const Registration kArchiveRefused({"objects-archive-refused",
                                    "blocks of calls cannot be written, and others follow",
                                    archive_refused});
void archive_failed(Run& run) { archive_masked(run, true); }
const Registration kArchiveFailed({"objects-archive-failed", "what failed is written all the same",
                                   archive_failed});

// The calls of the newest head's last block come from the log.
void archive_repaired(Run& run) {
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    groups(run, run.objects().object("hot", archived(6)), session == 1 ? 0 : 6);
    run.kill();
    if (session != 2) run.damage_copy("hot");
  }
}
const Registration kArchiveRepaired({"objects-archive-repaired",
                                     "the newest copy of one that keeps all calls is damaged",
                                     archive_repaired});

void archive_removed(Run& run) {
  run.open_objects();
  groups(run, run.objects().object("first", archived(5)), 4);
  groups(run, run.objects().object("second", {.log_bytes = kSmallLog}), 2);
  run.objects().remove("first");
  groups(run, run.objects().object("third", archived(9), ObjectState::kLarge), 4);
  run.kill();
  run.open_objects();
  run.objects().object("third", archived(9));
  run.objects().remove("third");
  groups(run, run.objects().object("first", archived(5)), 3);
  run.close();
}
const Registration kArchiveRemoved({"objects-archive-removed",
                                    "archives come and go with their objects", archive_removed});

void archive_power_cuts(Run& run) {
  for (u64 session = 0; session < 5; ++session) {
    run.open_objects();
    Handle& object = run.objects().object("hot", archived(7));
    groups(run, object, 1 + run.random(5));
    defer_some(run, object, run.random(12));
    run.cut_power();
  }
}
const Registration kArchivePowerCuts({"objects-archive-power-cuts",
                                      "power fails, and the program is run again",
                                      archive_power_cuts});

}  // namespace
}  // namespace perdura::proof
