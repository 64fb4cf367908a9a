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

// What moved out with its log is opened, and not called: nothing of it waits when it is closed.
void emptied(Run& run) {
  limit(run, 1);
  for (u64 session = 0; session < 5; ++session) {
    run.open_objects();
    if (session % 3 == 2) {
      for (u64 i = 0; i < kObjects; ++i)
        run.objects().object("number " + std::to_string(i), small());
      run.close();
    } else {
      at_random(run, 3, small());
      run.kill();
    }
  }
}
const Registration kEmptied({"overflow-emptied", "objects that moved with their logs are closed",
                             emptied});

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

// The last one that is called comes home for it, and its copy here is damaged then: what stands in
// for the other one makes it anew.
void repaired(Run& run) {
  limit(run, 2);
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    std::string last;
    for (u64 i = 0; i < 4; ++i) {
      last = "number " + std::to_string((session + i) % 3);
      some_calls(run, run.objects().object(last, small()));
    }
    run.kill();
    if (session != 2) run.damage_copy(last);
  }
}
const Registration kRepaired({"overflow-repaired", "the copy of one that came home is damaged",
                              repaired});

/// Objects that need others' space are called: they may stay away, and then that was no call.
void call_those_that_can_come(Run& run, u64 calls) {
  for (u64 i = 0; i < calls; ++i)
    run.objects()
        .object("number " + std::to_string(run.random(kObjects)), small())
        .tell_unless_it_stays_away(static_cast<u32>(run.random(kLanes)), run.random(1000));
}

void have_all(Run& run) {
  for (u64 i = 0; i < kObjects; ++i)
    some_calls(run, run.objects().object("number " + std::to_string(i), small()));
}

// The overflow store has no space at first, and takes no copies later.
void full(Run& run) {
  limit(run, 2);
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    if (session == 0) {
      for (const char* name : {"number 0", "number 1"})
        some_calls(run, run.objects().object(name, small()));
      run.refuse({.site = "more space"});
      bool is_refused = false;
      try {
        run.objects().object("number 2", small());
      } catch (const Error&) {
        is_refused = true;
      }
      if (!is_refused) throw std::runtime_error("an object has space where there is none");
      some_calls(run, run.objects().object("number 0", small()));
      run.refuse({});
    }
    have_all(run);
    run.refuse({.site = "overflow copy", .after = run.random(2)});
    call_those_that_can_come(run, 6);
    run.refuse({});
    at_random(run, 3, small());
    run.kill();
  }
}
const Registration kFull({"overflow-full", "nothing can move out for a while", full});

// A move that fails is none, and all go on. Where it cannot be told whether a head was written the
// session ends.
void going_on(Run& run, bool is_written) {
  limit(run, 2);
  run.open_objects();
  have_all(run);
  try {
    for (const char* site : {"overflow copy", "object copy", "object head", "object head"}) {
      run.refuse({.site = site, .after = run.random(3), .count = 1, .is_written = is_written});
      call_those_that_can_come(run, 4);
      run.refuse({});
      at_random(run, 1, small());
    }
  } catch (const Error&) {
    run.refuse({});
  }
  run.kill();
}
void going_on_not_written(Run& run) { going_on(run, false); }
const Registration kGoingOn({"overflow-refused-once", "a move fails, and the same objects go on",
                             going_on_not_written});
void going_on_written(Run& run) { going_on(run, true); }
const Registration kGoingOnWritten({"overflow-failed-once",
                                    "what failed of a move is written, and the objects go on",
                                    going_on_written});

}  // namespace
}  // namespace perdura::proof
