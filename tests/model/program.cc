// Programs in files, and for people.
#include "program.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

namespace perdura::model {

const char* name_of(End end) {
  constexpr const char* kNames[] = {"close", "unwind", "exit",    "medium call",
                                    "time",  "throw",  "deleted", "power"};
  return kNames[static_cast<size_t>(end)];
}

const char* region_of(Part part) {
  return part == Part::kGuest   ? "guest"
         : part == Part::kPlain ? "plain"
         : part == Part::kLeft  ? "left"
                                : "right";
}

namespace {

Json json_of(const Options& options) {
  return {{"tracking", static_cast<int>(options.tracking)},
          {"capture", static_cast<int>(options.capture)},
          {"engine", static_cast<int>(options.engine)},
          {"granule", options.granule_bytes},
          {"aliases", options.aliases},
          {"chunk", options.chunk_bytes},
          {"versions", options.versions_kept},
          {"limit", options.region_limit_bytes},
          {"address", options.region_address},
          {"log_limit", options.log_limit_bytes},
          {"segment", options.log_segment_bytes},
          {"lazy", options.lazy_recovery},
          {"verify", static_cast<int>(options.verify)},
          {"huge", options.huge_pages}};
}

Options options_of(const Json& json) {
  Options options;
  options.tracking = static_cast<Tracking>(json.at("tracking").get<int>());
  options.capture = static_cast<Capture>(json.at("capture").get<int>());
  options.engine = static_cast<Engine>(json.at("engine").get<int>());
  options.granule_bytes = json.at("granule");
  options.aliases = json.at("aliases");
  options.chunk_bytes = json.at("chunk");
  options.versions_kept = json.at("versions");
  options.region_limit_bytes = json.at("limit");
  options.region_address = json.at("address");
  options.log_limit_bytes = json.at("log_limit");
  options.log_segment_bytes = json.at("segment");
  options.lazy_recovery = json.at("lazy");
  options.verify = static_cast<Verify>(json.at("verify").get<int>());
  options.huge_pages = json.at("huge");
  return options;
}

Json json_of(const Action& action) {
  Json steps = Json::array();
  for (const Step& step : action.steps) steps.push_back({step.kind, step.target, step.number});
  return {{"id", action.id},
          {"kind", action.kind},
          {"lane", action.lane},
          {"number", action.number},
          {"steps", std::move(steps)}};
}

Action action_of(const Json& json) {
  Action action{json.at("id"), json.at("kind"), json.at("lane"), json.at("number")};
  for (const Json& step : json.at("steps"))
    action.steps.push_back({step.at(0), step.at(1), step.at(2)});
  return action;
}

/// Where an option is not its default.
std::string text_of(const Options& options) {
  const Options usual;
  std::ostringstream out;
  const auto field = [&](const char* name, auto value, auto usually) {
    if (value != usually) out << "." << name << " = " << +value << ", ";
  };
  if (options.tracking != usual.tracking)
    out << ".tracking = " << name_of(options.tracking) << ", ";
  field("capture", static_cast<int>(options.capture), static_cast<int>(usual.capture));
  if (options.engine == Engine::kDualCopy) out << ".engine = Engine::kDualCopy, ";
  if (options.engine == Engine::kRemap) {
    out << ".engine = Engine::kRemap, ";
    field("chunk_bytes", options.chunk_bytes, usual.chunk_bytes);
    field("versions_kept", options.versions_kept, usual.versions_kept);
  }
  field("granule_bytes", options.granule_bytes, usual.granule_bytes);
  field("aliases", options.aliases, usual.aliases);
  field("region_limit_bytes", options.region_limit_bytes, usual.region_limit_bytes);
  field("region_address", options.region_address, usual.region_address);
  field("log_limit_bytes", options.log_limit_bytes, usual.log_limit_bytes);
  field("log_segment_bytes", options.log_segment_bytes, usual.log_segment_bytes);
  field("lazy_recovery", options.lazy_recovery, usual.lazy_recovery);
  field("verify", static_cast<int>(options.verify), static_cast<int>(usual.verify));
  field("huge_pages", options.huge_pages, usual.huge_pages);
  return out.str();
}

std::string text_of(const Action& action) {
  std::ostringstream out;
  out << action.kind << "(lane " << action.lane << ", " << action.number << ")";
  if (action.steps.empty()) out << ";";
  else out << " { ";
  for (const Step& step : action.steps)
    out << step.kind << "(" << step.target << ", " << step.number << "); ";
  if (!action.steps.empty()) out << "}";
  out << "  // " << action.id;
  return out.str();
}

}  // namespace

Json to_json(const Program& program) {
  Json sessions = Json::array();
  for (const Session& session : program.sessions) {
    Json actions = Json::array();
    for (const Action& action : session.actions) actions.push_back(json_of(action));
    sessions.push_back({{"options", json_of(session.options)},
                        {"parallel", session.parallel},
                        {"end", static_cast<int>(session.end)},
                        {"end_at", session.end_at},
                        {"fault_at", session.fault_at},
                        {"fault_calls", session.fault_calls},
                        {"full_disk", session.full_disk},
                        {"other_build", session.other_build},
                        {"guest_below_libraries", session.guest_below_libraries},
                        {"taken_bytes", session.taken_bytes},
                        {"roll_back", session.roll_back},
                        {"removed", static_cast<int>(session.removed)},
                        {"inspect", session.inspect},
                        {"read_only", session.read_only},
                        {"at_once", session.at_once},
                        {"look_back", session.look_back},
                        {"durability", static_cast<int>(session.durability)},
                        {"logging", static_cast<int>(session.logging)},
                        {"actions", std::move(actions)}});
  }
  return {{"seed", program.seed},
          {"heap_use", static_cast<int>(program.heap_use)},
          {"medium", program.medium},
          {"on_disk", program.on_disk},
          {"typed", program.typed},
          {"standard", program.standard},
          {"own", program.own},
          {"typed_root", program.typed_root},
          {"options", json_of(program.options)},
          {"sessions", std::move(sessions)}};
}

Program from_json(const Json& json) {
  Program program;
  program.seed = json.at("seed");
  program.heap_use = static_cast<HeapUse>(json.value("heap_use", 0));
  program.medium = json.at("medium");
  program.on_disk = json.at("on_disk");
  program.own = json.value("own", false);
  program.typed_root = json.value("typed_root", false);
  program.typed = json.at("typed");
  program.standard = json.at("standard");
  program.options = options_of(json.at("options"));
  for (const Json& each : json.at("sessions")) {
    Session session;
    session.options = options_of(each.at("options"));
    session.parallel = each.at("parallel");
    session.end = static_cast<End>(each.at("end").get<int>());
    session.end_at = each.at("end_at");
    session.fault_at = each.at("fault_at");
    session.fault_calls = each.at("fault_calls");
    session.other_build = each.value("other_build", false);
    session.guest_below_libraries = each.value("guest_below_libraries", false);
    session.taken_bytes = each.value("taken_bytes", u64{0});
    session.roll_back = each.value("roll_back", false);
    session.removed = static_cast<Part>(each.value("removed", static_cast<int>(Part::kCount)));
    session.full_disk = each.value("full_disk", false);
    session.inspect = each.at("inspect");
    session.read_only = each.value("read_only", false);
    session.at_once = each.value("at_once", false);
    session.durability = static_cast<Durability>(each.value("durability", 0));
    session.logging = static_cast<Logging>(each.value("logging", 0));
    session.look_back = each.value("look_back", false);
    for (const Json& action : each.at("actions")) session.actions.push_back(action_of(action));
    program.sessions.push_back(std::move(session));
  }
  return program;
}

std::string text_of(const Program& program) {
  std::ostringstream out;
  out << "// seed " << program.seed << ": " << program.actions() << " actions in "
      << program.sessions.size() << " sessions"
      << (program.typed      ? ", typed blocks"
          : program.standard ? ", standard containers"
                             : "")
      << "\n";
  for (const Session& session : program.sessions) {
    out << "{\n";
    if (session.read_only) out << "  // looked at by those who may not write\n";
    if (session.inspect) out << "  // perdura check\n";
    if (session.roll_back) out << "  // perdura rollback to the last version\n";
    if (session.removed != Part::kCount)
      out << "  // removed: the region " << region_of(session.removed) << "\n";
    out << "  auto store = Store::open(\"" << program.medium << ":\""
        << (program.on_disk ? " /* on a disk */" : "") << ", {" << text_of(session.options)
        << "});\n";
    if (session.look_back) out << "  // with a look at the version before that\n";
    if (!session.at_once) out << "  // all of it is looked at\n";
    if (session.parallel) out << "  // each lane in a thread of its own:\n";
    if (program.transactions())
      out << "  // durability " << static_cast<int>(session.durability) << ", logging "
          << static_cast<int>(session.logging) << "\n";
    if (session.other_build) out << "  // with another layout of a type of the container\n";
    if (session.guest_below_libraries)
      out << "  // with the container at the addresses below its libraries\n";
    if (session.taken_bytes != 0)
      out << "  // with " << session.taken_bytes << " bytes of address space taken\n";
    if (session.full_disk) out << "  // the disk is full\n";
    if (session.fault_at != 0)
      out << "  // call " << session.fault_at << " of the medium of the kinds "
          << session.fault_calls << " fails\n";
    for (const Action& action : session.actions) out << "  " << text_of(action) << "\n";
    out << "}  // " << name_of(session.end);
    if (session.end_at != 0) out << " " << session.end_at;
    out << "\n";
  }
  return out.str();
}

}  // namespace perdura::model
