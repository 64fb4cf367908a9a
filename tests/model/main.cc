// perdura-model: runs drawn programs over all of the API against a plain model in memory.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "campaign.hpp"
#include "known.hpp"
#include "proof/jobs.hpp"

namespace perdura::model {
namespace {

struct Arguments {
  u64 seed = 1;
  u64 programs = 0;
  double minutes = 0;
  double seconds = 0;
  u64 actions = 120;
  std::string kind;  ///< "": all in turn
  unsigned jobs = 2;
  u64 failures_max = 5;
  double shrink_seconds = 20;
  std::string json;
  std::string findings = ".";
  std::string replay;
  bool print = false;
  bool known = false;
};

constexpr const char* kKinds[] = {"kill", "run", "kill", "faults"};

struct Totals {
  u64 programs = 0;
  u64 actions = 0;
  u64 sessions = 0;
  u64 crashes = 0;
  u64 failed_calls = 0;
  u64 failures = 0;
  double first_failure_s = 0;
  Pairs pairs;
};

Drawing drawing_of(const Arguments& arguments, u64 number) {
  return {arguments.actions,
          arguments.kind.empty() ? kKinds[number % std::size(kKinds)] : arguments.kind,
          arguments.known};
}

void report(const Program& program, const Ended& ended, const std::string& again) {
  std::printf("PROBLEM in session %zu: %s\n%s  again: %s\n", ended.session + 1,
              ended.problem.c_str(), text_of(program).c_str(), again.c_str());
  std::fflush(stdout);
}

int replay(const Arguments& arguments) {
  std::ifstream in(arguments.replay);
  const Program program = from_json(Json::parse(in));
  if (arguments.print) std::printf("%s", text_of(program).c_str());
  for (u64 i = 0; i < std::max<u64>(arguments.programs, 1); ++i) {
    const Ended ended = run_program(program);
    if (ended.problem.empty()) continue;
    report(program, ended, "perdura-model --replay '" + arguments.replay + "'");
    return 1;
  }
  std::printf("nothing is wrong\n");
  return 0;
}

/// A program in a process of its own, with its failure made small.
Json run_job(const Arguments& arguments, u64 number) {
  const Drawing drawing = drawing_of(arguments, number);
  Program program = draw(arguments.seed + number, drawing);
  Ended ended = run_program(program);
  Json result = {{"actions", ended.actions},
                 {"sessions", ended.sessions},
                 {"crashes", ended.crashes},
                 {"failed_calls", ended.failed_calls},
                 {"pairs", ended.pairs.counts()}};
  if (ended.problem.empty()) return result;
  result["problem"] = ended.problem;
  program = shrink(program, ended.problem, arguments.shrink_seconds);
  const std::string path = arguments.findings + "/model-" + std::to_string(program.seed) + ".json";
  std::ofstream(path) << to_json(program).dump(1) << "\n";
  result["page"] = text_of(program);
  result["session"] = ended.session;
  result["again"] = "perdura-model --replay '" + path + "' (drawn with --kind " + drawing.kind +
                    " --seed " + std::to_string(program.seed) + " --actions " +
                    std::to_string(drawing.actions) + ")";
  return result;
}

std::string text_of(size_t number, const Json& result) {
  // At its end as well: a program is long, and who is told of it may see the end alone.
  const std::string problem =
      fmt::format("PROBLEM in program {}, session {}: {}\n", number,
                  result.value("session", u64{0}) + 1, result["problem"].get<std::string>());
  return problem + result.value("page", std::string()) + problem +
         "  again: " + result.value("again", std::string()) + "\n";
}

Json figures_of(const Totals& totals) {
  return {{"campaign", "model"},
          {"programs", totals.programs},
          {"model_actions", totals.actions},
          {"sessions", totals.sessions},
          {"crashes", totals.crashes},
          {"failed_calls", totals.failed_calls},
          {"model_failures", totals.failures},
          {"first_failure_s", totals.first_failure_s},
          {"pairs", totals.pairs.share()},
          {"pairs_possible", totals.pairs.possible()},
          {"pairs_crossed", totals.pairs.crossed()},
          {"pairs_table", totals.pairs.json()}};
}

int run(const Arguments& arguments) {
  if (!arguments.replay.empty()) return replay(arguments);
  std::filesystem::create_directories(arguments.findings);
  if (arguments.print) {
    std::printf("%s", text_of(draw(arguments.seed, drawing_of(arguments, 0))).c_str());
    return 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double seconds = arguments.minutes * 60 + arguments.seconds;
  const u64 programs = arguments.programs != 0 ? arguments.programs : seconds != 0 ? ~u64{0} : 100;
  for (const Tracking tracking : {Tracking::kSigbus, Tracking::kUserfault}) is_supported(tracking);
  Totals totals;
  std::vector<std::string> problems;
  const auto more = [&] {
    return (seconds == 0 || elapsed_s() < seconds) && totals.failures < arguments.failures_max;
  };
  proof::run_jobs(
      programs, arguments.jobs, [&](size_t number) { return run_job(arguments, number); },
      [&](size_t number, const Json& result) {
        ++totals.programs;
        if (result.contains("actions")) {
          totals.actions += result["actions"].get<u64>();
          totals.sessions += result["sessions"].get<u64>();
          totals.crashes += result["crashes"].get<u64>();
          totals.failed_calls += result["failed_calls"].get<u64>();
          totals.pairs.add_counts(result["pairs"]);
        }
        if (result.contains("problem")) {
          if (totals.failures++ == 0) totals.first_failure_s = elapsed_s();
          problems.push_back(text_of(number, result));
          std::printf("%s", problems.back().c_str());
          std::fflush(stdout);
        }
        return more();
      });
  std::printf("%s", totals.pairs.table().c_str());
  std::printf(
      "pairs %.3f (%lu of %lu); %lu programs, %lu actions, %lu sessions, %lu crashes, %lu failed "
      "calls, %lu failures; %.0f s\n",
      totals.pairs.share(), totals.pairs.crossed(), totals.pairs.possible(), totals.programs,
      totals.actions, totals.sessions, totals.crashes, totals.failed_calls, totals.failures,
      elapsed_s());
  // Again, since a log is read from its end.
  for (const std::string& problem : problems) std::printf("%s", problem.c_str());
  if (!arguments.json.empty()) std::ofstream(arguments.json) << figures_of(totals).dump(1) << "\n";
  return totals.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace perdura::model

int main(int argc, char** argv) {
  using namespace perdura::model;
  CLI::App app("Runs random programs over all of the API against a plain model in memory.");
  Arguments arguments;
  app.add_option("--seed", arguments.seed, "of the first program");
  app.add_option("--programs", arguments.programs, "how many; of a replay, how often");
  app.add_option("--minutes", arguments.minutes, "stop after so long");
  app.add_option("--seconds", arguments.seconds, "the same");
  app.add_option("--actions", arguments.actions, "of a program, about")->capture_default_str();
  app.add_option("--kind", arguments.kind, "run, kill or faults; all of them in turn by default")
      ->check(CLI::IsMember({"run", "kill", "faults"}));
  app.add_option("--jobs", arguments.jobs, "programs at once")->capture_default_str();
  app.add_option("--failures", arguments.failures_max, "stop after so many")->capture_default_str();
  app.add_option("--shrink", arguments.shrink_seconds, "seconds to make a failure smaller")
      ->capture_default_str();
  app.add_option("--findings", arguments.findings, "a folder for programs that fail")
      ->capture_default_str();
  app.add_option("--replay", arguments.replay, "run one of those again")->check(CLI::ExistingFile);
  app.add_flag("--known", arguments.known, "draw also what known faults spoil");
  app.add_flag("--print", arguments.print, "show the program");
  app.add_option("--json", arguments.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "perdura-model: %s\n", error.what());
    return 2;
  }
}
