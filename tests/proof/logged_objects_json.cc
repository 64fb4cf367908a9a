// Objects of a run, as findings keep them.
#include "logged_objects.hpp"

namespace perdura::proof {
namespace {

Json json_of(const LaneCalls& calls) { return Json(std::vector<u64>(calls.begin(), calls.end())); }
LaneCalls lane_calls_of(const Json& json) {
  LaneCalls calls{};
  for (u64 lane = 0; lane < kLanes; ++lane) calls[lane] = json.at(lane);
  return calls;
}

}  // namespace

Json LoggedObject::json() const {
  Json json = {{"name", name},
               {"state", static_cast<u64>(state)},
               {"options",
                {options.log_bytes, options.checkpoint_calls, static_cast<u64>(options.durability),
                 options.servers, static_cast<u64>(options.history), options.callers,
                 options.archive_bytes}},
               {"in_order", in_order},
               {"merges", merges},
               {"digests", digests},
               {"lanes", lanes},
               {"there", {made_from, made_by, gone_from, gone_by}}};
  json["seen"] = Json::array();
  for (const auto& lane : seen) {
    Json calls = Json::array();
    for (const LaneCalls& each : lane) calls.push_back(json_of(each));
    json["seen"].push_back(std::move(calls));
  }
  json["made"] = Json::array();
  for (const auto& lane : made) {
    Json calls = Json::array();
    for (const Made& each : lane)
      calls.push_back(
          {static_cast<u64>(each.method), each.lane, each.value, each.answer, each.resized});
    json["made"].push_back(std::move(calls));
  }
  json["told"] = Json::array();
  for (const Told& each : told) json["told"].push_back({json_of(each.calls), each.by});
  json["resized"] = Json::array();
  for (const Resized& each : resized) json["resized"].push_back({each.calls, each.digest, each.by});
  return json;
}

LoggedObject LoggedObject::of(const Json& json) {
  LoggedObject object;
  object.name = json.at("name");
  object.state = static_cast<ObjectState>(json.at("state").get<u64>());
  const Json& options = json.at("options");
  object.options = {.log_bytes = options.at(0),
                    .checkpoint_calls = options.at(1),
                    .durability = static_cast<ObjectDurability>(options.at(2).get<u64>()),
                    .servers = options.at(3),
                    .history = static_cast<ObjectHistory>(options.at(4).get<u64>()),
                    .callers = options.at(5),
                    .archive_bytes = options.at(6)};
  object.in_order = json.at("in_order");
  object.merges = json.at("merges");
  object.digests = json.at("digests").get<std::vector<u64>>();
  for (u64 lane = 0; lane < kLanes; ++lane) {
    object.lanes[lane] = json.at("lanes").at(lane).get<std::vector<u64>>();
    for (const Json& each : json.at("seen").at(lane))
      object.seen[lane].push_back(lane_calls_of(each));
  }
  for (u64 lane = 0; lane < kLanes; ++lane)
    for (const Json& each : json.at("made").at(lane))
      object.made[lane].push_back({static_cast<Method>(each.at(0).get<u64>()), each.at(1),
                                   each.at(2), each.at(3), each.at(4)});
  for (const Json& each : json.at("told"))
    object.told.push_back({lane_calls_of(each.at(0)), each.at(1)});
  for (const Json& each : json.at("resized"))
    object.resized.push_back({each.at(0), each.at(1), each.at(2)});
  const Json& there = json.at("there");
  object.made_from = there.at(0);
  object.made_by = there.at(1);
  object.gone_from = there.at(2);
  object.gone_by = there.at(3);
  return object;
}

}  // namespace perdura::proof
