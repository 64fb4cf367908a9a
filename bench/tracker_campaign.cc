#include "tracker_campaign.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "child.hpp"

namespace perdura::bench {

// --- programs ------------------------------------------------------------------------------------

namespace {

std::uint64_t percent(std::uint64_t of, std::uint64_t percents) { return of * percents / 100; }

/// STAMP's reservations: a table's rows are inserted eight a step.
Program reservations(std::uint64_t rows, std::uint64_t transactions) {
  const std::uint64_t steps = rows * 4 / 8 + transactions;
  return {"reservations",
          "tracker-reservations",
          {std::to_string(rows), std::to_string(transactions)},
          steps,
          percent(steps, 85)};
}

Program tokyo(std::uint64_t value_bytes, std::uint64_t records) {
  return {fmt::format("tokyo_{}", value_bytes),
          "tracker-tokyo",
          {std::to_string(records), std::to_string(value_bytes)},
          records,
          percent(records, 95)};
}

Program fragments(std::uint64_t flows, std::uint64_t packets) {
  return {"fragments",
          "tracker-fragments",
          {std::to_string(flows), std::to_string(packets)},
          packets,
          percent(packets, 80)};
}

Program paths(std::uint64_t side, std::uint64_t count) {
  return {"paths",
          "tracker-paths",
          {std::to_string(side), "8", std::to_string(count)},
          count,
          percent(count, 60)};
}

}  // namespace

std::vector<Program> tracker_programs(const Context& context) {
  if (context.quick())
    return {tokyo(64, 250'000),           tokyo(128, 200'000),        tokyo(1024, 50'000),
            reservations(80'000, 80'000), fragments(60'000, 800'000), paths(640, 3'000)};
  return {tokyo(64, 2'000'000),           tokyo(128, 1'500'000),         tokyo(1024, 300'000),
          reservations(700'000, 500'000), fragments(200'000, 8'000'000), paths(2048, 25'000)};
}

#ifdef PERDURA_PRELOAD

namespace {

using namespace std::string_literals;

constexpr std::uint64_t kCheckpointsMin = 2;  ///< of a program, beside that of the empty heap
constexpr double kOfferedEveryS = 0.005;      ///< under `perdura advise`

// --- windows -------------------------------------------------------------------------------------

constexpr std::uint64_t kWindowCheckpoints = 8;
constexpr Window kNoneButFirst{1, 0};

Window window_of(const Program& program, double steps) {
  const std::uint64_t room = program.steps - program.built_steps;
  const auto whole = static_cast<std::uint64_t>(std::clamp(steps, 1.0, static_cast<double>(room)));
  return {whole, std::min(kWindowCheckpoints, room / whole)};
}

/// The window in which `wanted` would be stored to, where `known` is in another. What is stored to
/// in a step is stored to at random: so the share that is not falls exponentially with the steps.
Window scaled(const Program& program, const Window& window, double known, double wanted) {
  const double nearly_all = 0.999;
  return window_of(program, static_cast<double>(window.steps) *
                                std::log1p(-std::min(wanted, nearly_all)) /
                                std::log1p(-std::min(known, nearly_all)));
}

// --- children ------------------------------------------------------------------------------------

/// NAME=VALUE … -- PROGRAM ARGUMENTS…
int become_program(const ChildArguments& arguments) {
  pin_thread(kBackgroundCpu);
  auto at = arguments.begin();
  for (; *at != "--"; ++at) {
    const auto equals = at->find('=');
    setenv(at->substr(0, equals).c_str(), at->substr(equals + 1).c_str(), 1);
  }
  return run_child(ChildProcess::kCommand, {at + 1, arguments.end()});
}
const ChildRegistration kProgram("tracker-program", become_program);

std::string described(const Setting& setting) {
  std::string text = setting.tracker ? setting.tracker->name : "plain";
  if (setting.interval_s != 0) text += fmt::format(" every {} s", setting.interval_s);
  if (setting.window)
    text +=
        fmt::format(" {} times every {} steps", setting.window->checkpoints, setting.window->steps);
  if (setting.write_ns != 0) text += fmt::format(", {} ns a line", setting.write_ns);
  return text;
}

}  // namespace

// --- the campaign --------------------------------------------------------------------------------

bool Campaign::is_long_enough(const Program& program, double interval_s) {
  return program.steps >= kCheckpointsMin * steps_between(program, interval_s);
}

double Campaign::count(const Program& program, const Setting& setting, const std::string& name) {
  auto known = counted_.find({program.name, setting});
  if (known == counted_.end())
    known = counted_.emplace(std::pair(program.name, setting), run(program, setting)).first;
  return known->second.count(name);
}

std::vector<std::vector<Run>> Campaign::rounds(const Program& program,
                                               const std::vector<Setting>& settings,
                                               std::size_t times) {
  std::vector<std::vector<Run>> all(settings.size());
  for (std::size_t round = 0; round < times; ++round)
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const std::size_t which = (i + round) % settings.size();
      all[which].push_back(run(program, settings[which]));
      if (settings[which].tracker)
        counted_.emplace(std::pair(program.name, settings[which]), all[which].back());
    }
  return all;
}

// The first checkpoint of a window has every page that was ever stored to. So has a run that takes
// no other, which makes the difference what the others have.
double Campaign::count_in(const Program& program, const Tracker& tracker, const Window& window,
                          const std::string& name) {
  return count(program, {.tracker = tracker, .window = window}, name) -
         count(program, {.tracker = tracker, .window = kNoneButFirst}, name);
}

double Campaign::share(const Program& program, const Window& window) {
  const double all = count(program, {.tracker = kPage, .window = kNoneButFirst}, "changed_bytes");
  return count_in(program, kPage, window, "changed_bytes") / all /
         static_cast<double>(window.checkpoints);
}

/// How many pages a step stores to is not known before it was tried: the second try is usually
/// right.
Window Campaign::window_of_quarter(const Program& program) {
  if (const auto known = quarters_.find(program.name); known != quarters_.end())
    return known->second;
  const double pages_of_step = 10, close = 0.8, aim = 0.9;
  const double pages =
      count(program, {.tracker = kPage, .window = kNoneButFirst}, "changed_bytes") /
      static_cast<double>(kPageBytes);
  Window window = window_of(program, -std::log1p(-kShareMax) * pages / pages_of_step);
  for (int tries = 0; tries < 5; ++tries) {
    const double reached = share(program, window);
    context_.progress("  {} stores to {:.1f} % of its pages in {} steps", program.name,
                      reached * 100, window.steps);
    const Window next = scaled(program, window, reached, aim * kShareMax);
    if (reached <= kShareMax && (reached >= close * kShareMax || next == window))
      return quarters_.emplace(program.name, window).first->second;
    window = next;
  }
  throw std::runtime_error(
      fmt::format("{} does not store to {} of its pages at any interval", program.name, kShareMax));
}

Window Campaign::window(const Program& program, double share_wanted) {
  const Window quarter = window_of_quarter(program);
  if (share_wanted == kShareMax) return quarter;
  const Window found = scaled(program, quarter, share(program, quarter), share_wanted);
  if (share_wanted < kShareMax && share(program, found) > kShareMax)
    throw std::runtime_error(program.name + " stores to more pages in fewer steps");
  return found;
}

Json Campaign::advise(const Program& program) {
  Json& advice = advice_[program.name];
  if (!advice.is_null()) return advice;
  const std::string file = context_.path(Place::kMemory, "advice");
  const std::string store = context_.path(Place::kMemory, "calibration");
  std::filesystem::create_directories(store);
  ChildArguments arguments = {PERDURA_COMMAND, "advise", "--library", PERDURA_PRELOAD, "--medium"};
  for (const std::string& each : {"emu"s, "--dir"s, store, "--json"s, file, "--"s})
    arguments.push_back(each);
  arguments.push_back(PERDURA_PROGRAMS "/" + program.file);
  for (const std::string& each : program.arguments) arguments.push_back(each);
  arguments.push_back(std::to_string(steps_between(program, kOfferedEveryS)));
  // It prints less than a pipe holds.
  ChildProcess child(ChildProcess::kCommand, arguments);
  if (const int code = child.wait(); code != 0)
    throw std::runtime_error(fmt::format("perdura advise ended with code {}", code));
  std::ifstream(file) >> advice;
  context_.remove(file);
  context_.remove(store);
  return advice;
}

/// At the fastest of a few runs: what others do only makes a program slower.
std::uint64_t Campaign::steps_between(const Program& program, double interval_s) {
  if (interval_s == 0) return 0;
  double& steps_per_s = speeds_[program.name];
  if (steps_per_s == 0) {
    const auto plain = rounds(program, {{}}, 3);
    for (const Run& each : plain.front())
      steps_per_s = std::max(steps_per_s, static_cast<double>(program.steps) / each.seconds);
  }
  return static_cast<std::uint64_t>(std::max(1.0, steps_per_s * interval_s));
}

Run Campaign::run(const Program& program, const Setting& setting) {
  const std::uint64_t between =
      setting.window ? setting.window->steps : steps_between(program, setting.interval_s);
  const std::string checkpoints =
      setting.window
          ? fmt::format("{}:{}:{}", between, program.built_steps, setting.window->checkpoints)
          : std::to_string(between);
  ChildArguments arguments;
  const std::string statistics = context_.path(Place::kMemory, "statistics");
  const std::string uri = context_.uri(Place::kMemory, "store");
  if (setting.tracker) {
    const std::string medium =
        setting.write_ns == 0 ? uri : fmt::format("{}?write_ns={}", uri, setting.write_ns);
    arguments = {"LD_PRELOAD=" PERDURA_PRELOAD, "PERDURA_STORE=" + medium,
                 "PERDURA_STATISTICS=" + statistics,
                 "PERDURA_TRACKING=" + setting.tracker->tracking,
                 // A program that polls is given a checkpoint each time.
                 fmt::format("PERDURA_CHECKPOINT_MS={}", between == 0 ? 0 : 1),
                 fmt::format("PERDURA_ALIASES={}", setting.tracker->aliases),
                 fmt::format("PERDURA_COMPARE={}", setting.tracker->compare ? 1 : 0),
                 "PERDURA_REGION_LIMIT=2G"};
  }
  arguments.push_back("--");
  arguments.push_back(PERDURA_PROGRAMS "/" + program.file);
  for (const std::string& each : program.arguments) arguments.push_back(each);
  arguments.push_back(checkpoints);

  ChildProcess child("tracker-program", arguments);
  const Json result = Json::parse(child.read_line());
  if (const int code = child.wait(); code != 0)
    throw std::runtime_error(fmt::format("{} ended with code {}", program.name, code));
  Run run{result["seconds"].get<double>(), result["cpu_seconds"].get<double>(),
          result["checkpoint_seconds"].get<double>(), result["queued_seconds"].get<double>(),
          nullptr};
  if (setting.tracker) {
    std::ifstream(statistics) >> run.statistics;
    if (run.count("refused_blocks") != 0 || run.count("failed_checkpoints") != 0)
      throw std::runtime_error("a store could not take all of " + program.name);
    const std::uint64_t least = setting.window ? 1 + setting.window->checkpoints
                                : between != 0 ? kCheckpointsMin
                                               : 0;
    if (run.count("checkpoints") < static_cast<double>(least))
      throw std::runtime_error(program.name + " did not take its checkpoints");
  }
  context_.remove(uri);
  context_.remove(statistics);
  const std::string checksum = result["checksum"].get<std::string>();
  const std::string computed =
      setting.window ? program.name + " " + checkpoints : program.name;  // it ends early
  if (checksums_.emplace(computed, checksum).first->second != checksum)
    throw std::runtime_error(program.name + " computes something else under a tracker");
  context_.progress("  {} {}: {:.2f} s", program.name, described(setting), run.seconds);
  return run;
}

#endif  // PERDURA_PRELOAD

}  // namespace perdura::bench
