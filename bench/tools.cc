// The source tools: what perdura classify says of methods of which it is known what they are, and
// how long it takes for a large program.
#ifdef PERDURA_SOURCE

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <system_error>
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

/// In the program of the structures that say nothing of Perdura; types_examples runs it.
Measured added_lines() {
  std::ifstream program(PERDURA_SOURCES "/examples/containers/keep.c");
  double added = 0;
  for (std::string line; std::getline(program, line);)
    added += line.find("/* added */") != line.npos;
  return {added};
}

#ifdef PERDURA_TYPES

/// A program of fetch_sources.sh: the sources that are compiled with types, and those that are
/// compiled without, which are folders with a folder of its name.
struct Program {
  std::string name;
  std::string with, without;
};

/// A virtual machine may give memory that is free for seconds back to its host, and whoever takes
/// it again first waits for it, for milliseconds where it is a huge page. Neither side of a pair is
/// to: there are pages of both kinds that were used just now, by the processor that the program
/// will have.
void keep_free_memory() {
  constexpr std::size_t kBytes = 256 * kMiB;
  const PinnedScope pinned(kMutatorCpu);
  void* const taken = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  ::madvise(taken, kBytes, MADV_HUGEPAGE);
  prefault(taken, kBytes);
  ::munmap(taken, kBytes);
}

/// Of a program: without types of what it allocates, with them, and as one that looks for pointers
/// which these do not name, with census.c.
enum class Build { kPlain, kTyped, kAudit };

class TypedProgram {
 public:
  TypedProgram(std::string folder, Program program)
      : folder_(std::move(folder)), program_(std::move(program)) {}

  double compile_s(Build build) {
    made_.insert(build);
    const double start = now_s();
    run_command(step("compile", build));
    const double seconds = now_s() - start;
    run_command(step("link", build));
    return seconds;
  }
  /// Of a run with these arguments for a shell, and variables NAME=VALUE.
  double run_s(Build build, const std::string& arguments, const std::string& variables = "") {
    if (!made_.contains(build)) compile_s(build);
    keep_free_memory();
    const double start = now_s();
    run_command({"/usr/bin/env", "sh", "-c",
                 fmt::format("{} taskset -c {} {}/{} {} >/dev/null", variables, kMutatorCpu,
                             folder_of(build), program_.name, arguments)});
    return now_s() - start;
  }

 private:
  std::string folder_of(Build build) const {
    constexpr const char* kNames[] = {"plain", "typed", "audit"};
    return fmt::format("{}/{}_{}", folder_, program_.name, kNames[static_cast<int>(build)]);
  }
  ChildArguments step(const std::string& what, Build build) const {
    const bool typed = build != Build::kPlain;
    ChildArguments command = {PERDURA_SOURCES "/bench/unmodified/compile_program.sh",
                              what,
                              typed ? program_.with : program_.without,
                              program_.name,
                              folder_of(build),
                              typed ? PERDURA_DRIVER : PERDURA_CLANG,
                              "-O2"};
    if (build == Build::kAudit) {
      command.emplace_back("--perdura-audit");
      if (what == "compile") command.emplace_back(PERDURA_SOURCES "/bench/unmodified/census.c");
    }
    if (typed) {
      command.emplace_back("--perdura-types");
      command.push_back(fmt::format("--perdura-allocators=" PERDURA_SOURCES
                                    "/bench/unmodified/{}_allocators",
                                    program_.name));
    }
    return command;
  }

  std::string folder_;
  Program program_;
  std::set<Build> made_;
};

Measured with_and_without(const Paired& pairs) {
  return {pairs.ratio,
          {{"with_s", pairs.subject}, {"without_s", pairs.base}, {"ratios", pairs.ratios}}};
}

void report_types(Context& context, const std::string& folder) {
  TypedProgram sqlite(folder, {"sqlite", folder, folder});
  const std::string load = fmt::format("--size {} :memory:", context.scale(60, 20));
  context.measure("compile", "ratio", Reach::at_most(1.25), [&] {
    return with_and_without(paired(
        context.scale(3, 1), [&] { return sqlite.compile_s(Build::kTyped); },
        [&] { return sqlite.compile_s(Build::kPlain); }, false));
  });
  context.measure("types_sqlite", "ratio", Reach::at_most(1.03), [&] {
    return with_and_without(paired(
        context.scale(9, 3), [&] { return sqlite.run_s(Build::kTyped, load); },
        [&] { return sqlite.run_s(Build::kPlain, load); }));
  });
  // Of the words that lead to an object those that no record names. Pages of the cache are left
  // out: what they hold are records of tables.
  context.measure("types_missed", "%", Reach::at_most(2), [&] {
    const std::string census = folder + "/census.json";
    sqlite.run_s(Build::kAudit, load, "CENSUS=" + census + " CENSUS_APART=pcache1");
    const Json found = Json::parse(std::ifstream(census));
    const Json& others = found.at("others");
    const double missed = others.at("missed").get<double>();
    const double all = missed + others.at("named").get<double>() + others.at("maybe").get<double>();
    return Measured{100 * missed / all, found};
  });
}

/// Lua whose state is in a container: how many lines that takes, and what types cost it as an
/// ordinary interpreter, and what being in a container does besides, without a checkpoint.
void report_lua(Context& context, const std::string& folder) {
  const std::string patched = folder + "/patched";
  ChildProcess patch(ChildProcess::kCommand,
                     {PERDURA_SOURCES "/bench/unmodified/patch_lua.sh", folder, patched});
  const double lines = std::stod(patch.read_line());
  if (patch.wait() != 0) throw std::runtime_error("the lines do not fit this version of Lua");
  context.measure("lua", "lines added", Reach::at_most(20), [&] { return Measured{lines}; });
  TypedProgram lua(folder, {"lua", patched, folder});
  const std::string state = context.path(Place::kDisk, "lua_state");
  const auto compared = [&](const std::string& load, const std::string& variables) {
    return with_and_without(paired(
        context.scale(9, 3),
        [&] {
          context.remove(state);
          return lua.run_s(Build::kTyped, load, variables);
        },
        [&] { return lua.run_s(Build::kPlain, load); }));
  };
  const std::string work =
      fmt::format(PERDURA_SOURCES "/bench/unmodified/work.lua {}", context.scale(8, 4));
  const std::string trees = PERDURA_SOURCES "/bench/unmodified/trees.lua";
  context.measure("types_lua", "ratio", Reach::none(), [&] { return compared(work, ""); });
  context.measure("types_lua_trees", "ratio", Reach::none(), [&] { return compared(trees, ""); });
  context.measure("durable_lua_trees", "ratio", Reach::none(),
                  [&] { return compared(trees, "LUA_STATE=file:" + state); });
  context.remove(state);
}

#endif

void run(Context& context) {
  context.measure("table3", "% right", Reach::at_least(100),
                  [&] { return rightly(context, "table3"); });
  context.measure("adversarial", "% right", Reach::at_least(100),
                  [&] { return rightly(context, "*"); });
  context.measure("table4", "programs as in the paper", Reach::none(),
                  [&] { return table4(context); });
  for (const char* structure : {"list", "tree", "hash"})
    context.measure(structure, "lines added", Reach::at_most(3), [&] { return added_lines(); });
  constexpr const char* kOfPrograms[] = {
      "classify_s", "compile",   "types_sqlite",    "types_missed",
      "lua",        "types_lua", "types_lua_trees", "durable_lua_trees"};
  if (std::none_of(std::begin(kOfPrograms), std::end(kOfPrograms),
                   [&](const char* key) { return context.wants(key); }))
    return;
  const std::string folder = context.path(Place::kDisk, "sources");
  context.progress("fetching sources");
  run_command({PERDURA_SOURCES "/bench/unmodified/fetch_sources.sh", folder, "sqlite3", "lua5.4"});
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
  report_lua(context, folder);
#endif
  fs::remove_all(folder);
}

const Registration kThis("tools",
                         "the source tools: verdicts, types of allocations, SQLite and Lua", run);

}  // namespace
}  // namespace perdura::bench

#endif
