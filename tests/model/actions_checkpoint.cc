// Versions, as they are made and waited for.
#include <chrono>
#include <thread>

#include "live.hpp"

namespace perdura::model {
namespace {

/// Everything before it is in a version: what features do now, they do behind it.
void begin_epoch(const Live& live) {
  if (live.session.parallel) return;
  FeatureSet of_the_session =
      bit(Feature::kUndoLogging) | bit(Feature::kMoved) | bit(Feature::kReopened) |
      bit(Feature::kRecovered) | bit(Feature::kFault) | bit(Feature::kVersions) |
      bit(Feature::kRollback) | bit(Feature::kRemovedRegion) | bit(Feature::kFullDisk) |
      bit(Feature::kReadOnly) | bit(Feature::kMemcached);
  for (size_t i = 0; i <= static_cast<size_t>(Feature::kTyped); ++i) of_the_session.set(i);
  live.journal.keep_features(of_the_session);
}

const ActionRegistration kCheckpoint({
    .name = "checkpoint",
    .weight = 2,
    .run =
        [](Live& live, LaneRun&, const Action&) {
          const Done done = live.done();
          const u64 version = live.library([&] { return live.store->checkpoint(); });
          require(live.store->durable_version() >= version,
                  "a checkpoint returned before it was durable");
          live.acknowledge(done);
          live.was_starved = false;
          live.note_mended();
          if (!live.session.parallel) {  // nobody changes anything meanwhile
            live.journal.note_version(version, live.number(), done.lanes);
          }
          begin_epoch(live);
        },
    .covers = true,
});

const ActionRegistration kCheckpointAsync({
    .name = "checkpoint_async",
    .weight = 1,
    .run =
        [](Live& live, LaneRun&, const Action&) {
          live.journal.use(Feature::kAsynchronous);
          const Done done = live.done();
          const u64 version = live.library([&] { return live.store->checkpoint_async(); });
          std::lock_guard lock(live.pending_mutex);
          live.pending.push_back({version, done, live.is_starved});
        },
});

const ActionRegistration kWait({
    .name = "wait",
    .weight = 0.8,
    .run =
        [](Live& live, LaneRun&, const Action&) {
          Live::Pending pending;
          {
            std::lock_guard lock(live.pending_mutex);
            if (live.pending.empty()) return;
            pending = live.pending.front();
            live.pending.pop_front();
          }
          try {
            live.library([&] { live.store->wait(pending.version); });
          } catch (const Error& error) {
            if (!pending.was_starved || error.code() != Code::kNoMemory) throw;
            return;
          }
          require(live.store->durable_version() >= pending.version,
                  "a version that was waited for is not durable");
          live.acknowledge(pending.done);
        },
});

const ActionRegistration kTimer({
    .name = "checkpoint_every",
    .weight = 0.5,
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          live.journal.use(Feature::kTimer);
          live.store->checkpoint_every(std::chrono::milliseconds(action.number % 4));
        },
});

/// Time for what goes on in the background; nothing follows from it.
const ActionRegistration kPause({
    .name = "pause",
    .weight = 0.5,
    .run =
        [](Live&, LaneRun&, const Action& action) {
          std::this_thread::sleep_for(std::chrono::microseconds(action.number % 3000));
        },
});

/// The store against the model, in the middle of it.
const ActionRegistration kVerify({
    .name = "verify",
    .weight = 0.7,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          const std::string problem =
              live.session.parallel ? compare(live, run.model, run.number) : compare_all(live);
          require(problem.empty(), "at action " + std::to_string(action.id) + ": " + problem);
        },
});

}  // namespace
}  // namespace perdura::model
