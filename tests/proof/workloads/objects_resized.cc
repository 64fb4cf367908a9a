// Objects that get other sizes between their calls, whose calls say of each how large it was.
#include "recording.hpp"

namespace perdura::proof {
namespace {

using Handle = LoggedObjects::Handle;

constexpr u64 kLog = 8192;

ObjectOptions options() { return {.log_bytes = kLog, .checkpoint_calls = 7}; }

void some_calls(Run& run, Handle& object) {
  for (u64 k = run.random(4); k != 0; --k)
    object.put(static_cast<u32>(run.random(kLanes)), run.random(1000));
  if (run.random(3) == 0) object.put_long(static_cast<u32>(run.random(kLanes)), run.random(1000));
  object.tell(static_cast<u32>(run.random(kLanes)), run.random(1000));
}

/// Of up to three pages, often of none; sometimes twice, and sometimes behind what nobody waits
/// for.
void some_sizes(Run& run, Handle& object, u64 count) {
  for (u64 i = 0; i < count; ++i) {
    some_calls(run, object);
    if (run.random(2) == 0) object.put(0, run.random(1000));
    object.resize(run.random(3) == 0 ? 0 : run.random(1500));
    if (run.random(4) == 0) object.resize(run.random(400));
  }
  some_calls(run, object);
}

void resized(Run& run) {
  run.open_objects();
  some_sizes(run, run.objects().object("row", options(), ObjectState::kFlexible), 5);
  run.kill();
}
const Registration kResized({"objects-resized", "an object gets larger and smaller", resized});

// Each gets space that the other one had.
void two(Run& run) {
  for (u64 session = 0; session < 3; ++session) {
    run.open_objects();
    for (u64 i = 0; i < 3; ++i)
      for (const char* name : {"one", "two"})
        some_sizes(run, run.objects().object(name, options(), ObjectState::kFlexible), 1);
    if (session % 2 == 0) run.kill();
    else run.close();
  }
}
const Registration kTwo({"objects-resized-sessions", "two of them, in sessions", two});

void power_cuts(Run& run) {
  for (u64 session = 0; session < 4; ++session) {
    run.open_objects();
    some_sizes(run, run.objects().object("row", options(), ObjectState::kFlexible), 3);
    run.cut_power();
  }
}
const Registration kPowerCuts({"objects-resized-power-cuts",
                               "power fails, and sizes go on changing", power_cuts});

void callers(Run& run) {
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    ObjectOptions with = options();
    with.history = ObjectHistory::kLast;
    with.callers = 4;
    some_sizes(run, run.objects().object("row", with, ObjectState::kFlexible), 4);
    run.kill();
  }
}
const Registration kCallers({"objects-resized-callers", "sizes change in front of a history",
                             callers});

void relaxed(Run& run) {
  run.open_objects();
  ObjectOptions with = options();
  with.durability = ObjectDurability::kRelaxed;
  Handle& object = run.objects().object("row", with, ObjectState::kFlexible);
  some_sizes(run, object, 4);
  object.sync();
  run.kill();
}
const Registration kRelaxed({"objects-resized-relaxed", "what was not durable is so with the size",
                             relaxed});

// A resize that fails is the last thing of its session.
void refused(Run& run, bool is_written) {
  for (const char* site : {"object copy", "object head", "object head"}) {
    run.open_objects();
    Handle& object = run.objects().object("row", options(), ObjectState::kFlexible);
    some_sizes(run, object, 1);
    run.refuse({.site = site, .after = run.random(3), .count = 1, .is_written = is_written});
    try {
      for (u64 i = 0; i < 3; ++i) object.resize(run.random(1000));
    } catch (const Error&) {
    }
    run.refuse({});
    run.kill();
  }
}
void not_written(Run& run) { refused(run, false); }
const Registration kNotWritten({"objects-resized-refused",
                                "resizes fail, and the next session goes on", not_written});
void written(Run& run) { refused(run, true); }
const Registration kWritten({"objects-resized-failed",
                             "what failed of a resize is written all the same", written});

// Space for two of three, and for one twice: others move out, and one that is away comes home.
void overflowing(Run& run) {
  run.limit_objects(2 * (4 * kPageBytes + kLog) + 4 * kPageBytes);
  for (u64 session = 0; session < 2; ++session) {
    run.open_objects();
    for (u64 i = 0; i < 5; ++i) {
      Handle& object = run.objects().object("number " + std::to_string(run.random(3)), options(),
                                            ObjectState::kFlexible);
      some_calls(run, object);
      object.resize(run.random(900));
      some_calls(run, object);
    }
    run.kill();
  }
}
const Registration kOverflowing({"overflow-resized", "objects that move get other sizes",
                                 overflowing});

}  // namespace
}  // namespace perdura::proof
