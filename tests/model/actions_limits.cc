// Limits that are reached and lifted, and counters that run far.
#include <chrono>
#include <thread>

#include "live.hpp"

namespace perdura::model {
namespace {

const ActionRegistration kMakeRoom({
    .name = "make_room",
    .weight = 2,
    .possible = [](const Program&, const Session& session) { return session.full_disk; },
    .run =
        [](Live& live, LaneRun&, const Action&) {
          live.faults->disarm();
          live.has_room = true;
        },
});

/// A timer of forever takes no checkpoint.
const ActionRegistration kForever({
    .name = "operate_beside_a_timer_of_forever",
    .weight = 0.4,
    .has_steps = true,
    .possible =
        [](const Program&, const Session& session) {
          return !session.parallel && session.fault_at == 0 && !session.full_disk;
        },
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          live.journal.use(Feature::kTimer);
          live.store->checkpoint_every(std::chrono::milliseconds::max());
          const Done done = live.done();
          const u64 version = live.store->checkpoint();
          live.acknowledge(done);
          action_kind("operate").run(live, run, action);
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          require(live.store->durable_version() == version, "a timer of forever took a checkpoint");
          live.store->checkpoint_every(std::chrono::milliseconds(0));
        },
});

/// More versions than fit half the range of 16 bits.
const ActionRegistration kAge({
    .name = "age",
    .weight = 0.05,
    .possible =
        [](const Program& program, const Session& session) {
          return program.medium == "emu" && program.transactions() && !session.parallel &&
                 reports_stores(session.options) && session.end != End::kPower &&
                 session.end != End::kMediumCall && session.fault_at == 0 && !session.full_disk;
        },
    .run =
        [](Live& live, LaneRun& run, const Action&) {
          constexpr u64 kVersions = 33'000;
          const Done done = live.done();
          u64& scratch = run.lane->awaited.scratch;
          for (u64 i = 0; i < kVersions; ++i) {
            {
              const auto operation = live.store->operation();
              operation.touch(&scratch, sizeof scratch);
              ++scratch;
            }
            live.store->checkpoint();
          }
          live.acknowledge(done);
        },
    .covers = true,
});

}  // namespace
}  // namespace perdura::model
