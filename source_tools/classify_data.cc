// perdura classify: for programs, as JSON of its own and as SARIF 2.1.0 (OASIS).
#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "classify.hpp"

namespace perdura::source {
namespace {

using nlohmann::ordered_json;

ordered_json place_of(const Program& program, Place place) {
  if (place.file == kNone) return nullptr;
  return {{"file", program.files[place.file]}, {"line", place.line}, {"column", place.column}};
}

ordered_json reason_of(const Program& program, const Reason& reason) {
  ordered_json calls = ordered_json::array();
  for (std::size_t i = 0; i < reason.calls.size(); ++i) {
    ordered_json call = place_of(program, reason.calls[i]);
    if (call.is_null()) call = ordered_json::object();
    call["callee"] = reason.callees[i];
    calls.push_back(std::move(call));
  }
  return {{"kind", name_of(reason.kind)},
          {"sentence", sentence(reason)},
          {"remedy", remedy(reason.kind)},
          {"at", place_of(program, reason.at)},
          {"innermost", place_of(program, reason.innermost)},
          {"calls", std::move(calls)}};
}

/// As URIs have it: but for letters, numbers and a few signs each byte is %XX.
std::string uri_of(const std::string& path) {
  std::string uri = "file://";
  for (const char each : path) {
    const auto byte = static_cast<unsigned char>(each);
    if (std::isalnum(byte) != 0 || std::string_view("/-._~").find(each) != std::string_view::npos)
      uri += each;
    else uri += fmt::format("%{:02X}", byte);
  }
  return uri;
}

/// Columns of SARIF are UTF-16's units; a place's are bytes.
class Columns {
 public:
  unsigned of(const std::string& file, Place place) {
    const auto [known, is_new] = lines_.try_emplace(file);
    std::vector<std::string>& lines = known->second;
    if (is_new) {
      std::ifstream in(file);
      for (std::string line; std::getline(in, line);) lines.push_back(line);
    }
    unsigned column = std::max(1u, place.column);
    if (place.line == 0 || place.line > lines.size()) return column;
    for (const char each : std::string_view(lines[place.line - 1]).substr(0, column - 1)) {
      const auto byte = static_cast<unsigned char>(each);
      if (byte >= 0x80 && byte < 0xc0) --column;  // goes on with a character
      if (byte >= 0xf0) ++column;                 // one of two units
    }
    return column;
  }

 private:
  std::map<std::string, std::vector<std::string>> lines_;
};

ordered_json location(const Program& program, Place place, Columns& columns) {
  ordered_json at;
  at["physicalLocation"]["artifactLocation"]["uri"] =
      place.file == kNone ? "" : uri_of(program.files[place.file]);
  at["physicalLocation"]["region"] = {
      {"startLine", std::max(1u, place.line)},
      {"startColumn", place.file == kNone ? 1 : columns.of(program.files[place.file], place)}};
  return at;
}

}  // namespace

std::string as_json(const Classification& found) {
  ordered_json methods = ordered_json::array();
  for (const Classified& each : found.methods) {
    ordered_json reasons = ordered_json::array();
    for (const Reason& reason : each.judgement.reasons)
      reasons.push_back(reason_of(found.program, reason));
    methods.push_back(
        {{"class", each.method.owner},
         {"method", each.method.name},
         {"signature", each.method.signature},
         {"at", place_of(found.program, each.method.place)},
         {"verdict", name_of(each.judgement.verdict)},
         {"said", each.method.said == Verdict::kNothing ? ordered_json(nullptr)
                                                        : ordered_json(name_of(each.method.said))},
         {"reasons", std::move(reasons)}});
  }
  return ordered_json{{"methods", std::move(methods)}, {"objections", found.objections}}.dump(
             2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

std::string as_sarif(const Classification& found) {
  Columns columns;
  ordered_json rules = ordered_json::array();
  for (int i = 0; i < kKinds; ++i) {
    const Kind kind = static_cast<Kind>(i);
    rules.push_back({{"id", name_of(kind)}, {"help", {{"text", remedy(kind)}}}});
  }
  ordered_json results = ordered_json::array();
  for (const Classified& each : found.methods) {
    if (each.judgement.verdict != Verdict::kInstant) continue;
    const bool objects = each.method.said == Verdict::kDeferrable;
    for (const Reason& reason : each.judgement.reasons) {
      ordered_json steps = ordered_json::array();
      for (std::size_t i = 0; i < reason.calls.size(); ++i) {
        ordered_json step;
        step["location"] = location(found.program, reason.calls[i], columns);
        step["location"]["message"]["text"] = "calls " + reason.callees[i];
        steps.push_back(std::move(step));
      }
      ordered_json last;
      last["location"] = location(found.program, reason.innermost, columns);
      last["location"]["message"]["text"] = sentence(reason);
      steps.push_back(std::move(last));
      ordered_json result = {
          {"ruleId", name_of(reason.kind)},
          {"level", objects ? "error" : "note"},
          {"message",
           {{"text",
             fmt::format("{} is instant: it {}", each.method.signature, sentence(reason))}}},
          {"locations", {location(found.program, reason.at, columns)}},
          {"relatedLocations", {location(found.program, each.method.place, columns)}},
          {"codeFlows", {{{"threadFlows", {{{"locations", std::move(steps)}}}}}}}};
      results.push_back(std::move(result));
    }
  }
  const ordered_json sarif = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
      {"version", "2.1.0"},
      {"runs",
       {{{"tool", {{"driver", {{"name", "perdura classify"}, {"rules", std::move(rules)}}}}},
         {"columnKind", "utf16CodeUnits"},
         {"results", std::move(results)}}}}};
  return sarif.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace perdura::source
