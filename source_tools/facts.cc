#include "facts.hpp"

#include <algorithm>
#include <utility>

namespace perdura::source {
namespace {

bool contains(const std::vector<Place>& places, Place place) {
  return std::ranges::find(places, place) != places.end();
}

template <class Map, class Key>
Id id_in(Map& ids, const Key& key, std::size_t next) {
  return ids.emplace(key, static_cast<Id>(next)).first->second;
}

bool is_same(const Fact& a, const Fact& b) {
  return a.what == b.what && a.kind == b.kind && a.to == b.to && a.from == b.from &&
         a.target.code() == b.target.code() && a.call == b.call && a.place == b.place &&
         a.name == b.name;
}
bool is_same(const Call& a, const Call& b) {
  return a.callee == b.callee && a.pointer == b.pointer && a.arguments == b.arguments &&
         a.result == b.result && a.guarded == b.guarded && a.has_model == b.has_model;
}
bool is_same(const Local& a, const Local& b) {
  return a.type == b.type && a.has_pointers == b.has_pointers && a.has_bytes == b.has_bytes &&
         a.is_pointer == b.is_pointer && a.is_object == b.is_object;
}
/// A function of a header is met in many units.
bool is_same(const Function& a, const Function& b) {
  const auto same = [](const auto& x, const auto& y) { return is_same(x, y); };
  return a.place == b.place && a.has_this == b.has_this && a.is_of_closure == b.is_of_closure &&
         a.leads == b.leads && a.parameters == b.parameters && a.values == b.values &&
         std::ranges::equal(a.locals, b.locals, same) &&
         std::ranges::equal(a.facts, b.facts, same) && std::ranges::equal(a.calls, b.calls, same);
}

}  // namespace

Id Program::file(const std::string& path, bool system) {
  const Id id = id_in(file_ids_, path, files.size());
  if (id == files.size()) {
    files.push_back(path);
    is_system.push_back(system);
  }
  return id;
}

Id Program::outside(const Outside& outside) {
  const Id id = id_in(outside_ids_, outside, outsides.size());
  if (id == outsides.size()) outsides.push_back(outside);
  return id;
}

Id Program::constant(const std::string& key) {
  const Id id = id_in(constant_ids_, key, constants.size());
  if (id == constants.size()) constants.push_back({.key = key});
  return id;
}

Id Program::function(const std::string& key) {
  const Id id = id_in(function_ids_, key, function_keys.size());
  if (id == function_keys.size()) function_keys.push_back(key);
  return id;
}

void Program::join(Program&& unit) {
  std::vector<Id> file_of(unit.files.size());
  for (std::size_t i = 0; i < unit.files.size(); ++i)
    file_of[i] = file(unit.files[i], unit.is_system[i]);
  const auto move_place = [&](Place& place) {
    if (place.file != kNone) place.file = file_of[place.file];
  };
  std::vector<Id> outside_of;
  for (Outside& each : unit.outsides) {
    move_place(each.place);
    outside_of.push_back(outside(each));
  }
  std::vector<Id> function_of;
  for (const std::string& key : unit.function_keys) function_of.push_back(function(key));
  std::vector<Id> constant_of;
  for (const Constant& each : unit.constants) constant_of.push_back(constant(each.key));
  const auto move_target = [&](Target& target) {
    if (target.kind == Target::kOutside) target.index = outside_of[target.index];
    else if (target.kind == Target::kFunction) target.index = function_of[target.index];
    else if (target.kind == Target::kConstant) target.index = constant_of[target.index];
  };
  for (std::size_t i = 0; i < unit.constants.size(); ++i) {
    for (Target& target : unit.constants[i].content) move_target(target);
    Constant& mine = constants[constant_of[i]];
    if (mine.otherwise == kNone && unit.constants[i].otherwise != kNone)
      mine.otherwise = outside_of[unit.constants[i].otherwise];
    mine.is_defined |= unit.constants[i].is_defined;
    // Of one that each unit has for itself they may differ.
    for (const Target target : unit.constants[i].content)
      if (std::ranges::none_of(mine.content,
                               [&](Target each) { return each.code() == target.code(); }))
        mine.content.push_back(target);
  }
  for (auto& [key, bodies] : unit.functions) {
    std::vector<Function>& mine = functions[key];
    for (Function& body : bodies) {
      move_place(body.place);
      for (Fact& fact : body.facts) {
        move_place(fact.place);
        if (fact.what == Fact::kAddress) move_target(fact.target);
      }
      if (std::ranges::none_of(mine, [&](const Function& each) { return is_same(each, body); }))
        mine.push_back(std::move(body));
    }
  }
  for (auto& [key, method] : unit.methods) {
    move_place(method.place);
    move_place(method.said_at);
    std::ranges::for_each(method.other_places, move_place);
    const auto [at, is_new] = methods.emplace(key, method);
    if (is_new) continue;
    std::vector<Place> places = std::move(method.other_places);
    // What is at its body counts, whichever unit is first.
    const bool is_body = method.has_body && !at->second.has_body;
    if (is_body) std::swap(method.place, at->second.place);
    places.push_back(method.place);
    for (const Place place : places)
      if (place != at->second.place && !contains(at->second.other_places, place))
        at->second.other_places.push_back(place);
    at->second.has_body |= method.has_body;
    if (at->second.said == Verdict::kNothing || (is_body && method.said != Verdict::kNothing)) {
      at->second.said = method.said;
      at->second.said_at = method.said_at;
    }
  }
}

void Program::settle_constants() {
  const auto settle = [&](Target& target) {
    if (target.kind != Target::kConstant) return;
    const Constant& constant = constants[target.index];
    if (!constant.is_defined && constant.otherwise != kNone)
      target = {Target::kOutside, constant.otherwise};
  };
  for (Constant& each : constants) std::ranges::for_each(each.content, settle);
  for (auto& [key, bodies] : functions)
    for (Function& body : bodies)
      for (Fact& fact : body.facts)
        if (fact.what == Fact::kAddress) settle(fact.target);
}

const char* name_of(Kind kind) {
  static constexpr const char* kNames[kKinds] = {
      "returns",       "global",          "thread_local",
      "argument",      "member",          "kept_pointer",
      "keeps_address", "unknown_pointer", "address_as_number",
      "no_source",     "memory",          "virtual",
      "indirect",      "throws",          "assembler",
      "fence",         "unsupported"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace perdura::source
