// perdura-source: what perdura classify and perdura refactor run.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "classify.hpp"
#include "print.hpp"
#include "refactor_command.hpp"

namespace perdura::source {
namespace {

struct Options {
  Sources sources;
  Judged judged;
  std::vector<std::string> classes;
  std::string json, sarif, html, expect, save;
  bool remedies = false;
  bool write = false, directives = false, diff = false;  ///< what was found, into the sources
  RefactorCommand refactor;
};

std::string verdicts_of(const Classification& found) {
  std::string text;
  for (const Classified& each : found.methods)
    text += fmt::format("{} {}\n", name_of(each.judgement.verdict), each.method.signature);
  return text;
}

/// Says which methods are not what the file has of them.
int compare(const Classification& found, const std::string& path) {
  std::ifstream input(path);
  if (!input || std::filesystem::is_directory(path))
    return complain({fmt::format("'{}' cannot be read: --save makes it", path)});
  std::map<std::string, std::string> expected;
  unsigned number = 0;
  for (std::string line; std::getline(input, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.find(' ');
    const std::string verdict = line.substr(0, space);
    if (space == std::string::npos ||
        (verdict != "deferrable" && verdict != "instant" && verdict != "read"))
      return complain(
          {fmt::format("{}:{}: a line is 'deferrable', 'instant' or 'read' and a "
                       "method, as --save writes it",
                       path, number)});
    expected[line.substr(space + 1)] = verdict;
  }
  int result = kDone;
  for (const Classified& each : found.methods) {
    const auto at = expected.find(each.method.signature);
    const std::string now = name_of(each.judgement.verdict);
    if (at != expected.end() && at->second == now) {
      expected.erase(at);
      continue;
    }
    result = kRefused;
    std::string why;
    if (!each.judgement.reasons.empty() && each.judgement.verdict == Verdict::kInstant)
      why = fmt::format(": it {} ({})", sentence(each.judgement.reasons.front()),
                        text_of(found.program, each.judgement.reasons.front().at));
    std::fprintf(stderr, "perdura: %s: %s is %s now, and %s in '%s'%s\n",
                 text_of(found.program, each.method.place).c_str(), each.method.signature.c_str(),
                 now.c_str(), at == expected.end() ? "is not" : at->second.c_str(), path.c_str(),
                 why.c_str());
    if (at != expected.end()) expected.erase(at);
  }
  for (const auto& [signature, verdict] : expected) {
    result = kRefused;
    std::fprintf(stderr, "perdura: %s is there no more, and %s in '%s'\n", signature.c_str(),
                 verdict.c_str(), path.c_str());
  }
  return result;
}

/// A class template's instances have its arguments behind the name.
bool is_named(const std::string& owner, const std::string& name) {
  return owner == name || owner.starts_with(name + "<");
}

int run_classify(Options& options) {
  options.judged.classes.insert(options.classes.begin(), options.classes.end());
  if (options.judged.all_functions && options.judged.reasons_max == 0)
    options.judged.reasons_max = 3;
  if ((options.write || options.diff) &&
      !(options.json.empty() && options.sarif.empty() && options.html.empty() &&
        options.save.empty() && options.expect.empty()))
    return complain(
        {"--write and --diff go without --json, --sarif, --html, --save and --expect; "
         "run it once more for these"});
  if (options.write || options.diff)
    return write_marks(options.sources, options.judged, options.directives, options.diff);
  const Classification found = classify(options.sources, options.judged);
  if (!found.wrong.empty()) return complain(found.wrong);
  for (const std::string& each : options.classes)
    if (std::ranges::none_of(
            found.methods, [&](const Classified& one) { return is_named(one.method.owner, each); }))
      return complain({fmt::format("there is no class '{}' with methods in these sources", each)});
  bool printed = false;
  for (const auto& [path, text] :
       {std::pair(options.json, &as_json), std::pair(options.sarif, &as_sarif),
        std::pair(options.html, &as_html), std::pair(options.save, &verdicts_of)}) {
    if (path.empty()) continue;
    if (!put(path, text(found))) return kFailed;
    printed = true;
  }
  if (!printed && options.expect.empty() && !put("-", as_text(found, options.remedies)))
    return kFailed;
  int result = kDone;
  for (const std::string& each : found.objections) {
    std::fprintf(stderr, "perdura: %s\n", each.c_str());
    result = kRefused;
  }
  if (!options.expect.empty()) result = std::max(result, compare(found, options.expect));
  return result;
}

void add_sources(CLI::App* command, Sources& sources) {
  command->add_option("FILE", sources.files, "sources; none: all of the compilation database");
  command->add_option("-p,--build", sources.build_folder,
                      "a build folder, with compile_commands.json in it");
  command->add_option("-j,--jobs", sources.jobs, "sources that are parsed at once");
}

constexpr const char* kClassifyFooter =
    "Flags of the compiler may follow behind --, in place of a compilation database:\n"
    "  perdura classify seats.cc -- -std=c++20 -Iinclude\n"
    "Exit codes: 0 all is as it is said to be, 1 a directive says more than may be, or a method\n"
    "is not what --expect has, 2 wrong usage, or sources that do not compile.";

}  // namespace
}  // namespace perdura::source

int main(int count, char** arguments) {
  using namespace perdura::source;
  Options options;
  std::vector<std::string> own(arguments + 1, arguments + count);
  const auto flags = std::find(own.begin(), own.end(), "--");
  if (flags != own.end()) {
    options.sources.has_flags = true;
    options.sources.flags.assign(flags + 1, own.end());
    own.erase(flags, own.end());
  }
  std::reverse(own.begin(), own.end());  // as CLI11 takes it

  CLI::App app("Tools for existing code.", "perdura");
  app.require_subcommand(1);
  CLI::App* const classify =
      app.add_subcommand("classify",
                         "say which methods of objects may be deferred, and why others "
                         "may not");
  add_sources(classify, options.sources);
  classify
      ->add_option("--class", options.classes,
                   "judge the methods of this class too, whose objects are states")
      ->allow_extra_args(false);
  classify->add_flag("--private", options.judged.private_too, "private methods too");
  classify->add_flag("--functions", options.judged.all_functions,
                     "each function, as a method of what its first argument leads to");
  classify->add_option("--most", options.judged.reasons_max,
                       "so many reasons of each, the nearest ones (all; with --functions 3)");
  classify->add_option("--json", options.json, "write JSON to this file, or to - (stdout)")
      ->expected(0, 1)
      ->default_str("-");
  classify->add_option("--sarif", options.sarif, "write SARIF, for editors and reviews");
  classify->add_option("--html", options.html, "write a page");
  classify->add_option("--save", options.save, "write what each method is, for --expect");
  classify->add_option("--expect", options.expect, "fail where a method is not what it was");
  classify->add_flag("--remedies", options.remedies, "say what to do about each reason");
  classify->add_flag("--write", options.write,
                     "write what was found at the methods, as attributes");
  classify->add_flag("--directives", options.directives,
                     "as directives, #begin defer and #begin inst");
  classify->add_flag("--diff", options.diff, "print what --write would change, as a patch");
  classify->footer(kClassifyFooter);
  CLI::App* const refactor = app.add_subcommand(
      "refactor", "make classes whose calls are logged of classes that derive from POBase");
  add_sources(refactor, options.sources);
  options.refactor.add(refactor);
  try {
    app.parse(own);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kFailed;
  }
  return refactor->parsed() ? options.refactor.run(options.sources) : run_classify(options);
}
