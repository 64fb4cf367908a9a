// What is done to a store that nobody has open: looked at, as `perdura check` does and by an
// opening that reads; taken back to an older version; freed of a region.
#include "live.hpp"
#include "store/inspect.hpp"
#include "store/runtime.hpp"
#include "store/versions.hpp"

namespace perdura::model {
namespace {

void inspect(const std::string& uri) {
  const auto report = store::check(uri, {});
  if (!static_cast<bool>(report)) {
    // No store yet, or one that a crash left unfinished.
    require(report.failure().code == Code::kNotFound || report.failure().code == Code::kForeign,
            "perdura check fails: " + report.failure().message);
    return;
  }
  for (const store::Finding& finding : report->findings)
    require(finding.severity != store::Finding::Severity::kDamage,
            "perdura check finds damage: " + finding.part + ": " + finding.message);
}

/// A version that was acknowledged is there as it was, as long as it is kept.
void look_back(const Program& program, const std::string& uri, Journal& journal) {
  const u64 version = journal.last_version.number;
  if (version == 0) return;
  Options options = program.options;
  options.version = version;
  options.create = false;
  auto runtime = detail::Runtime::open(uri, options);
  if (!runtime) {
    require(runtime.failure().code == Code::kNotFound,
            "a version cannot be opened: " + runtime.failure().message);
    return;
  }
  journal.use(Feature::kVersions);
  Store store = detail::StoreAccess::store(std::move(*runtime));
  const auto* const world = static_cast<const World*>(store.get_root("world"));
  require(world != nullptr && world->lanes[0]->operation == journal.last_version.operations[0],
          "version " + std::to_string(version) + " is not what it was");
  const HeapAudit audit = store.audit();
  require(audit.clean, "a kept version is damaged: " + audit.problem);
}

/// The last session's last version becomes the newest one again. From then on no lane has come
/// further than there.
void roll_back(const std::string& uri, size_t session, Journal& journal) {
  const Journal::LastVersion& last = journal.last_version;
  size_t before = session;
  while (before != 0 && !journal.sessions[before - 1].opened) --before;
  if (last.number == 0 || before == 0 || last.session + 1 != before) return;
  // The process may be killed in the middle of it.
  for (u64 lane = 0; lane < kLanes; ++lane)
    journal.acknowledged[lane].operation = last.operations[lane].load();
  const auto made = store::roll_back(uri, "", last.number, {});
  if (!made) {
    require(made.failure().code == Code::kNotFound, "a rollback fails: " + made.failure().message);
    return;
  }
  journal.is_rolled_back = true;
  journal.last_version.number = 0;
  journal.use(Feature::kRollback);
}

constexpr const char* name_of(Part part) { return part == Part::kGuest ? "guest" : "plain"; }

/// What the region held is gone, and what makes it anew begins with nothing.
void remove_region(const std::string& uri, Part part, Journal& journal) {
  const u64 acknowledged = journal.acknowledged_of(part).exchange(0);
  const Status removed = store::remove_region(uri, name_of(part), {});
  if (!removed) {
    require(removed.failure().code == Code::kNotFound && acknowledged == 0,
            "a region cannot be removed: " + removed.failure().message);
    return;
  }
  journal.done_of(part) = 0;
  journal.use(Feature::kRemovedRegion);
}

}  // namespace

void prepare(const Program& program, size_t number, const std::string& uri, Journal& journal) {
  const Session& session = program.sessions[number];
  if (program.own) {
    open_own(uri, journal);
    open_heapo(journal);
  }
  if (number == 0) return;
  if (session.inspect) inspect(uri);
  if (session.look_back) look_back(program, uri, journal);
  if (session.roll_back) roll_back(uri, number, journal);
  if (session.removed != Part::kCount && journal.world_acknowledged)
    remove_region(uri, session.removed, journal);
}

}  // namespace perdura::model
