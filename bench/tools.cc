// The source tools: what perdura classify says of methods of which it is known what they are, and
// how long it takes for a large program.
#ifdef PERDURA_SOURCE

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <utility>

#include "child.hpp"
#include "harness.hpp"

namespace perdura::bench {
namespace {

namespace fs = std::filesystem;

/// What the command prints; throws where it fails otherwise than with `also`.
void run_command(const ChildArguments& command, int also = 0) {
  ChildProcess child(ChildProcess::kCommand, command);
  const int status = child.wait();
  if (status != 0 && status != also)
    throw std::runtime_error(fmt::format("{} ended with status {}", command.front(), status));
}

Json judged(Context& context, const std::string& files) {
  const std::string out = context.path(Place::kDisk, "judged.json");
  run_command(
      {"python3", PERDURA_SOURCE_TESTS "/corpus.py", PERDURA_SOURCE, PERDURA_SOURCES "/include",
       PERDURA_SOURCE_TESTS "/corpus", "--files", files, "--json", out},
      1);
  const Json counts = Json::parse(std::ifstream(out));
  context.remove(out);
  return counts;
}

/// Of a hundred methods those that are right; one that is wrongly deferrable counts ten times.
Measured rightly(Context& context, const std::string& files) {
  const Json counts = judged(context, files);
  const double all = counts.at("methods").get<double>();
  const double right = counts.at("right").get<double>();
  const double worse = 9 * counts.at("wrongly_deferrable").get<double>();
  return {100 * (right - worse) / all, counts};
}

struct Paper {
  const char* program;
  const char* deferrable_to_instant;
};
constexpr Paper kTable4[] = {{"WordCount", "4:1"},  {"Sort", "3:1"},
                             {"Grep", "2:1"},       {"PageRank", "5:1"},
                             {"Kmeans", "4:3"},     {"ConnectedComponents", "2:1"},
                             {"NaiveBayes", "7:3"}, {"CollaborativeFiltering", "7:4"}};

Measured table4(Context& context) {
  const std::string out = context.path(Place::kDisk, "verdicts.json");
  run_command({PERDURA_SOURCE, "classify", PERDURA_SOURCE_TESTS "/corpus/table4.cc", "--json", out,
               "--", "-std=c++20", "-isystem", PERDURA_SOURCES "/include"});
  const Json found = Json::parse(std::ifstream(out));
  context.remove(out);
  Json programs = Json::object();
  double same = 0;
  for (const Paper& paper : kTable4) {
    int deferrable = 0;
    int instant = 0;
    for (const Json& method : found.at("methods")) {
      if (!method.at("class").get<std::string>().ends_with(paper.program)) continue;
      ++(method.at("verdict") == "deferrable" ? deferrable : instant);
    }
    const std::string ratio = fmt::format("{}:{}", deferrable, instant);
    programs[paper.program] = {{"here", ratio}, {"paper", paper.deferrable_to_instant}};
    same += ratio == paper.deferrable_to_instant;
  }
  return {same, programs};
}

#ifdef PERDURA_TYPES

/// SQLite and its load, with types of what it allocates and without.
class TypedSqlite {
 public:
  TypedSqlite(Context& context, std::string folder)
      : context_(context), folder_(std::move(folder)) {}

  double compile_s(bool typed) {
    made_.insert(typed);
    const double start = now_s();
    run_command(step("compile", typed));
    const double seconds = now_s() - start;
    run_command(step("link", typed));
    return seconds;
  }
  double run_s(bool typed) {
    if (!made_.contains(typed)) compile_s(typed);
    const double start = now_s();
    run_command({"/usr/bin/env", "sh", "-c",
                 fmt::format("taskset -c {} {}/sqlite --size {} :memory: >/dev/null", kMutatorCpu,
                             build(typed), context_.scale(60, 20))});
    return now_s() - start;
  }

 private:
  std::string build(bool typed) const { return folder_ + (typed ? "/typed" : "/plain"); }
  ChildArguments step(const char* what, bool typed) const {
    ChildArguments command = {PERDURA_SOURCES "/bench/unmodified/compile_program.sh",
                              what,
                              folder_,
                              "sqlite",
                              build(typed),
                              typed ? PERDURA_DRIVER : PERDURA_CLANG,
                              "-O2"};
    if (typed) {
      command.emplace_back("--perdura-types");
      command.emplace_back("--perdura-allocators=" PERDURA_SOURCES
                           "/bench/unmodified/sqlite_allocators");
    }
    return command;
  }

  Context& context_;
  std::string folder_;
  std::set<bool> made_;
};

void report_types(Context& context, const std::string& folder) {
  TypedSqlite sqlite(context, folder);
  const auto figure = [](const Paired& pairs) {
    return Measured{
        pairs.ratio,
        {{"with_s", pairs.subject}, {"without_s", pairs.base}, {"ratios", pairs.ratios}}};
  };
  context.measure("compile", "ratio", Reach::at_most(1.25), [&] {
    return figure(paired(
        context.scale(3, 1), [&] { return sqlite.compile_s(true); },
        [&] { return sqlite.compile_s(false); }, false));
  });
  context.measure("types_sqlite", "ratio", Reach::at_most(1.03), [&] {
    return figure(paired(
        context.scale(9, 3), [&] { return sqlite.run_s(true); },
        [&] { return sqlite.run_s(false); }));
  });
}

#endif

void run(Context& context) {
  context.measure("table3", "% right", Reach::at_least(100),
                  [&] { return rightly(context, "table3"); });
  context.measure("adversarial", "% right", Reach::at_least(100),
                  [&] { return rightly(context, "*"); });
  context.measure("table4", "programs as in the paper", Reach::none(),
                  [&] { return table4(context); });
  if (!context.wants("classify_s") && !context.wants("types_sqlite") && !context.wants("compile"))
    return;
  const std::string folder = context.path(Place::kDisk, "sources");
  context.progress("fetching sources");
  run_command({PERDURA_SOURCES "/bench/unmodified/fetch_sources.sh", folder, "sqlite3"});
  context.measure("classify_s", "s", Reach::at_most(15), [&] {
    std::vector<double> seconds;
    for (int i = 0; i < context.scale(5, 1); ++i) {
      const double start = now_s();
      run_command({PERDURA_SOURCE, "classify", "--functions", folder + "/sqlite/sqlite3.c",
                   "--json", folder + "/verdicts.json", "--save", folder + "/verdicts", "--"});
      seconds.push_back(now_s() - start);
    }
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return Measured{median(seconds), {{"runs", seconds}, {"mib_at_most", used.ru_maxrss / 1024}}};
  });
#ifdef PERDURA_TYPES
  report_types(context, folder);
#endif
  fs::remove_all(folder);
}

const Registration kThis("tools", "the source tools: verdicts, and the time for SQLite", run);

}  // namespace
}  // namespace perdura::bench

#endif
