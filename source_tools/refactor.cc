// perdura refactor, from sources to changed files.
#include "refactor.hpp"

#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace perdura::source {

void make(const std::map<std::string, Edits>& edits, Refactored& result) {
  result.before.clear();
  for (const auto& [file, each] : edits) {
    if (each.empty() || !result.refusals.empty()) continue;
    const std::string text = text_of_file(file, result.wrong);
    std::string after = edited_and_formatted(file, text, each, true, result.wrong);
    if (after == text) continue;
    result.before[file] = text;
    result.after[file] = std::move(after);
  }
}

unsigned behind_includes(const std::string& text) {
  std::size_t behind = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    end = end == std::string::npos ? text.size() : end + 1;
    if (text.compare(begin, 8, "#include") == 0 || text.compare(begin, 12, "#pragma once") == 0)
      behind = end;
    begin = end;
  }
  return static_cast<unsigned>(behind);
}

Refactored refactor(const Sources& sources, const RefactorOptions& options) {
  Refactored result;
  Judged judged;
  judged.private_too = true;
  Directives directives;
  std::mutex mutex;
  std::map<std::size_t, Model> units;  // joined in their order, whichever is ready first
  const Classification found =
      classify(sources, judged, directives, [&](clang::ASTContext& context, std::size_t number) {
        Model unit = extract_model(context);
        const std::lock_guard lock(mutex);
        units.emplace(number, std::move(unit));
      });
  result.wrong = found.wrong;
  if (!result.wrong.empty()) return result;
  Model model;
  for (auto& [number, unit] : units) model.join(std::move(unit));
  result.files = found.program.files;
  result.refusals = found.objections;
  const Verdicts verdicts = by_place(found);
  const std::map<std::string, Edits> edits = edits_of(model, verdicts, directives, options, result);
  make(edits, result);
  return result;
}

std::string refactored_as_json(const Refactored& refactored) {
  using nlohmann::ordered_json;
  const auto place = [](const Spot& at) {
    return ordered_json{{"file", at.file}, {"line", at.line}, {"column", at.column}};
  };
  ordered_json methods = ordered_json::array();
  for (const Refactored::Done& each : refactored.done)
    methods.push_back({{"class", each.owner},
                       {"method", each.method},
                       {"verdict", each.verdict},
                       {"function", each.function},
                       {"context", each.context},
                       {"wrapper", each.wrapper},
                       {"at", place(each.at)}});
  ordered_json callers = ordered_json::array();
  for (const Caller& each : refactored.callers) callers.push_back(place(each.at));
  ordered_json files = ordered_json::array();
  for (const auto& [file, text] : refactored.after) files.push_back(file);
  return ordered_json{{"methods", std::move(methods)},
                      {"callers", std::move(callers)},
                      {"threads", refactored.threads},
                      {"files", std::move(files)},
                      {"refusals", refactored.refusals}}
             .dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace perdura::source
