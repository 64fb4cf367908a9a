// perdura-proof: explores what power failures may leave of recorded runs of the store.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "corruption.hpp"
#include "mutants.hpp"

namespace perdura::proof {
namespace {

struct Arguments {
  std::vector<std::string> workloads;
  std::vector<std::string> media;
  u64 slices = 1;  ///< of one of these, the others are not explored
  u64 slice = 0;
  u64 seed = 1;
  u64 seeds = 1;
  double minutes = 0;  ///< more seeds until then
  unsigned jobs = 2;
  bool mutants = false;
  std::string site;  ///< of mutants: a part of the name
  bool damage = false;
  u64 flip_every = 1;
  u64 sector_cases = 100'000;
  std::string json;
  std::string findings = ".";
  std::string replay;  ///< a finding
  bool list = false;
  std::vector<std::string> add;  ///< summaries of other campaigns
};

std::vector<Task> tasks_of(const Arguments& arguments, u64 seed) {
  const auto chosen = [](const std::vector<std::string>& names, const char* name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<Task> tasks;
  u64 turn = arguments.slice;
  for (const Workload& workload : workloads()) {
    u64 number = turn++;
    for (const MediumKind& medium : kMedia) {
      const bool is_in_slice = number++ % arguments.slices == 0;
      if (chosen(arguments.workloads, workload.name) && chosen(arguments.media, medium.name) &&
          (workload.on_servers || !medium.on_server) && is_in_slice)
        tasks.push_back({&workload, &medium, seed});
    }
  }
  return tasks;
}

Json explore_task(const Task& task, const std::string& findings) {
  Judged judged(task.record());
  if (!judged.problem.empty()) return {{"problem", judged.problem}};
  Explored explored = explore(judged, nullptr, 2);
  Json result = {{"executions", explored.coverage.executions},
                 {"states", explored.coverage.states},
                 {"sampled", explored.coverage.sampled_states},
                 {"log10_contents", explored.coverage.log10_contents},
                 {"points_left_out", explored.points_left_out},
                 {"inner_left_out", explored.coverage.inner_left_out}};
  if (explored.problem.empty()) return result;
  const std::string path = findings + "/" + task.workload->name + "-" + task.medium->name + "-" +
                           std::to_string(task.seed) + ".finding";
  save({task.name(), explored.problem, explored.session, std::move(explored.point), judged.run},
       path);
  result["problem"] = explored.problem;
  result["finding"] = path;
  return result;
}

int replay_finding(const std::string& path) {
  const Finding finding = load(path);
  print(finding);
  const Judged judged(finding.run, finding.session);
  if (!judged.problem.empty())
    throw std::runtime_error("this build cannot read the run any more: " + judged.problem);
  const std::string problem = replay(judged, finding.session, finding.point, nullptr);
  std::printf("now: %s\n", problem.empty() ? "nothing is wrong" : problem.c_str());
  return problem.empty() ? 0 : 1;
}

struct Totals {
  testing::Coverage coverage;
  std::set<std::string> workloads;  ///< on a medium
  u64 points_left_out = 0;
  u64 problems = 0;  ///< states that recovery does not master
  u64 crashed = 0;
  u64 hung = 0;
  std::vector<std::string> first_problems;  ///< with the jobs that found them
  MutantsResult mutants;
  Damage damage;

  /// Of a job that found a problem, or one in itself.
  void note_end(const std::string& job, const Json& result) {
    constexpr size_t kToldAgain = 5;
    if (first_problems.size() < kToldAgain)
      first_problems.push_back(job + ": " + result.at("problem").get<std::string>());
    if (result.contains("crashed")) ++crashed;
    else if (result.contains("hung")) ++hung;
    else ++problems;
  }
};

/// Bits of every victim, and the other damage.
void run_damage(const Arguments& arguments, Totals& totals) {
  constexpr u64 kParts = 8;
  const std::vector<Victim> all = victims();
  run_jobs(
      all.size() * (kParts + 1), arguments.jobs,
      [&](size_t number) {
        const Victim& victim = all[number / (kParts + 1)];
        const u64 part = number % (kParts + 1);
        return (part < kParts ? flip_bits(victim, {.part = part,
                                                   .parts = kParts,
                                                   .every = arguments.flip_every,
                                                   .first = arguments.seed,
                                                   .findings = arguments.findings})
                              : damage_sectors(victim, arguments.sector_cases / all.size(),
                                               arguments.seed, arguments.findings))
            .json();
      },
      [&](size_t number, const Json& result) {
        const std::string& victim = all[number / (kParts + 1)].name;
        if (result.contains("cases")) {
          const Damage damage = Damage::of(result);
          for (const std::string& problem : damage.problems) std::printf("%s\n", problem.c_str());
          totals.damage.add(damage);
          std::printf("%s, part %zu: %lu cases so far, %lu silent\n", victim.c_str(),
                      number % (kParts + 1), totals.damage.cases, totals.damage.silent);
        } else {
          totals.note_end(victim, result);
          std::printf(
              "%s, part %zu: %s\n  again: perdura-proof --seeds 0 --damage --seed %lu "
              "--flip-every %lu\n",
              victim.c_str(), number % (kParts + 1),
              result.at("problem").get<std::string>().c_str(), arguments.seed,
              arguments.flip_every);
        }
        std::fflush(stdout);
        return true;
      });
}

void explore_all(const Arguments& arguments, const std::function<double()>& elapsed,
                 Totals& totals) {
  std::printf("%-40s %9s %9s %12s %9s\n", "workload on medium", "states", "sampled", "executions",
              "contents");
  const auto wanted = [&](u64 seed) {
    return seed < arguments.seeds || elapsed() < arguments.minutes * 60;
  };
  for (u64 i = 0; wanted(i); ++i) {
    const std::vector<Task> tasks = tasks_of(arguments, arguments.seed + i);
    run_jobs(
        tasks.size(), arguments.jobs,
        [&](size_t number) { return explore_task(tasks[number], arguments.findings); },
        [&](size_t number, const Json& result) {
          const Task& task = tasks[number];
          if (result.contains("executions")) {
            testing::Coverage coverage;
            coverage.executions = result["executions"];
            coverage.states = result["states"];
            coverage.sampled_states = result["sampled"];
            coverage.log10_contents = result["log10_contents"];
            coverage.inner_left_out = result["inner_left_out"];
            totals.coverage.add(coverage);
            totals.points_left_out += result["points_left_out"].get<u64>();
            totals.workloads.insert(std::string(task.workload->name) + " on " + task.medium->name);
            std::printf("%-40s %9lu %9lu %12lu    10^%.0f\n", task.name().c_str(), coverage.states,
                        coverage.sampled_states, coverage.executions, coverage.log10_contents);
          }
          if (result.contains("problem")) {
            totals.note_end(task.name(), result);
            if (result.contains("finding")) {
              const std::string path = result["finding"];
              print(load(path));
              std::printf("  again: perdura-proof --replay '%s'\n", path.c_str());
            } else {
              std::printf(
                  "PROBLEM in %s: %s\n  again: perdura-proof --workload %s --medium %s --seed "
                  "%lu\n",
                  task.name().c_str(), result["problem"].get<std::string>().c_str(),
                  task.workload->name, task.medium->name, task.seed);
            }
          }
          std::fflush(stdout);
          return wanted(i);
        });
  }
  std::printf("%lu executions cover 10^%.0f contents of %lu states, %lu of them sampled; %.0f s\n",
              totals.coverage.executions, totals.coverage.log10_contents, totals.coverage.states,
              totals.coverage.sampled_states, elapsed());
}

/// The figures of this run, and of the campaigns whose summaries were added.
Json figures_of(const Arguments& arguments, const Totals& totals) {
  Json figures = Json::array();
  bool all_hold = true;
  const auto figure = [&](const char* key, double value, const char* unit, const char* reach,
                          bool holds, Json detail) {
    all_hold = all_hold && holds;
    figures.push_back({{"key", key},
                       {"value", value},
                       {"unit", unit},
                       {"reach", reach},
                       {"holds", holds},
                       {"detail", std::move(detail)}});
    std::printf("%-17s %16.10g %-10s %-8s %s\n", key, value, unit, reach,
                holds ? "holds" : "FAILS");
  };
  Json added = Json::array();
  u64 model_actions = 0;
  u64 model_failures = 0;
  std::optional<double> pairs;
  std::optional<double> model_mutants;
  std::optional<u64> promises_untested;
  Json promises;
  std::optional<double> old_open;
  std::optional<u64> silent_read;
  u64 silent = totals.damage.silent;
  u64 crashed = totals.crashed;
  u64 hung = totals.hung;
  u64 lost = totals.problems;
  for (const std::string& path : arguments.add) {
    std::ifstream in(path);
    Json summary = Json::parse(in, nullptr, false);
    if (summary.is_discarded()) throw std::runtime_error(path + " holds no JSON");
    if (!summary.is_array()) summary = Json::array({summary});
    for (const Json& each : summary) {
      silent += each.value("silent", u64{0});
      crashed += each.value("crashed", u64{0});
      hung += each.value("hung", u64{0});
      lost += each.value("lost", u64{0});
      model_actions += each.value("model_actions", u64{0});
      model_failures += each.value("model_failures", u64{0});
      if (each.contains("pairs")) pairs = std::max(pairs.value_or(0), each["pairs"].get<double>());
      if (each.contains("model_mutants")) model_mutants = each["model_mutants"];
      if (each.contains("promises_untested")) {
        promises_untested = each["promises_untested"];
        promises = each;
      }
      if (each.contains("old_open"))
        old_open = std::max(old_open.value_or(0), each["old_open"].get<double>());
      if (each.contains("silent_read"))
        silent_read = silent_read.value_or(0) + each["silent_read"].get<u64>();
      added.push_back(each);
    }
  }
  const testing::Coverage& coverage = totals.coverage;
  if (coverage.states != 0) {
    figure("workloads", static_cast<double>(totals.workloads.size()), "workloads", ">= 20",
           totals.workloads.size() >= 20, {{"on media", totals.workloads}});
    const double exact =
        1 - static_cast<double>(coverage.sampled_states) / static_cast<double>(coverage.states);
    figure("exact_epochs", exact, "share", ">= 0.99", exact >= 0.99,
           {{"states", coverage.states},
            {"sampled", coverage.sampled_states},
            {"inside recovery, left out", coverage.inner_left_out},
            {"crash points left to other seeds", totals.points_left_out}});
    const u64 executions = coverage.executions + totals.damage.cases;
    figure("executions", static_cast<double>(executions), "recoveries", ">= 5e6",
           executions >= 5'000'000,
           {{"of crash states", coverage.executions},
            {"of damaged images", totals.damage.cases},
            {"log10 of contents covered", coverage.log10_contents}});
  }
  if (totals.mutants.mutants != 0) {
    const double killed =
        1 - static_cast<double>(totals.mutants.survivors.size()) /
                static_cast<double>(totals.mutants.mutants - totals.mutants.explained.size());
    figure("mutants_killed", killed, "share", "1", totals.mutants.survivors.empty(),
           {{"mutants", totals.mutants.mutants},
            {"survivors", totals.mutants.survivors},
            {"explained", totals.mutants.explained}});
  }
  if (pairs) figure("pairs", *pairs, "share", "1", *pairs == 1, {{"campaigns", added}});
  if (model_actions != 0)
    figure("model_actions", static_cast<double>(model_actions), "actions", ">= 2e5",
           model_actions >= 200'000, {{"campaigns", added}});
  if (model_mutants)
    figure("model_mutants", *model_mutants, "share", "1", *model_mutants == 1,
           {{"campaigns", added}});
  if (promises_untested)
    figure("promises_untested", static_cast<double>(*promises_untested), "promises", "0",
           *promises_untested == 0, promises);
  if (old_open) {
    // A ratio of times: shown, but on a loaded machine it proves nothing. What an opening asks of
    // the medium is compared by old_store_test.
    const bool others_hold = all_hold;
    figure("old_open", *old_open, "ratio", "<= 1.2", *old_open <= 1.2, {{"campaigns", added}});
    all_hold = others_hold;
  }
  const auto none = [&](const char* key, u64 value) {
    figure(key, static_cast<double>(value), "cases", "0", value == 0,
           {{"damage", totals.damage.json()}, {"campaigns", added}});
  };
  none("silent", silent);
  if (silent_read) none("silent_read", *silent_read);
  none("crashed", crashed);
  none("hung", hung);
  none("lost", lost);
  // They were told when they were found, thousands of lines ago.
  for (const std::string& each : totals.first_problems) std::printf("  %s\n", each.c_str());
  if (pairs) none("model_failures", model_failures);
  return {{"benchmark", "proof"}, {"figures", figures}, {"holds", all_hold}};
}

int run(const Arguments& arguments) {
  if (arguments.list) {
    for (const Workload& workload : workloads())
      std::printf("%-18s %s\n", workload.name, workload.what);
    return 0;
  }
  if (!arguments.replay.empty()) return replay_finding(arguments.replay);
  std::filesystem::create_directories(arguments.findings);
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Totals totals;
  if (arguments.seeds != 0 || arguments.minutes != 0) explore_all(arguments, elapsed, totals);
  if (arguments.mutants)
    totals.mutants =
        run_mutants(tasks_of(arguments, arguments.seed), arguments.site, arguments.jobs);
  if (arguments.damage) run_damage(arguments, totals);
  const Json figures = figures_of(arguments, totals);
  if (!arguments.json.empty()) std::ofstream(arguments.json) << figures.dump(1) << "\n";
  return figures["holds"] ? 0 : 1;
}

}  // namespace
}  // namespace perdura::proof

int main(int argc, char** argv) {
  using namespace perdura::proof;
  CLI::App app("Explores every state that a power failure may leave of recorded runs.");
  Arguments arguments;
  app.add_option("--workload", arguments.workloads, "only these workloads");
  app.add_option("--medium", arguments.media, "only these media");
  app.add_option("--slices", arguments.slices,
                 "take so many slices of the workloads and media, each with all workloads on some "
                 "of their media, and explore one of them")
      ->check(CLI::PositiveNumber);
  app.add_option("--slice", arguments.slice, "which of them: the remainder by their number");
  app.add_option("--seed", arguments.seed, "the first seed");
  app.add_option("--seeds", arguments.seeds, "how many; 0: none");
  app.add_option("--minutes", arguments.minutes, "go on with further seeds for so long");
  app.add_option("--jobs", arguments.jobs, "tasks at once");
  app.add_flag("--mutants", arguments.mutants, "leave out parts of the protocol, one at a time");
  app.add_option("--site", arguments.site, "only mutants with this in their names");
  app.add_flag("--damage", arguments.damage, "damage stores at rest, every bit of them");
  app.add_option("--flip-every", arguments.flip_every,
                 "of so many bits flip one; which one, the seed says")
      ->check(CLI::PositiveNumber);
  app.add_option("--findings", arguments.findings, "a folder for the problems that are found")
      ->capture_default_str();
  app.add_option("--replay", arguments.replay, "look at one of those again")
      ->check(CLI::ExistingFile);
  app.add_flag("--list", arguments.list, "name the workloads");
  app.add_option("--json", arguments.json, "write the figures to this file");
  app.add_option("--add", arguments.add, "count what these campaigns' summaries say as well");
  CLI11_PARSE(app, argc, argv);
  // Images of stores come and go by the thousand: not a mapping each.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "perdura-proof: %s\n", error.what());
    return 2;
  }
}
