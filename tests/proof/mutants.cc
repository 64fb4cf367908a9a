#include "mutants.hpp"

#include <cstdio>
#include <filesystem>

#include "corruption.hpp"

namespace perdura::proof {
namespace {

using testing::CrashState;
using testing::Mutation;

void note_sites(const media::History& history, testing::Passed& passed) {
  for (const media::RecordedCall& call : history.calls())
    if (call.site != nullptr)
      passed.note(call.kind == media::RecordedCall::Kind::kBarrier ? Mutation::Kind::kBarrier
                                                                   : Mutation::Kind::kWrite,
                  *call.site);
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

/// Of a site that recovery does not depend on: why it is there; else nullptr.
const char* explanation(std::string_view what) {
  if (what == "before a transaction's mark" || what == "after a word of a transaction")
    return "the paper's ways to make a record durable have it; a checksum says whether it is whole";
  if (what == "object entries before their mark")
    return "the paper's two steps have it; the checksum of a group says whether it is whole";
  if (what == "owner record")
    return "it names the opener in error messages, and nothing is recovered from it";
  if (what == "given back")
    return "what is free may hold anything; left out it costs space, which compact_test sees";
  if (what == "blank space")
    return "a store as small as that holds no version; it keeps other files from being taken for "
           "new stores (volume_test)";
  return nullptr;
}

using Runs = std::vector<std::unique_ptr<Judged>>;

/// The first of the runs in which a mutant shows, or a null.
Json caught_by_exploring(const Mutation& mutation, const Runs& runs, const std::vector<Task>& tasks,
                         int depth) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const Explored explored = explore(*runs[i], &mutation, depth);
    if (explored.problem.empty()) continue;
    // What is found is found again in one execution.
    const std::string again = replay(*runs[i], explored.session, explored.point, &mutation);
    if (again != explored.problem)
      return {{"problem", tasks[i].name() + ": " + explored.problem +
                              "; but replayed alone: " + (again.empty() ? "nothing" : again)}};
    return {{"caught", tasks[i].name()}, {"how", explored.problem}};
  }
  return {};
}

/// A check that no torn record needs may be there for decay: of bits, or of sectors.
Json caught_by_damage(const Mutation& mutation) {
  constexpr u64 kCases = 20'000;
  constexpr u64 kSeed = 1;
  for (const Victim& victim : victims()) {
    const Damage damage = flip_bits(victim, {.mutation = &mutation, .enough = 1});
    if (damage.silent != 0) return {{"caught", "bit flips"}, {"how", damage.problems.front()}};
  }
  for (const Victim& victim : victims()) {
    const Damage damage = damage_sectors(victim, kCases, kSeed, "", &mutation);
    if (damage.silent != 0) return {{"caught", "sectors"}, {"how", damage.problems.front()}};
  }
  return {};
}

// What is quick comes first.
Json run_mutant(const Mutation& mutation, const Runs& runs, const std::vector<Task>& tasks) {
  Json result = caught_by_exploring(mutation, runs, tasks, 1);
  if (result.is_null() && mutation.kind == Mutation::Kind::kWhole)
    result = caught_by_damage(mutation);
  if (result.is_null()) result = caught_by_exploring(mutation, runs, tasks, 2);
  return result.is_null() ? Json::object() : result;
}

}  // namespace

MutantsResult run_mutants(const std::vector<Task>& tasks, const std::string& part, unsigned jobs) {
  Runs runs;
  testing::Passed passed;
  for (const Task& task : tasks) {
    runs.push_back(std::make_unique<Judged>(task.record()));
    if (!runs.back()->problem.empty())
      throw std::runtime_error(task.name() + ": " + runs.back()->problem);
  }
  // The sites that the runs pass; those of recoveries where nothing is lost; and those of a medium
  // that is just being formatted.
  constexpr size_t kFormatting = 2;
  for (const auto& each : runs)
    for (size_t i = 0; i < each->run.sessions.size(); ++i) {
      const media::History& history = each->run.sessions[i].history;
      note_sites(history, passed);
      testing::Explorer explorer = each->explorer(i, {.depth = 1, .passed = &passed});
      const std::vector<size_t> ends = history.crash_points();
      for (size_t k = 0; k < ends.size(); ++k) {
        CrashState state(history, ends[k], each->run.medium.tearing);
        if (k >= kFormatting) state = state.nothing_lost();
        explorer.explore(state, ends[k]);
      }
    }
  MutantsResult result;
  std::vector<std::pair<Mutation::Kind, const testing::Site*>> sites;
  for (const auto& [kind, site] : passed.sites) {
    const std::string name = name_of(Mutation{kind, site});
    if (name.find(part) == name.npos) continue;
    ++result.mutants;
    const char* const why = explanation(site->what);
    if (why == nullptr) {
      sites.emplace_back(kind, site);
      continue;
    }
    std::printf("without %-52s not tried: %s\n", name.c_str(), why);
    result.explained.push_back({{"mutant", name}, {"why", why}});
  }
  std::printf("%lu sites\n", result.mutants);
  run_jobs(
      sites.size(), jobs,
      [&](size_t number) {
        return run_mutant({sites[number].first, sites[number].second}, runs, tasks);
      },
      [&](size_t number, const Json& outcome) {
        const std::string name = name_of({sites[number].first, sites[number].second});
        if (outcome.contains("caught")) {
          std::printf("without %-52s caught by %s: %s\n", name.c_str(),
                      outcome["caught"].get<std::string>().c_str(),
                      outcome["how"].get<std::string>().c_str());
        } else if (outcome.contains("crashed")) {
          std::printf("without %-52s caught: %s\n", name.c_str(),
                      outcome["problem"].get<std::string>().c_str());
        } else {
          std::printf("without %-52s SURVIVES %s\n", name.c_str(),
                      outcome.value("problem", std::string()).c_str());
          result.survivors.push_back(name);
        }
        std::fflush(stdout);
        return true;
      });
  return result;
}

}  // namespace perdura::proof
