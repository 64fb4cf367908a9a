// Objects that are written much, and move within their store to where less was written.
#include "recording.hpp"

namespace perdura::proof {
namespace {

using Handle = LoggedObjects::Handle;

constexpr u64 kLog = 8192;

/// A checkpoint after every third call, and a move after every few of these.
ObjectOptions options(ObjectDurability durability = ObjectDurability::kInstants) {
  return {.log_bytes = kLog, .checkpoint_calls = 3, .durability = durability};
}

void some_calls(Run& run, Handle& object, u64 count) {
  for (u64 i = 0; i < count; ++i) {
    for (u64 k = run.random(3); k != 0; --k)
      object.put(static_cast<u32>(run.random(kLanes)), run.random(1000));
    object.tell(static_cast<u32>(run.random(kLanes)), run.random(1000));
  }
}

void worn(Run& run) {
  run.level_wear(2);
  run.open_objects();
  run.objects().object("cold", options());
  some_calls(run, run.objects().object("hot", options()), 30);
  some_calls(run, run.objects().object("cold", options()), 2);
  run.kill();
}
const Registration kWorn({"objects-wear", "an object moves away from places that are worn", worn});

// Who comes and goes leaves worn places to others, and in sessions what heads say of them counts.
void sessions(Run& run) {
  run.level_wear(2);
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    some_calls(run, run.objects().object("hot", options()), 9);
    some_calls(run, run.objects().object("short-lived", options()), 5);
    run.objects().remove("short-lived");
    some_calls(run, run.objects().object("large", options(), ObjectState::kLarge), 6);
    if (session % 2 == 0) run.kill();
    else run.close();
  }
}
const Registration kSessions({"objects-wear-sessions", "the same, where objects come and go",
                              sessions});

void power_cuts(Run& run) {
  run.level_wear(1);
  for (u64 session = 0; session < 5; ++session) {
    run.open_objects();
    some_calls(run, run.objects().object("hot", options()), 8);
    run.cut_power();
  }
}
const Registration kPowerCuts({"objects-wear-power-cuts", "power fails, and objects go on moving",
                               power_cuts});

void relaxed(Run& run) {
  run.level_wear(2);
  run.open_objects();
  Handle& object = run.objects().object("hot", options(ObjectDurability::kRelaxed));
  some_calls(run, object, 20);
  object.sync();
  some_calls(run, object, 8);
  run.kill();
}
const Registration kRelaxed({"objects-wear-relaxed", "objects whose calls are relaxed move",
                             relaxed});

// Of one that keeps all calls the head alone moves.
void recorded(Run& run) {
  run.level_wear(2);
  ObjectOptions kept = options();
  kept.history = ObjectHistory::kAll;
  kept.callers = 4;
  kept.archive_bytes = 1 << 16;
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    some_calls(run, run.objects().object("kept", kept), 10);
    if (session % 2 == 0) run.kill();
    else run.close();
  }
}
const Registration kRecorded({"objects-wear-recorded",
                              "the heads of objects that keep all calls move", recorded});

// A move that fails says so to the next call, which is the last one of its session.
void refused(Run& run, bool is_written) {
  run.level_wear(1);
  for (const char* site : {"object copy", "object head", "object head"}) {
    run.open_objects();
    Handle& object = run.objects().object("hot", options());
    some_calls(run, object, 4);
    run.refuse({.site = site, .after = run.random(4), .count = 1, .is_written = is_written});
    try {
      some_calls(run, object, 12);
    } catch (const Error&) {
    }
    run.refuse({});
    run.kill();
  }
}
void not_written(Run& run) { refused(run, false); }
const Registration kNotWritten({"objects-wear-refused", "moves fail, and the next session goes on",
                                not_written});
void written(Run& run) { refused(run, true); }
const Registration kWritten({"objects-wear-failed", "what failed of a move is written all the same",
                             written});

void overflowing(Run& run) {
  run.level_wear(2);
  run.limit_objects(3 * (2 * kPageBytes + kLog) + 5 * kPageBytes);
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    for (u64 i = 0; i < 6; ++i)
      some_calls(run, run.objects().object("number " + std::to_string(run.random(4)), options()),
                 4);
    run.kill();
  }
}
const Registration kOverflowing({"overflow-wear", "objects move within their store and out of it",
                                 overflowing});

}  // namespace
}  // namespace perdura::proof
