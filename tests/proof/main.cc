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

struct Explored {
  testing::Coverage coverage;
  std::string problem;
  Json point;
};

/// Before every barrier, and at the end. With a mutation one failure in the middle of recovery is
/// looked for as well, but the first problem ends it.
Explored explore(const Recorded& recorded, const Mutation* mutation, testing::Passed* passed) {
  Explored explored;
  const auto& sessions = recorded.run.sessions();
  for (size_t i = 0; i < sessions.size(); ++i) {
    const Session& session = sessions[i];
    testing::Explorer explorer(
        recorded.run.geometry(),
        {.seed = recorded.run.seed(), .mutation = mutation, .passed = passed},
        [&](testing::Execution& execution, u64 version_min) {
          return recorded.oracles[i]->judge(execution, version_min);
        });
    std::vector<size_t> ends = session.history.barriers();
    ends.push_back(session.history.calls().size());
    for (const size_t end : ends) {
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
    if (passed != nullptr) note_sites(session.history, *passed);
    if (!explored.problem.empty()) break;
  }
  return explored;
}

Json explore_task(const Task& task) {
  Json result = {
      {"workload", task.workload->name}, {"medium", task.medium->name}, {"seed", task.seed}};
  const Recorded recorded(task);
  if (!recorded.problem.empty()) {
    result["problem"] = recorded.problem;
    return result;
  }
  const Explored explored = explore(recorded, nullptr, nullptr);
  result["executions"] = explored.coverage.executions;
  result["states"] = explored.coverage.states;
  result["sampled"] = explored.coverage.sampled_states;
  result["log10_contents"] = explored.coverage.log10_contents;
  result["undecided_max"] = explored.coverage.undecided_max;
  if (!explored.problem.empty()) {
    result["problem"] = explored.problem;
    result["point"] = explored.point;
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
};

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
        for (size_t i = 0; i < recorded.size(); ++i) {
          const Explored explored = explore(*recorded[i], &mutation, nullptr);
          executions += explored.coverage.executions;
          if (!explored.problem.empty())
            return {
                {"caught", tasks[i].name()}, {"how", explored.problem}, {"executions", executions}};
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

int explore_all(const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  testing::Coverage total;
  u64 problems = 0;
  Json results = Json::array();
  std::printf("%-40s %9s %9s %12s %9s\n", "workload on medium", "states", "sampled", "executions",
              "contents");
  for (u64 i = 0; i < arguments.seeds || elapsed() < arguments.minutes * 60; ++i) {
    const std::vector<Task> tasks = tasks_of(arguments, arguments.seed + i);
    run_jobs(
        tasks.size(), arguments.jobs, [&](size_t number) { return explore_task(tasks[number]); },
        [&](size_t number, const Json& result) {
          const Task& task = tasks[number];
          results.push_back(result);
          if (result.contains("executions")) {
            testing::Coverage coverage;
            coverage.executions = result["executions"];
            coverage.states = result["states"];
            coverage.sampled_states = result["sampled"];
            coverage.log10_contents = result["log10_contents"];
            total.add(coverage);
            std::printf("%-40s %9lu %9lu %12lu    10^%.0f\n", task.name().c_str(), coverage.states,
                        coverage.sampled_states, coverage.executions, coverage.log10_contents);
          }
          if (result.contains("problem")) {
            ++problems;
            std::printf("%s: %s\n  %s\n", task.name().c_str(),
                        result["problem"].get<std::string>().c_str(),
                        result.value("point", Json()).dump().c_str());
          }
          return i < arguments.seeds || elapsed() < arguments.minutes * 60;
        });
  }
  MutantsResult mutants;
  if (arguments.mutants) mutants = run_mutants(arguments);
  if (arguments.damage) run_damage(arguments);
  std::printf("%lu executions cover 10^%.0f contents of %lu states, %lu of them sampled; %.0f s\n",
              total.executions, total.log10_contents, total.states, total.sampled_states,
              elapsed());
  return problems == 0 ? 0 : 1;
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
  app.add_option("--seeds", arguments.seeds, "how many");
  app.add_option("--minutes", arguments.minutes, "go on with further seeds for so long");
  app.add_option("--jobs", arguments.jobs, "tasks at once");
  app.add_flag("--mutants", arguments.mutants, "leave out parts of the protocol, one at a time");
  app.add_flag("--damage", arguments.damage, "damage stores at rest, every bit of them");
  app.add_option("--json", arguments.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  // Images of stores come and go by the thousand: not a mapping each.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return explore_all(arguments);
}
