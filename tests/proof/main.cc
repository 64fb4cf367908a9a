// perdura-proof: explores what power failures may leave of recorded runs of the store.
//
// A task is a workload on a medium with a seed. Tasks run in child processes, several at once, so
// that a crash of one is a finding like others. Each result is a line of JSON on a pipe.
#include <malloc.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "corruption.hpp"

namespace perdura::proof {
namespace {

using testing::CrashPoint;
using testing::CrashState;
using testing::Mutation;

struct Arguments {
  std::vector<std::string> workloads;
  std::vector<std::string> media;
  u64 seed = 1;
  u64 seeds = 1;
  double minutes = 0;  ///< more seeds until then
  unsigned jobs = 2;
  bool mutants = false;
  bool damage = false;
  u64 sector_cases = 100'000;
  std::string json;
  std::vector<std::string> add;  ///< summaries of other campaigns
};

struct Task {
  const Workload* workload;
  const MediumKind* medium;
  u64 seed;

  std::string name() const {
    return std::string(workload->name) + " on " + medium->name + ", seed " + std::to_string(seed);
  }
};

/// A run with what is known of it.
struct Recorded {
  explicit Recorded(const Task& task) : run(*task.medium, task.seed) {
    task.workload->run(run);
    for (const Session& session : run.sessions()) {
      oracles.push_back(std::make_unique<Oracle>(run, session));
      problem = oracles.back()->learn();
      if (!problem.empty()) return;
    }
  }
  Run run;
  std::vector<std::unique_ptr<Oracle>> oracles;  ///< of the sessions
  std::string problem;
};

u64 acknowledged_by(const Session& session, size_t call) {
  u64 version = session.acknowledged_before;
  for (const Acknowledgement& each : session.acknowledgements)
    if (each.calls <= call) version = std::max(version, each.version);
  return version;
}

void note_sites(const media::History& history, testing::Passed& passed) {
  for (const media::RecordedCall& call : history.calls())
    if (call.site != nullptr)
      passed.note(call.kind == media::RecordedCall::Kind::kBarrier ? Mutation::Kind::kBarrier
                                                                   : Mutation::Kind::kWrite,
                  *call.site);
}

/// Recoveries of one task, after which further crash points are left to other seeds.
constexpr u64 kTaskExecutionsMax = 200'000;

struct Explored {
  u64 points_left_out = 0;
  testing::Coverage coverage;
  std::string problem;
  Json point;
};

/// Before every barrier, and at the end. The first problem ends it.
Explored explore(const Recorded& recorded, const Mutation* mutation, int depth) {
  Explored explored;
  const auto& sessions = recorded.run.sessions();
  for (size_t i = 0; i < sessions.size(); ++i) {
    const Session& session = sessions[i];
    testing::Explorer explorer(recorded.run.geometry(),
                               {.depth = depth, .seed = recorded.run.seed(), .mutation = mutation},
                               [&](testing::Execution& execution, u64 version_min) {
                                 return recorded.oracles[i]->judge(execution, version_min);
                               });
    std::vector<size_t> ends = session.history.barriers();
    ends.push_back(session.history.calls().size());
    // Each seed begins elsewhere.
    std::rotate(ends.begin(),
                ends.begin() + static_cast<std::ptrdiff_t>(recorded.run.seed() * 7 % ends.size()),
                ends.end());
    for (const size_t end : ends) {
      if (explored.coverage.executions + explorer.coverage().executions > kTaskExecutionsMax) {
        ++explored.points_left_out;
        continue;
      }
      const CrashState state(session.history, end, recorded.run.medium().tearing, mutation);
      if (explorer.explore(state, end, acknowledged_by(session, end))) continue;
      const testing::Problem& problem = *explorer.problem();
      explored.problem = problem.what;
      explored.point = {{"session", i},
                        {"call", problem.point.call},
                        {"choices", problem.point.choices},
                        {"barrier", problem.point.barrier},
                        {"sample", problem.point.sample}};
      break;
    }
    explored.coverage.add(explorer.coverage());
    if (!explored.problem.empty()) break;
  }
  return explored;
}

/// What was done before a failure, for people.
Json last_calls(const media::History& history, size_t end) {
  constexpr size_t kShown = 40;
  Json calls = Json::array();
  for (size_t i = end > kShown ? end - kShown : 0; i < end; ++i) {
    const media::RecordedCall& call = history.calls()[i];
    using Kind = media::RecordedCall::Kind;
    if (call.kind == Kind::kDrain) continue;
    if (call.kind == Kind::kGrow) {
      calls.push_back("grow to " + std::to_string(call.size));
      continue;
    }
    std::string text = call.kind == Kind::kBarrier ? "barrier, " : "write, ";
    text += call.site->what;
    if (call.kind != Kind::kBarrier)
      text += " at " + std::to_string(call.offset) + ", " + std::to_string(call.bytes.size());
    calls.push_back(text);
  }
  return calls;
}

Json explore_task(const Task& task) {
  Json result = {
      {"workload", task.workload->name}, {"medium", task.medium->name}, {"seed", task.seed}};
  const Recorded recorded(task);
  if (!recorded.problem.empty()) {
    result["problem"] = recorded.problem;
    return result;
  }
  const Explored explored = explore(recorded, nullptr, 2);
  result["executions"] = explored.coverage.executions;
  result["states"] = explored.coverage.states;
  result["sampled"] = explored.coverage.sampled_states;
  result["log10_contents"] = explored.coverage.log10_contents;
  result["points_left_out"] = explored.points_left_out;
  result["inner_left_out"] = explored.coverage.inner_left_out;
  if (!explored.problem.empty()) {
    result["problem"] = explored.problem;
    result["point"] = explored.point;
    result["before"] = last_calls(recorded.run.sessions()[explored.point["session"]].history,
                                  explored.point["call"]);
  }
  return result;
}

/// Runs jobs in child processes, at most so many at once; done(number, result) gets each result.
void run_jobs(size_t count, unsigned at_once, const std::function<Json(size_t)>& job,
              const std::function<bool(size_t, const Json&)>& done) {
  struct Child {
    pid_t pid;
    int pipe;
    size_t number;
    std::string text;
  };
  std::vector<Child> children;
  size_t next = 0;
  bool more = true;
  while (!children.empty() || (more && next < count)) {
    while (more && next < count && children.size() < at_once) {
      int ends[2];
      if (::pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
      std::fflush(nullptr);
      const pid_t pid = ::fork();
      if (pid < 0) throw std::runtime_error("cannot fork");
      if (pid == 0) {
        ::close(ends[0]);
        Json result;
        try {
          result = job(next);
        } catch (const std::exception& error) {
          result = {{"problem", std::string("an exception: ") + error.what()}};
        }
        const std::string text = result.dump();
        for (size_t sent = 0; sent < text.size();) {
          const ssize_t wrote = ::write(ends[1], text.data() + sent, text.size() - sent);
          if (wrote <= 0) ::_exit(1);
          sent += static_cast<size_t>(wrote);
        }
        ::_exit(0);
      }
      ::close(ends[1]);
      children.push_back({pid, ends[0], next++, {}});
    }
    std::vector<pollfd> ready;
    for (const Child& child : children) ready.push_back({child.pipe, POLLIN, 0});
    ::poll(ready.data(), ready.size(), -1);
    for (size_t i = children.size(); i-- > 0;) {
      if (ready[i].revents == 0) continue;
      char piece[65536];
      const ssize_t got = ::read(children[i].pipe, piece, sizeof piece);
      if (got > 0) {
        children[i].text.append(piece, static_cast<size_t>(got));
        continue;
      }
      int status = 0;
      ::waitpid(children[i].pid, &status, 0);
      ::close(children[i].pipe);
      Json result = Json::parse(children[i].text, nullptr, false);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || result.is_discarded())
        result = {{"problem", "the process ended with status " + std::to_string(status)}};
      const size_t number = children[i].number;
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
      more = done(number, result) && more;
    }
  }
}

std::vector<Task> tasks_of(const Arguments& arguments, u64 seed) {
  const auto chosen = [](const std::vector<std::string>& names, const char* name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<Task> tasks;
  for (const Workload& workload : workloads())
    for (const MediumKind& medium : kMedia)
      if (chosen(arguments.workloads, workload.name) && chosen(arguments.media, medium.name))
        tasks.push_back({&workload, &medium, seed});
  return tasks;
}

const char* name_of(Mutation::Kind kind) {
  switch (kind) {
    case Mutation::Kind::kBarrier:
      return "barrier";
    case Mutation::Kind::kWrite:
      return "write";
    case Mutation::Kind::kWhole:
      return "checksum";
  }
  return "";
}

std::string name_of(const Mutation& mutation) {
  return std::string(name_of(mutation.kind)) + " '" + mutation.site->what + "' (" +
         std::string(std::filesystem::path(mutation.site->file).filename()) + ":" +
         std::to_string(mutation.site->line) + ")";
}

struct MutantsResult {
  u64 mutants = 0;
  Json survivors = Json::array();
  Json explained = Json::array();
};

/// Sites that recovery does not depend on, and why they are there.
const char* explanation(std::string_view what) {
  if (what == "owner record")
    return "it names the opener in error messages, and nothing is recovered from it";
  return nullptr;
}

/// Leave out each barrier, flush and checksum in turn: some run must show it.
MutantsResult run_mutants(const Arguments& arguments) {
  std::vector<std::unique_ptr<Recorded>> recorded;
  std::vector<Task> tasks;
  testing::Passed passed;
  for (const Task& task : tasks_of(arguments, arguments.seed)) {
    auto each = std::make_unique<Recorded>(task);
    if (!each->problem.empty()) throw std::runtime_error(task.name() + ": " + each->problem);
    tasks.push_back(task);
    recorded.push_back(std::move(each));
  }
  // The sites that recovery passes where nothing is lost, and those of the runs.
  for (const auto& each : recorded)
    for (size_t i = 0; i < each->run.sessions().size(); ++i) {
      const Session& session = each->run.sessions()[i];
      note_sites(session.history, passed);
      const CrashState state(session.history, session.history.calls().size(),
                             each->run.medium().tearing);
      testing::Explorer explorer(each->run.geometry(), {.depth = 1, .passed = &passed},
                                 [&](testing::Execution& execution, u64 version_min) {
                                   return each->oracles[i]->judge(execution, version_min);
                                 });
      explorer.explore(state, session.history.calls().size(), 0);
    }
  const std::vector<std::pair<Mutation::Kind, const testing::Site*>> sites(passed.sites.begin(),
                                                                           passed.sites.end());
  MutantsResult result;
  result.mutants = sites.size();
  run_jobs(
      sites.size(), arguments.jobs,
      [&](size_t number) -> Json {
        const Mutation mutation{sites[number].first, sites[number].second};
        u64 executions = 0;
        // Most show without failures inside recovery.
        for (const int depth : {1, 2})
          for (size_t i = 0; i < recorded.size(); ++i) {
            const Explored explored = explore(*recorded[i], &mutation, depth);
            executions += explored.coverage.executions;
            if (!explored.problem.empty())
              return {{"caught", tasks[i].name()},
                      {"how", explored.problem},
                      {"executions", executions}};
          }
        // A check that no torn record needs may be there for decay.
        if (mutation.kind == Mutation::Kind::kWhole)
          for (const Victim& victim : victims()) {
            const Damage damage = flip_bits(victim, 0, 1, &mutation, 1);
            if (damage.silent != 0)
              return {{"caught", "bit flips"}, {"how", damage.problems.front()}};
          }
        return {{"executions", executions}};
      },
      [&](size_t number, const Json& outcome) {
        const std::string name = name_of({sites[number].first, sites[number].second});
        // A mutant that crashes is caught as well.
        if (outcome.contains("caught") || outcome.contains("problem")) {
          std::printf("without %-52s caught by %s\n", name.c_str(),
                      outcome.contains("caught") ? (outcome["caught"].get<std::string>() + ": " +
                                                    outcome["how"].get<std::string>())
                                                       .c_str()
                                                 : outcome["problem"].get<std::string>().c_str());
        } else if (const char* why = explanation(sites[number].second->what)) {
          std::printf("without %-52s survives: %s\n", name.c_str(), why);
          result.explained.push_back({{"mutant", name}, {"why", why}});
        } else {
          std::printf("without %-52s SURVIVES\n", name.c_str());
          result.survivors.push_back(name);
        }
        std::fflush(stdout);
        return true;
      });
  return result;
}

/// Every bit of every victim, and the other damage.
Damage run_damage(const Arguments& arguments) {
  constexpr u64 kParts = 8;
  const std::vector<Victim> all = victims();
  Damage total;
  run_jobs(
      all.size() * (kParts + 1), arguments.jobs,
      [&](size_t number) {
        const Victim& victim = all[number / (kParts + 1)];
        const u64 part = number % (kParts + 1);
        return (part < kParts
                    ? flip_bits(victim, part, kParts)
                    : damage_sectors(victim, arguments.sector_cases / all.size(), arguments.seed))
            .json();
      },
      [&](size_t number, const Json& result) {
        Damage damage;
        if (!result.contains("cases")) {
          damage.problems.push_back(result.value("problem", std::string("?")));
          ++damage.silent;
        } else {
          damage.cases = result["cases"];
          damage.refused = result["refused"];
          damage.unharmed = result["unharmed"];
          damage.found = result["found"];
          damage.taken_for_torn = result["taken_for_torn"];
          damage.half_replayed = result["half_replayed"];
          damage.forged = result["forged"];
          damage.silent = result["silent"];
          damage.problems = result["problems"].get<std::vector<std::string>>();
        }
        for (const std::string& problem : damage.problems) std::printf("%s\n", problem.c_str());
        total.add(damage);
        if (number % (kParts + 1) == kParts) {
          std::printf("%s: %s\n", all[number / (kParts + 1)].name.c_str(),
                      total.json().dump().c_str());
          std::fflush(stdout);
        }
        return true;
      });
  return total;
}

struct Totals {
  testing::Coverage coverage;
  std::set<std::string> workloads;  ///< on a medium
  u64 points_left_out = 0;
  u64 problems = 0;  ///< states that recovery does not master
  u64 crashed = 0;
  MutantsResult mutants;
  Damage damage;
};

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
        tasks.size(), arguments.jobs, [&](size_t number) { return explore_task(tasks[number]); },
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
            ++totals.problems;
            totals.crashed += !result.contains("medium");
            std::printf(
                "PROBLEM in %s: %s\n  %s\n  again: perdura-proof --workload %s --medium %s "
                "--seed %lu\n",
                task.name().c_str(), result["problem"].get<std::string>().c_str(),
                result.value("point", Json()).dump().c_str(), task.workload->name,
                task.medium->name, task.seed);
            for (const Json& call : result.value("before", Json::array()))
              std::printf("    %s\n", call.get<std::string>().c_str());
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
    std::printf("%-16s %16.10g %-10s %-8s %s\n", key, value, unit, reach,
                holds ? "holds" : "FAILS");
  };
  Json added = Json::array();
  u64 silent = totals.damage.silent;
  u64 crashed = totals.crashed;
  u64 hung = 0;
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
  const auto none = [&](const char* key, u64 value) {
    figure(key, static_cast<double>(value), "cases", "0", value == 0,
           {{"damage", totals.damage.json()}, {"campaigns", added}});
  };
  none("silent", silent);
  none("crashed", crashed);
  none("hung", hung);
  none("lost", lost);
  return {{"benchmark", "proof"}, {"figures", figures}, {"holds", all_hold}};
}

int run(const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Totals totals;
  if (arguments.seeds != 0 || arguments.minutes != 0) explore_all(arguments, elapsed, totals);
  if (arguments.mutants) totals.mutants = run_mutants(arguments);
  if (arguments.damage) totals.damage = run_damage(arguments);
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
  app.add_option("--seed", arguments.seed, "the first seed");
  app.add_option("--seeds", arguments.seeds, "how many; 0: none");
  app.add_option("--minutes", arguments.minutes, "go on with further seeds for so long");
  app.add_option("--jobs", arguments.jobs, "tasks at once");
  app.add_flag("--mutants", arguments.mutants, "leave out parts of the protocol, one at a time");
  app.add_flag("--damage", arguments.damage, "damage stores at rest, every bit of them");
  app.add_option("--json", arguments.json, "write the figures to this file");
  app.add_option("--add", arguments.add, "count what these campaigns' summaries say as well");
  CLI11_PARSE(app, argc, argv);
  // Images of stores come and go by the thousand: not a mapping each.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return run(arguments);
}
