// Stores as benchmarks use them: whatever they do in the background happens on the background CPU,
// and is over before something else is measured.
#pragma once

#include <chrono>
#include <string>

#include <perdura/store.hpp>

#include "harness.hpp"

namespace perdura::bench {

/// Threads inherit their affinity from the one that creates them: those of the store run on
/// `background_cpu`.
Store open_store(const std::string& uri, const Options& options = {},
                 int background_cpu = kBackgroundCpu);

/// Leaves a new store as it is after long use: log, heap and home image have space that was written
/// before and is to be written again. Otherwise short runs have more of its first use than long
/// ones.
void warm_up(Store& store);

/// Wait until the home image holds the newest durable version. False when that takes longer than
/// `seconds_max`.
bool wait_replayed(const Store& store, double seconds_max = 20);

/// No timer, nothing left to write, nothing to replay.
bool settle(Store& store);

/// What a detail says about a run: the counters that changed between two snapshots.
Json difference(const Statistics& before, const Statistics& after);

}  // namespace perdura::bench
