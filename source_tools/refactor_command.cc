#include "refactor_command.hpp"

#include "print.hpp"

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace perdura::source {
namespace {

int print(const std::string& text) { return put("-", text) ? kDone : kFailed; }

int write_to_folder(const std::map<std::string, std::string>& after, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::map<std::string, std::string> files;
  std::vector<std::string> wrong;
  for (const auto& [path, text] : after) {
    const std::string to = folder + "/" + std::filesystem::path(path).filename().string();
    if (!files.emplace(to, text).second)
      wrong.push_back(
          fmt::format("two files would be '{}': refactor them one after the other", to));
  }
  if (wrong.empty()) wrong = write_files(files);
  complain(wrong);
  return wrong.empty() ? kDone : kFailed;
}

}  // namespace

int deliver(const std::map<std::string, std::string>& before,
            const std::map<std::string, std::string>& after, const Output& output) {
  if (output.diff) {
    std::string text;
    for (const auto& [path, changed] : after) text += patch(path, before.at(path), changed);
    return print(text);
  }
  if (output.in_place) {
    const std::vector<std::string> wrong = write_files(after);
    complain(wrong);
    return wrong.empty() ? kDone : kFailed;
  }
  if (!output.folder.empty()) return write_to_folder(after, output.folder);
  if (after.empty()) {
    complain({"nothing is to be changed"});
    return kDone;
  }
  if (after.size() > 1) {
    std::string files;
    for (const auto& [path, text] : after) files += (files.empty() ? "'" : ", '") + path + "'";
    return complain({fmt::format("{} files change ({}): say --in-place, --output FOLDER or --diff",
                                 after.size(), files)});
  }
  return print(after.begin()->second);
}

int write_marks(const Sources& sources, const Judged& judged, bool directives, bool diff) {
  const Changes changes = marked(sources, judged, directives);
  if (!changes.wrong.empty()) return complain(changes.wrong);
  if (!changes.objections.empty()) {
    complain(changes.objections);
    return kRefused;
  }
  return deliver(changes.before, changes.after, {.diff = diff, .in_place = !diff, .folder = {}});
}

void RefactorCommand::add(CLI::App* command) {
  command->add_flag("--callers", options.callers,
                    "rewrite the calls in all sources that are given, and pthread_create");
  command->add_flag("--methods", methods,
                    "write perdura::Methods of states whose methods have attributes");
  command->add_option("--class", classes, "with --methods: of this class")->allow_extra_args(false);
  command->add_flag("--diff", output.diff, "print a patch");
  command->add_flag("--in-place", output.in_place, "rewrite the files");
  command->add_option("--output", output.folder, "write the files that change to this folder");
  command->add_option("--json", json, "write what was done to this file, or to - (stdout)")
      ->expected(0, 1)
      ->default_str("-");
  command->footer(
      "Without --diff, --in-place and --output the file that changes is printed.\n"
      "Exit codes: 0 done, 1 something is refused, and nothing is written, 2 wrong usage, or\n"
      "sources that do not compile.");
}

int RefactorCommand::run(const Sources& sources) const {
  if (output.diff + output.in_place + !output.folder.empty() > 1) {
    return complain({"choose one of --diff, --in-place and --output"});
  }
  if (methods ? options.callers : !classes.empty()) {
    return complain({methods ? "--callers is for classes that derive from POBase, without --methods"
                             : "--class names a state, for --methods"});
  }
  const Refactored found = methods ? write_methods(sources, classes) : refactor(sources, options);
  if (!found.wrong.empty()) return complain(found.wrong);
  if (!json.empty() && !put(json, refactored_as_json(found))) return kFailed;
  if (!found.refusals.empty()) {
    complain(found.refusals);
    return kRefused;
  }
  if (!options.callers && !found.callers.empty())
    std::fprintf(stderr,
                 "perdura: %zu calls from elsewhere are of methods that have other names now, the "
                 "first one at %s: --callers rewrites them\n",
                 found.callers.size(), found.callers.front().at.text().c_str());
  if (json == "-" && !output.in_place && output.folder.empty()) return kDone;
  return deliver(found.before, found.after, output);
}

}  // namespace perdura::source
