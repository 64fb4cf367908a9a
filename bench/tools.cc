// The source tools: what perdura classify says of methods of which it is known what they are, and
// how long it takes for a large program.
#ifdef PERDURA_SOURCE

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

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

void run(Context& context) {
  context.measure("table3", "% right", Reach::at_least(100),
                  [&] { return rightly(context, "table3"); });
  context.measure("adversarial", "% right", Reach::at_least(100),
                  [&] { return rightly(context, "*"); });
  context.measure("table4", "programs as in the paper", Reach::none(),
                  [&] { return table4(context); });
  if (!context.wants("classify_s")) return;
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
  fs::remove_all(folder);
}

const Registration kThis("tools", "the source tools: verdicts, and the time for SQLite", run);

}  // namespace
}  // namespace perdura::bench

#endif
