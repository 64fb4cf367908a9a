// Objects of which a few have space in their store: the others are in an overflow store, and change
// places with these when they are called.
#include "recording.hpp"

namespace perdura::proof {
namespace {

using Handle = LoggedObjects::Handle;

constexpr u64 kLog = 8192;
constexpr u64 kSmall = 2 * kPageBytes + kLog;
constexpr u64 kObjects = 4;

ObjectOptions small(ObjectDurability durability = ObjectDurability::kInstants) {
  return {.log_bytes = kLog, .checkpoint_calls = 7, .durability = durability};
}

/// So many small ones have space, and the names of functions of all.
void limit(Run& run, u64 fit) { run.limit_objects(fit * kSmall + (kObjects + 1) * kPageBytes); }

void some_calls(Run& run, Handle& object) {
  for (u64 k = run.random(3); k != 0; --k)
    object.put(static_cast<u32>(run.random(kLanes)), run.random(1000));
  object.tell(static_cast<u32>(run.random(kLanes)), run.random(1000));
}

void at_random(Run& run, u64 calls, const ObjectOptions& options) {
  for (u64 i = 0; i < calls; ++i)
    some_calls(run,
               run.objects().object("number " + std::to_string(run.random(kObjects)), options));
}

// Two of three have space: each call of another one moves one out and one home.
void swapped(Run& run) {
  limit(run, 2);
  run.open_objects();
  at_random(run, 10, small());
  run.kill();
}
const Registration kSwapped({"overflow", "more objects than fit, called at random", swapped});

void sessions(Run& run) {
  limit(run, 2);
  for (u64 session = 0; session < 4; ++session) {
    run.open_objects();
    at_random(run, 4, small());
    if (session % 2 == 0) run.kill();
    else run.close();
  }
}
const Registration kSessions({"overflow-sessions", "the same in sessions that end and are ended",
                              sessions});

void power_cuts(Run& run) {
  limit(run, 1 + run.random(2));
  for (u64 session = 0; session < 5; ++session) {
    run.open_objects();
    at_random(run, 4, small());
    run.cut_power();
  }
}
const Registration kPowerCuts({"overflow-power-cuts", "power fails, and objects go on moving",
                               power_cuts});

// What was not in the log is durable with the copy that moves.
void relaxed(Run& run) {
  limit(run, 2);
  run.open_objects();
  for (u64 i = 0; i < 10; ++i) {
    Handle& object = run.objects().object("number " + std::to_string(run.random(kObjects)),
                                          small(ObjectDurability::kRelaxed));
    some_calls(run, object);
    if (i % 4 == 1) object.sync();
  }
  run.close();
}
const Registration kRelaxed({"overflow-relaxed", "objects whose calls are relaxed move", relaxed});

void callers(Run& run) {
  limit(run, 2);
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    ObjectOptions options = small();
    options.history = ObjectHistory::kLast;
    options.callers = 4;
    at_random(run, 6, options);
    run.kill();
  }
}
const Registration kCallers({"overflow-callers", "objects move with the histories of their callers",
                             callers});

// Their space, in both stores, is others'.
void removed(Run& run) {
  limit(run, 2);
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    at_random(run, 4, small());
    for (const char* name : {"number 0", "number 2"}) {
      run.objects().object(name, small());
      run.objects().remove(name);
    }
    at_random(run, 5, small());
    run.kill();
  }
}
const Registration kRemoved({"overflow-removed", "objects are removed from both stores", removed});

// One of four pages takes the space of two that have one.
void large(Run& run) {
  run.limit_objects(3 * kSmall + 8 * kPageBytes);
  run.open_objects();
  for (u64 i = 0; i < 8; ++i) {
    if (i % 3 == 2) some_calls(run, run.objects().object("large", small(), ObjectState::kLarge));
    else at_random(run, 1, small());
  }
  run.kill();
}
const Registration kLarge({"overflow-large", "objects of several sizes", large});

// Copies and heads that fail, and are not there; and those that fail and are. A call that fails is
// the last one of its session.
void refused(Run& run, bool is_written) {
  limit(run, 2);
  for (const char* site : {"overflow copy", "object head", "object copy"}) {
    run.open_objects();
    at_random(run, 4, small());
    run.refuse({.site = site, .after = run.random(2), .count = 1, .is_written = is_written});
    try {
      at_random(run, 5, small());
    } catch (const Error&) {
    }
    run.refuse({});
    run.kill();
  }
}
void not_written(Run& run) { refused(run, false); }
const Registration kNotWritten({"overflow-refused", "moves fail, and others follow", not_written});
void written(Run& run) { refused(run, true); }
const Registration kWritten({"overflow-failed", "what failed of a move is written all the same",
                             written});

}  // namespace
}  // namespace perdura::proof
