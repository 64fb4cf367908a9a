#include "unmodified.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "child.hpp"

namespace perdura::bench {

// --- the demonstration ---------------------------------------------------------------------------

#ifdef PERDURA_DEMO

namespace {

/// The demonstration's own figures, of several runs of it, made when the first one is wanted.
class DemoRuns {
 public:
  explicit DemoRuns(Context& context) : context_(context) {}

  /// The median of a figure of a side.
  Measured of(const char* side, const char* key, double unit = 1) {
    make();
    std::vector<double> values;
    Json checkpoints = Json::array();
    for (const Json& run : runs_) {
      values.push_back(run.at(side).at(key).get<double>() * unit);
      checkpoints.push_back(run.at(side).at("checkpoints"));
    }
    return {median(values),
            {{"runs", values}, {"checkpoints", checkpoints}, {"input", runs_.front().at("input")}}};
  }

 private:
  void make() {
    while (runs_.size() < static_cast<std::size_t>(context_.scale(5, 3))) {
      context_.progress("demonstration, run {}", runs_.size() + 1);
      const std::string figures = context_.path(Place::kDisk, "figures");
      const PinnedScope where_its_user_runs_it(kAnyCpu);
      ChildProcess demo(ChildProcess::kCommand,
                        {PERDURA_DEMO, "--kills", "0", "--limit-mb", context_.scale("300", "60"),
                         "--side", "reporting", "--side", "pages", "--side", "compiled", "--store",
                         context_.uri(Place::kDisk, "index"), "--json", figures});
      if (const int status = demo.wait(); status != 0)
        throw std::runtime_error(fmt::format("the demonstration ended with status {}", status));
      runs_.push_back(Json::parse(std::ifstream(figures)));
      context_.remove(figures);
    }
  }

  Context& context_;
  std::vector<Json> runs_;
};

}  // namespace

void report_demo(Context& context) {
  DemoRuns runs(context);
  context.measure("demo_reporting", "ratio", Reach::none(),
                  [&] { return runs.of("reporting", "slowdown"); });
  context.measure("demo_pages", "ratio", Reach::at_most(1.35),
                  [&] { return runs.of("pages", "slowdown"); });
  context.measure("demo_compiled", "ratio", Reach::at_most(1.15),
                  [&] { return runs.of("compiled", "slowdown"); });
  context.measure("demo_stop_ms", "ms", Reach::at_most(5),
                  [&] { return runs.of("pages", "pause_p99_ns", 1e-6); });
}

#else
void report_demo(Context&) {}
#endif

// --- loads of malloc(3) --------------------------------------------------------------------------

#ifdef PERDURA_PRELOAD

namespace {

struct MallocLoad {
  const char* name;
  std::vector<std::string> arguments;  ///< those of a segment
};

std::vector<MallocLoad> malloc_loads(const Context& context) {
  const auto number = [&](std::uint64_t full, std::uint64_t quick) {
    return std::to_string(context.scale(full, quick));
  };
  return {{"larson", {"2", number(40, 10), "100000"}},
          {"sh6", {"2", number(1'500, 400)}},
          {"xmalloc", {"1", number(600, 300)}},
          {"cfrac", {number(40'000, 15'000)}}};
}

/// One load on several heaps, each time by a process of its own.
class MallocPrograms {
 public:
  explicit MallocPrograms(const MallocLoad& load) : load_(load) {}

  /// Seconds that the load took; the heap is in a library that is loaded before, "" for glibc's.
  double run_s(const std::string& library, const char* checkpoint_ms = "0") {
    ChildArguments command = {"/usr/bin/env",
                              std::string("PERDURA_CHECKPOINT_MS=") + checkpoint_ms};
    if (!library.empty()) command.push_back("LD_PRELOAD=" + library);
    command.push_back(PERDURA_PROGRAMS "/malloc-" + std::string(load_.name));
    const PinnedScope where_its_user_runs_it(kAnyCpu);
    command.insert(command.end(), load_.arguments.begin(), load_.arguments.end());
    ChildProcess program(ChildProcess::kCommand, command);
    std::istringstream line(program.read_line());
    double seconds = 0;
    std::string checksum;
    line >> seconds >> checksum;
    if (checksum_.empty()) checksum_ = checksum;
    if (checksum.empty() || checksum != checksum_ || program.wait() != 0)
      throw std::runtime_error(
          fmt::format("malloc-{} on '{}': another result", load_.name, library));
    return seconds;
  }

 private:
  const MallocLoad& load_;
  std::string checksum_;  ///< is the same on every heap
};

/// Throughput ÷ glibc's, without checkpoints: an allocator's against an allocator's.
Measured malloc_ratio(Context& context, const MallocLoad& load) {
  MallocPrograms programs(load);
  std::vector<Segment> others = {[&] { return programs.run_s(PERDURA_PRELOAD); },
                                 [&] { return programs.run_s(PERDURA_PRELOAD, "64"); }};
#ifdef PERDURA_MIMALLOC
  others.push_back([&] { return programs.run_s(PERDURA_MIMALLOC); });
#endif
  const auto all =
      paired_with_each(context.scale(11, 5), [&] { return programs.run_s(""); }, others);
  Measured result{all[0].ratio,
                  {{"glibc_s", all[0].subject},
                   {"with_checkpoints_every_64_ms", all[1].ratio},
                   {"ratios", all[0].ratios}}};
#ifdef PERDURA_MIMALLOC
  result.detail["mimalloc"] = all[2].ratio;
#endif
  return result;
}

}  // namespace

void report_malloc(Context& context) {
  for (const MallocLoad& load : malloc_loads(context))
    context.measure(fmt::format("malloc_{}", load.name), "ratio", Reach::at_least(1.0), [&] {
      context.progress("malloc: {}", load.name);
      return malloc_ratio(context, load);
    });
}

#else
void report_malloc(Context&) {}
#endif

}  // namespace perdura::bench
