#include <perdura/testing.hpp>

#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "explorer.hpp"
#include "folder.hpp"
#include "recovered.hpp"
#include "store/runtime.hpp"

namespace perdura::testing {
namespace {

constexpr Tearing kTearing = Tearing::kWords;

/// A run of the program under test.
struct Recorded {
  media::History history;
  media::Geometry geometry;
  std::vector<Acknowledgement> acknowledged;
};

std::string uri(const Folder& folder) { return "emu:" + folder.path("store.pd"); }

Recorded record(const CrashTestOptions& options, const std::function<void(Store&)>& run) {
  Recorded recorded;
  const Folder folder;
  media::Recording recording;
  auto runtime = value_or_throw(detail::Runtime::open(
      uri(folder), options.store, {.wrap = [&](std::unique_ptr<media::Medium> inner) {
        recorded.geometry = inner->geometry();
        return recording.wrap(std::move(inner));
      }}));
  detail::Runtime& inside = *runtime;
  Store store = detail::StoreAccess::store(std::move(runtime));
  const auto acknowledge = [&](u64 version) {
    recorded.acknowledged.push_back({version, recording.size()});
  };
  if (options.checkpoint_everywhere) {
    std::mutex mutex;
    inside.mutators().before_operations([&] {
      if (store.durable_version() >= options.versions_max) return;
      const u64 version = value_or_throw(inside.checkpoint());
      std::lock_guard lock(mutex);
      acknowledge(version);
    });
    run(store);
    inside.mutators().before_operations({});
  } else {
    run(store);
  }
  acknowledge(store.checkpoint());
  store.close();
  recorded.history = recording.history();
  return recorded;
}

}  // namespace

std::string CrashTestReport::text() const {
  const std::string covered = std::to_string(executions) + " recoveries of " +
                              std::to_string(states) + " crash states, " +
                              std::to_string(versions) + " versions checked";
  if (ok()) return covered + ": all is well";
  return "after a failure, version " + std::to_string(version) + ": " + problem + " (" + covered +
         ")";
}

CrashTestReport crash_test(const CrashTestOptions& options, const std::function<void(Store&)>& run,
                           const std::function<std::string(Store&)>& check) {
  const Recorded recorded = record(options, run);
  CrashTestReport report;
  const auto recovered = [&](Execution& execution) { return recover(execution, options.store); };

  // The library's own promise first: a version, and none that was acknowledged is lost.
  Explorer explorer(recorded.geometry, {}, [&](Execution& execution, size_t call) -> Outcome {
    const u64 version_min = acknowledged_by(recorded.acknowledged, call);
    const Recovered result = recovered(execution);
    Outcome outcome{result.problem, result.version, 1};
    if (outcome.problem.empty() && result.version < version_min)
      outcome.problem = "version " + std::to_string(version_min) + " was acknowledged and is lost";
    if (outcome.problem.empty()) outcome.problem = load_chunks(result);
    return outcome;
  });
  const std::vector<size_t> ends = recorded.history.crash_points();
  for (const size_t end : ends) {
    CrashState state(recorded.history, end, kTearing);
    if (!explorer.explore(state, end)) {
      report.problem = explorer.problem()->what;
      break;
    }
  }
  report.states = explorer.coverage().states;
  report.executions = explorer.coverage().executions;
  report.log10_contents = explorer.coverage().log10_contents;
  if (!report.ok()) return report;

  // Then each version as a store, as the program would find it, with the transactions behind it.
  const Folder folder;
  Options reopening = options.store;
  reopening.create = false;
  std::set<std::pair<u64, std::vector<u64>>> opened;
  for (const size_t end : ends) {
    const CrashState state = CrashState(recorded.history, end, kTearing).nothing_lost();
    Choices choices;
    Execution execution(state, recorded.geometry, choices, nullptr, {});
    const Recovered result = recovered(execution);
    const u64 version = result.version;
    std::vector<u64> transactions;
    for (const log::FoundRecord& each : result.log.records) transactions.push_back(each.offset);
    if (version == 0 || !opened.emplace(version, std::move(transactions)).second) continue;
    write_file(folder.path("store.pd"), state.image());
    Store store = Store::open(uri(folder), reopening);
    const HeapAudit audit = store.audit();
    ++report.versions;
    report.problem = audit.clean ? check(store) : "the heap is damaged: " + audit.problem;
    report.version = version;
    store.close();
    if (!report.ok()) break;
  }
  return report;
}

}  // namespace perdura::testing
