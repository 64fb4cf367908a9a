// What is done to a store that nobody has open: looked at, as `perdura check` does and by an
// opening that reads, also by several who may not write; taken back to an older version; freed of a
// region.
#include <sys/stat.h>

#include "live.hpp"
#include "media/medium.hpp"
#include "model/own_store.hpp"
#include "store/inspect.hpp"
#include "store/runtime.hpp"
#include "store/versions.hpp"
#include "support/process.hpp"
#include "support/somebody_else.hpp"

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

/// Those that the program's own calls make.
void inspect_own() {
  const std::string uri = detail::own_store_uri();
  for (const char* const suffix : {"", "-heap", kSoftpmSuffix})
    inspect(media::uri_beside(uri, suffix));
}

/// The newest version, as who may not write opens it. Nothing is left of what is stored there.
void read_newest(const Program& program, const std::string& uri, u64 version,
                 const Journal& journal) {
  Options options = program.options;
  options.version = version;
  options.create = false;
  Store store = Store::open(uri, options);
  auto* const world = static_cast<World*>(store.get_root("world"));
  require(world != nullptr || !journal.world_acknowledged, "the world is not in what is read");
  if (world != nullptr) {
    for (u64 lane = 0; lane < kLanes; ++lane)
      require(world->lanes[lane]->operation >= journal.acknowledged[lane].operation,
              "what is read is older than what was acknowledged");
    const auto operation = store.operation();
    operation.touch(&world->accounts, sizeof world->accounts);
    for (std::int64_t& account : world->accounts) account += 1;
  }
  try {
    store.checkpoint();
  } catch (const Error& error) {
    require(error.code() == Code::kUnsupported,
            std::string("a checkpoint of what is read threw: ") + error.what());
    return store.close();
  }
  throw Problem("a checkpoint of what is read was accepted");
}

void look(const Program& program, const std::string& uri, const Journal& journal) {
  inspect(uri);
  const auto outline = store::outline(uri, {});
  if (!outline) {
    require(outline.failure().code == Code::kNotFound || outline.failure().code == Code::kForeign,
            "perdura info fails: " + outline.failure().message);
    return;
  }
  if (outline->regions.empty() || outline->regions[0].versions.empty()) return;
  read_newest(program, uri, outline->regions[0].versions.back().number, journal);
}

/// By two at a time, who may not write to the file if it is one; on a server by one.
void look_without_permission(const Program& program, const std::string& uri, Journal& journal) {
  const std::string path = uri.substr(uri.find(':') + 1);
  const bool is_file = program.medium != "memcached";
  if (is_file && ::chmod(path.c_str(), 0444) != 0) return;  // there is none yet
  journal.use(Feature::kReadOnly);
  const auto body = [&]() -> std::string {
    if (!test::become_somebody_else()) return "cannot become somebody else";
    if (is_file && ::access(path.c_str(), W_OK) == 0) return "may write";
    look(program, uri, journal);
    return "";
  };
  std::list<test::Child> children;
  for (int i = 0; i < (is_file ? 2 : 1); ++i) children.emplace_back(body);
  for (test::Child& child : children) {
    const std::string problem = child.wait();
    require(problem.empty(), "looking without permission to write: " + problem);
  }
  if (is_file) require(::chmod(path.c_str(), 0600) == 0, "cannot give a permission back");
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

/// What the region held is gone, and what makes it anew begins with nothing.
void remove_region(const std::string& uri, Part part, Journal& journal) {
  const u64 acknowledged = journal.acknowledged_of(part).exchange(0);
  const Status removed = store::remove_region(uri, region_of(part), {});
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
  if (number != 0 && session.inspect && program.own) inspect_own();
  // While the process has one thread.
  if (number != 0 && session.read_only) look_without_permission(program, uri, journal);
  if (program.own) {
    open_own(journal);
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
