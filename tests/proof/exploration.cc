#include "exploration.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <tuple>

namespace perdura::proof {
namespace {

using media::RecordedCall;
using testing::CrashState;

/// Recoveries of one task, after which further crash points are left to other seeds.
constexpr u64 kTaskExecutionsMax = 200'000;

testing::ExplorerOptions options_for(const RunRecord& run, const testing::Mutation* mutation,
                                     int depth) {
  return {.depth = depth, .seed = run.seed, .mutation = mutation};
}

// --- files of findings

/// Sites of loaded histories live for ever, like those of the program.
const testing::Site* site_of(const std::string& file, int line, const std::string& what) {
  static std::mutex mutex;
  static std::set<std::tuple<std::string, int, std::string>> names;
  static std::map<const void*, testing::Site> sites;
  std::lock_guard lock(mutex);
  const auto& [kept_file, kept_line, kept_what] = *names.emplace(file, line, what).first;
  testing::Site& site = sites[&kept_line];
  site = {kept_file.c_str(), kept_line, kept_what.c_str()};
  return &site;
}

Json binary(const std::vector<std::byte>& bytes) {
  const auto* const data = reinterpret_cast<const u8*>(bytes.data());
  return Json::binary({data, data + bytes.size()});
}

std::vector<std::byte> bytes_of(const Json& json) {
  const auto& binary = json.get_binary();
  const auto* const data = reinterpret_cast<const std::byte*>(binary.data());
  return {data, data + binary.size()};
}

Json json_of(const RecordedCall& call) {
  Json json = {{"kind", static_cast<int>(call.kind)},
               {"succeeded", call.succeeded},
               {"offset", call.offset},
               {"bytes", binary(call.bytes)},
               {"queue", call.queue},
               {"pending_max", call.pending_max},
               {"size", call.size},
               {"unwritten", call.unwritten},
               {"covers", call.covers},
               {"medium", call.medium}};
  if (call.site != nullptr) json["site"] = {call.site->file, call.site->line, call.site->what};
  return json;
}

RecordedCall call_of(const Json& json) {
  RecordedCall call{.kind = static_cast<RecordedCall::Kind>(json.at("kind").get<int>()),
                    .succeeded = json.at("succeeded"),
                    .offset = json.at("offset"),
                    .bytes = bytes_of(json.at("bytes")),
                    .queue = json.at("queue"),
                    .pending_max = json.at("pending_max"),
                    .size = json.at("size"),
                    .unwritten = json.at("unwritten"),
                    .covers = json.at("covers"),
                    .medium = json.at("medium")};
  if (json.contains("site")) {
    const Json& site = json["site"];
    call.site = site_of(site.at(0), site.at(1), site.at(2));
  }
  return call;
}

Json json_of(const std::vector<testing::Acknowledgement>& all) {
  Json json = Json::array();
  for (const auto& each : all) json.push_back({each.version, each.calls});
  return json;
}

std::vector<testing::Acknowledgement> acknowledgements_of(const Json& json) {
  std::vector<testing::Acknowledgement> all;
  for (const Json& each : json) all.push_back({each.at(0), each.at(1)});
  return all;
}

Json json_of(const Session& session) {
  Json calls = Json::array();
  for (const RecordedCall& call : session.history.calls()) calls.push_back(json_of(call));
  Json steps = Json::array();
  for (const auto& [shard, count, by] : session.steps) steps.push_back({shard, count, by});
  Json logged = Json::array();
  for (const LoggedObject& each : session.logged) logged.push_back(each.json());
  return {{"initial", binary(session.history.initial())},
          {"atomic_bytes", session.history.atomic_bytes()},
          {"calls", calls},
          {"acknowledgements", json_of(session.acknowledgements)},
          {"failures", json_of(session.failures)},
          {"steps_at", session.steps_at},
          {"objects_at", session.objects_at},
          {"chain_at", session.chain_at},
          {"steps", steps},
          {"logged", logged},
          {"ledger_offset", session.ledger_offset},
          {"transactions_offset", session.transactions_offset}};
}

Session session_of(const Json& json) {
  std::vector<RecordedCall> calls;
  for (const Json& call : json.at("calls")) calls.push_back(call_of(call));
  std::vector<Steps> steps;
  for (const Json& each : json.at("steps")) steps.push_back({each.at(0), each.at(1), each.at(2)});
  std::vector<LoggedObject> logged;
  for (const Json& each : json.at("logged")) logged.push_back(LoggedObject::of(each));
  return {.history = {bytes_of(json.at("initial")), json.at("atomic_bytes"), std::move(calls)},
          .acknowledgements = acknowledgements_of(json.at("acknowledgements")),
          .failures = acknowledgements_of(json.at("failures")),
          .steps_at = json.at("steps_at"),
          .objects_at = json.at("objects_at"),
          .chain_at = json.at("chain_at"),
          .steps = std::move(steps),
          .logged = std::move(logged),
          .ledger_offset = json.at("ledger_offset"),
          .transactions_offset = json.at("transactions_offset")};
}

Json json_of(const media::Geometry& geometry) {
  return {geometry.size,
          geometry.atomic_bytes,
          geometry.write_bytes,
          geometry.byte_addressable,
          geometry.reads_in_handlers,
          geometry.objects};
}

media::Geometry geometry_of(const Json& json) {
  return {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4), json.at(5)};
}

/// Those that workloads set.
Json json_of(const Options& options) {
  return {options.region_limit_bytes, options.log_segment_bytes,
          options.log_limit_bytes,    static_cast<int>(options.tracking),
          options.lazy_recovery,      options.aliases,
          options.region_address,     static_cast<int>(options.engine),
          options.chunk_bytes,        options.versions_kept,
          options.over_provisioning};
}

Options options_of(const Json& json) {
  Options options;
  options.region_limit_bytes = json.at(0);
  options.log_segment_bytes = json.at(1);
  options.log_limit_bytes = json.at(2);
  options.tracking = static_cast<Tracking>(json.at(3).get<int>());
  options.lazy_recovery = json.at(4);
  options.aliases = json.at(5);
  options.region_address = json.at(6);
  options.engine = static_cast<Engine>(json.at(7).get<int>());
  options.chunk_bytes = json.at(8);
  options.versions_kept = json.at(9);
  options.over_provisioning = json.at(10);
  return options;
}

}  // namespace

// --- exploring ---------------------------------------------------------------------------------

RunRecord Task::record() const {
  Run run(*medium, seed);
  workload->run(run);
  return std::move(run).record();
}

Judged::Judged(RunRecord record) : run(std::move(record)) {
  for (const Session& session : run.sessions) {
    oracles.push_back(std::make_unique<Oracle>(run, session));
    problem = oracles.back()->learn();
    if (!problem.empty()) return;
  }
}

Judged::Judged(RunRecord record, size_t session) : run(std::move(record)) {
  oracles.resize(session);
  oracles.push_back(std::make_unique<Oracle>(run, run.sessions.at(session)));
  problem = oracles.back()->learn();
}

testing::Explorer Judged::explorer(size_t session, testing::ExplorerOptions options) const {
  return {run.geometry, options,
          [&oracle = *oracles[session]](testing::Execution& execution, size_t call) {
            return oracle.judge(execution, call);
          }};
}

Explored explore(const Judged& judged, const testing::Mutation* mutation, int depth) {
  Explored explored;
  const RunRecord& run = judged.run;
  for (size_t i = 0; i < run.sessions.size() && explored.problem.empty(); ++i) {
    const Session& session = run.sessions[i];
    testing::Explorer explorer = judged.explorer(i, options_for(run, mutation, depth));
    std::vector<size_t> ends = session.history.crash_points();
    // Each seed begins elsewhere.
    std::rotate(ends.begin(),
                ends.begin() + static_cast<std::ptrdiff_t>(run.seed * 7 % ends.size()), ends.end());
    for (const size_t end : ends) {
      if (explored.coverage.executions + explorer.coverage().executions > kTaskExecutionsMax) {
        ++explored.points_left_out;
        continue;
      }
      CrashState state(session.history, end, run.medium.tearing, mutation);
      // Of what goes past the caches nothing is left in them.
      const bool is_cached = run.medium.tearing == testing::Tearing::kLinePrefixes;
      if (explorer.explore(state, end) && (!is_cached || explorer.explore_killed(state, end)))
        continue;
      explored.problem = explorer.problem()->what;
      explored.session = i;
      explored.point = explorer.problem()->point;
      break;
    }
    explored.coverage.add(explorer.coverage());
  }
  return explored;
}

std::string replay(const Judged& judged, size_t session, const testing::CrashPoint& point,
                   const testing::Mutation* mutation) {
  const RunRecord& run = judged.run;
  const Session& in = run.sessions[session];
  testing::Explorer explorer = judged.explorer(session, options_for(run, mutation, 1));
  return explorer.replay(CrashState(in.history, point.call, run.medium.tearing, mutation), point)
      .problem;
}

// --- findings ----------------------------------------------------------------------------------

void save(const Finding& finding, const std::string& path) {
  Json sessions = Json::array();
  for (const Session& session : finding.run.sessions) sessions.push_back(json_of(session));
  const RunRecord& run = finding.run;
  const Json json = {{"name", finding.name},
                     {"problem", finding.problem},
                     {"session", finding.session},
                     {"call", finding.point.call},
                     {"choices", finding.point.choices},
                     {"killed", finding.point.killed},
                     {"barrier", finding.point.barrier},
                     {"sample", finding.point.sample},
                     {"medium", run.medium.name},
                     {"seed", run.seed},
                     {"options", json_of(run.options)},
                     {"others", run.others},
                     {"geometry", json_of(run.geometry)},
                     {"sessions", sessions},
                     {"objects_alone", run.objects_alone},
                     {"objects_bytes_max", run.objects_bytes_max}};
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  Json::to_cbor(json, out);
  out.close();
  if (!out) throw std::runtime_error("cannot write '" + path + "'");
}

Finding load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open '" + path + "'");
  const Json json = Json::from_cbor(in, true, false);
  if (json.is_discarded() || !json.contains("sessions"))
    throw std::runtime_error("'" + path + "' holds no finding");
  const auto medium = std::find_if(
      std::begin(kMedia), std::end(kMedia),
      [&](const MediumKind& each) { return each.name == json.at("medium").get<std::string>(); });
  if (medium == std::end(kMedia)) throw std::runtime_error(path + ": its medium is unknown");
  Finding finding{.name = json.at("name"),
                  .problem = json.at("problem"),
                  .session = json.at("session"),
                  .point = {.call = json.at("call"),
                            .choices = json.at("choices"),
                            .killed = json.at("killed"),
                            .barrier = json.at("barrier"),
                            .sample = json.at("sample")},
                  .run = {.medium = *medium,
                          .seed = json.at("seed"),
                          .options = options_of(json.at("options")),
                          .others = json.at("others"),
                          .geometry = geometry_of(json.at("geometry")),
                          .sessions = {},
                          .objects_alone = json.at("objects_alone"),
                          .objects_bytes_max = json.at("objects_bytes_max")}};
  for (const Json& session : json.at("sessions"))
    finding.run.sessions.push_back(session_of(session));
  if (finding.session >= finding.run.sessions.size())
    throw std::runtime_error(path + ": it has no session " + std::to_string(finding.session));
  return finding;
}

void print(const Finding& finding) {
  constexpr size_t kShown = 40;
  const testing::CrashPoint& point = finding.point;
  std::printf("PROBLEM in %s: %s\n", finding.name.c_str(), finding.problem.c_str());
  std::printf("  failure after call %zu of session %zu, choices %s", point.call, finding.session,
              Json(point.choices).dump().c_str());
  if (point.killed) std::printf(", of the process alone");
  if (point.barrier != 0) std::printf(", again before barrier %lu of recovery", point.barrier);
  if (point.sample != 0) std::printf(", sample %lu", point.sample);
  std::printf("; before it\n");
  const std::vector<RecordedCall>& calls = finding.run.sessions[finding.session].history.calls();
  for (size_t i = point.call > kShown ? point.call - kShown : 0; i < point.call; ++i) {
    const RecordedCall& call = calls[i];
    switch (call.kind) {
      case RecordedCall::Kind::kDrain:
        break;
      case RecordedCall::Kind::kGrow:
        std::printf("    grow to %lu\n", call.size);
        break;
      case RecordedCall::Kind::kBarrier:
        std::printf("    barrier, %s\n", call.site->what);
        break;
      case RecordedCall::Kind::kWrite:
      case RecordedCall::Kind::kSubmit:
        std::printf("    write, %s at %lu, %zu\n", call.site->what, call.offset, call.bytes.size());
    }
  }
}

}  // namespace perdura::proof
