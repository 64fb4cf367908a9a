// What finding changes by object is worth, with ordinary programs on libperdura_malloc.so: the
// experiments of FGCK's section 5. Trackers differ in how much they find changed, how many page
// faults that takes, and how long programs run.
//
//   page    page tracking, without aliases: all of a page is copied
//   k1      aliases, of which there is one: what is allocated of a page (the paper's PGCK)
//   k2      halves of pages, the paper's FGCK; k4, k8: smaller parts
//   k256    each object has a page of its own: the paper's basic idea
//   lines   page tracking, and lines that are equal to the home image are left out
//
// Programs take their checkpoints themselves, at the same steps under every tracker: so what is
// copied does not depend on how fast the machine was. An interval is as many steps as the program
// does in that time on plain malloc.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <perdura/compat/fgck.h>

#include "child.hpp"
#include "harness.hpp"
#include "stores.hpp"
#include "tracker_plots.hpp"

namespace perdura::bench {
namespace {

using namespace std::string_literals;

// --- programs and how they are run -------------------------------------------------------------

struct Program {
  std::string name;
  std::string file;
  std::vector<std::string> arguments;  ///< the steps between checkpoints follow
  double steps;
};

using Arguments = std::vector<std::string>;

/// STAMP's reservations: a table's rows are inserted eight a step.
Program reservations(std::uint64_t rows, std::uint64_t transactions) {
  return {"reservations",
          "tracker-reservations",
          {std::to_string(rows), std::to_string(transactions)},
          static_cast<double>(rows * 4 / 8 + transactions)};
}

Program tokyo(std::uint64_t value_bytes, std::uint64_t records) {
  return {fmt::format("tokyo_{}", value_bytes),
          "tracker-tokyo",
          {std::to_string(records), std::to_string(value_bytes)},
          static_cast<double>(records)};
}

Program fragments(std::uint64_t flows, std::uint64_t packets) {
  return {"fragments",
          "tracker-fragments",
          {std::to_string(flows), std::to_string(packets)},
          static_cast<double>(packets)};
}

Program paths(std::uint64_t side, std::uint64_t count) {
  return {"paths",
          "tracker-paths",
          {std::to_string(side), "8", std::to_string(count)},
          static_cast<double>(count)};
}

std::vector<Program> programs(const Context& context) {
  if (context.quick())
    return {tokyo(64, 250'000),           tokyo(128, 200'000),        tokyo(1024, 50'000),
            reservations(80'000, 80'000), fragments(60'000, 800'000), paths(640, 3'000)};
  return {tokyo(64, 2'000'000),           tokyo(128, 1'500'000),         tokyo(1024, 300'000),
          reservations(700'000, 500'000), fragments(200'000, 8'000'000), paths(2048, 25'000)};
}

struct Tracker {
  std::string name;
  int aliases;
  bool compare = false;
  std::string tracking = "userfault";
  auto operator<=>(const Tracker&) const = default;
};
const Tracker kPage{"page", 0}, kLines{"lines", 0, true};
const Tracker kScattered[] = {{"k1", 1}, {"k2", 2}, {"k4", 4}, {"k8", 8}, {"k256", 256}};
const Tracker& kHalves = kScattered[1];

/// The paper's figures of phase-change memory (§5.1): a line takes so long to write.
constexpr int kPcmWriteNs = 600;

/// Has all that it says in itself: what was measured with it is remembered for longer than some
/// trackers live.
struct Setting {
  std::optional<Tracker> tracker;  ///< none: plain malloc
  double interval_s = 0;           ///< 0: no checkpoints
  int write_ns = 0;
  auto operator<=>(const Setting&) const = default;
};

struct Run {
  double seconds;
  double cpu_seconds;  ///< of the program's own thread
  Json statistics;     ///< null with plain malloc
  double count(const char* name) const { return statistics[name].get<double>(); }
};

#ifdef PERDURA_PRELOAD

constexpr std::uint64_t kCheckpointsMin = 2;  ///< of a program, beside that of the empty heap

/// PROGRAM ARGUMENTS…, on any processor.
int become_command(const ChildArguments& arguments) {
  std::vector<std::string> words = arguments;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  throw std::runtime_error("cannot run " + words[0]);
}
const ChildRegistration kCommand("tracker-command", become_command);

/// NAME=VALUE … -- PROGRAM ARGUMENTS…
int become_program(const ChildArguments& arguments) {
  pin_thread(kBackgroundCpu);
  auto at = arguments.begin();
  for (; *at != "--"; ++at) {
    const auto equals = at->find('=');
    setenv(at->substr(0, equals).c_str(), at->substr(equals + 1).c_str(), 1);
  }
  return become_command({at + 1, arguments.end()});
}
const ChildRegistration kProgram("tracker-program", become_program);

/// Runs programs. What does not depend on the machine's speed is measured once and remembered.
class Campaign {
 public:
  explicit Campaign(Context& context) : context_(context), programs_(programs(context)) {}

  const std::vector<Program>& all() const { return programs_; }

  bool is_long_enough(const Program& program, double interval_s) {
    return program.steps >= static_cast<double>(kCheckpointsMin * poll_steps(program, interval_s));
  }

  double count(const Program& program, const Setting& setting, const char* name) {
    auto known = counted_.find({program.name, setting});
    if (known == counted_.end())
      known = counted_.emplace(std::pair(program.name, setting), run(program, setting)).first;
    return known->second.count(name);
  }

  /// Of each setting its runs, one in every round; those of a round are neighbours in time, and
  /// each round begins with another setting.
  std::vector<std::vector<Run>> rounds(const Program& program, const std::vector<Setting>& settings,
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

  /// What `perdura advise` says of a program that offers checkpoints often.
  Json advise(const Program& program) {
    Json& advice = advice_[program.name];
    if (!advice.is_null()) return advice;
    const std::string file = context_.path(Place::kMemory, "advice");
    const std::string store = context_.path(Place::kMemory, "calibration");
    std::filesystem::create_directories(store);
    Arguments arguments = {PERDURA_COMMAND, "advise", "--library", PERDURA_PRELOAD, "--medium"};
    for (const std::string& each : {"emu"s, "--dir"s, store, "--json"s, file, "--"s})
      arguments.push_back(each);
    arguments.push_back(PERDURA_PROGRAMS "/" + program.file);
    for (const std::string& each : program.arguments) arguments.push_back(each);
    arguments.push_back(std::to_string(poll_steps(program, kOfferedEvery)));
    // It prints less than a pipe holds.
    ChildProcess child("tracker-command", arguments);
    if (const int code = child.wait(); code != 0)
      throw std::runtime_error(fmt::format("perdura advise ended with code {}", code));
    std::ifstream(file) >> advice;
    context_.remove(file);
    context_.remove(store);
    return advice;
  }

 private:
  static constexpr double kOfferedEvery = 0.005;

  /// At the fastest of a few runs: what others do only makes a program slower.
  std::uint64_t poll_steps(const Program& program, double interval_s) {
    if (interval_s == 0) return 0;
    double& steps_per_s = speeds_[program.name];
    if (steps_per_s == 0) {
      const auto plain = rounds(program, {{}}, 3);
      for (const Run& each : plain.front())
        steps_per_s = std::max(steps_per_s, program.steps / each.seconds);
    }
    return static_cast<std::uint64_t>(std::max(1.0, steps_per_s * interval_s));
  }

  Run run(const Program& program, const Setting& setting) {
    const std::uint64_t polls = poll_steps(program, setting.interval_s);
    Arguments arguments;
    const std::string statistics = context_.path(Place::kMemory, "statistics");
    std::string uri = context_.uri(Place::kMemory, "store");
    if (setting.tracker) {
      const std::string medium =
          setting.write_ns == 0 ? uri : fmt::format("{}?write_ns={}", uri, setting.write_ns);
      arguments = {"LD_PRELOAD=" PERDURA_PRELOAD, "PERDURA_STORE=" + medium,
                   "PERDURA_STATISTICS=" + statistics,
                   "PERDURA_TRACKING=" + setting.tracker->tracking,
                   // A program that polls is given a checkpoint each time.
                   fmt::format("PERDURA_CHECKPOINT_MS={}", polls == 0 ? 0 : 1),
                   fmt::format("PERDURA_ALIASES={}", setting.tracker->aliases),
                   fmt::format("PERDURA_COMPARE={}", setting.tracker->compare ? 1 : 0),
                   "PERDURA_REGION_LIMIT=2G"};
    }
    arguments.push_back("--");
    arguments.push_back(PERDURA_PROGRAMS "/" + program.file);
    for (const std::string& each : program.arguments) arguments.push_back(each);
    arguments.push_back(std::to_string(polls));

    ChildProcess child("tracker-program", arguments);
    const Json result = Json::parse(child.read_line());
    if (const int code = child.wait(); code != 0)
      throw std::runtime_error(fmt::format("{} ended with code {}", program.name, code));
    Run run{result["seconds"].get<double>(), result["cpu_seconds"].get<double>(), nullptr};
    if (setting.tracker) {
      std::ifstream(statistics) >> run.statistics;
      if (run.count("refused_blocks") != 0 || run.count("failed_checkpoints") != 0)
        throw std::runtime_error("a store could not take all of " + program.name);
      if (polls != 0 && run.count("checkpoints") < kCheckpointsMin)
        throw std::runtime_error(program.name + " did not take its checkpoints");
    }
    context_.remove(uri);
    context_.remove(statistics);
    const std::string checksum = result["checksum"].get<std::string>();
    if (checksums_.emplace(program.name, checksum).first->second != checksum)
      throw std::runtime_error(program.name + " computes something else under a tracker");
    context_.progress("  {} {} every {} s, {} ns a line: {:.2f} s", program.name,
                      setting.tracker ? setting.tracker->name : "plain", setting.interval_s,
                      setting.write_ns, run.seconds);
    return run;
  }

  Context& context_;
  const std::vector<Program> programs_;
  std::map<std::pair<std::string, Setting>, Run> counted_;
  std::map<std::string, double> speeds_;
  std::map<std::string, Json> advice_;
  std::map<std::string, std::string> checksums_;
};

// --- figures -------------------------------------------------------------------------------------

/// With --quick heaps are a tenth as large, and so is the interval: as large a part of the pages is
/// stored to in it.
double usual_interval_s(const Context& context) { return context.scale(0.25, 0.025); }
std::vector<double> intervals_s(const Context& context) {
  if (context.quick()) return {usual_interval_s(context)};
  return {usual_interval_s(context), 1, 5};
}

bool is_measured(const Context& context, const Tracker& tracker) {
  return !context.quick() || (tracker.name != "k4" && tracker.name != "k256");
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// What a mean is taken over.
struct Cases {
  Campaign& campaign;
  std::vector<Program> programs;
  std::vector<double> intervals_s;
};

/// The mean of what `ratio` says of each program and interval, where the program takes checkpoints
/// at that interval; those of each are in the detail.
template <class Ratio>
Measured mean_ratio(const Cases& cases, Ratio&& ratio) {
  Measured result;
  std::vector<double> all;
  for (const Program& program : cases.programs)
    for (double interval_s : cases.intervals_s) {
      if (!cases.campaign.is_long_enough(program, interval_s)) continue;
      Json detail = Json::object();
      all.push_back(ratio(program, interval_s, detail));
      detail["ratio"] = all.back();
      result.detail[program.name][fmt::format("{} s", interval_s)] = detail;
    }
  result.value = mean(all);
  return result;
}

Measured copied(const Cases& cases, const Tracker& tracker) {
  Campaign& campaign = cases.campaign;
  return mean_ratio(cases, [&](const Program& program, double interval_s, Json& detail) {
    const Setting ours{tracker, interval_s}, pages{kPage, interval_s};
    const double subject = campaign.count(program, ours, "changed_bytes");
    const double base = campaign.count(program, pages, "changed_bytes");
    detail["copied_mb"] = subject / 1e6;
    detail["pages_mb"] = base / 1e6;
    detail["heap_mb"] = campaign.count(program, pages, "region_backed_bytes") / 1e6;
    // They differ by those of the background, before the program first polls.
    detail["checkpoints"] = campaign.count(program, ours, "checkpoints");
    detail["checkpoints_of_pages"] = campaign.count(program, pages, "checkpoints");
    return subject / base;
  });
}

void report_copied(Context& context, Campaign& campaign) {
  const Cases all{campaign, campaign.all(), intervals_s(context)};
  context.measure("copied_k2", "ratio", Reach::at_most(0.60), [&] { return copied(all, kHalves); });
  for (const Program& program : campaign.all())
    context.measure("copied_k2_" + program.name, "ratio", Reach::none(),
                    [&] { return copied({campaign, {program}, all.intervals_s}, kHalves); });
  context.measure("copied_lines", "ratio", Reach::at_most(0.25),
                  [&] { return copied(all, kLines); });
  const Cases usual{campaign, campaign.all(), {usual_interval_s(context)}};
  for (const Tracker& tracker : kScattered)
    if (&tracker != &kHalves && is_measured(context, tracker))
      context.measure("copied_" + tracker.name, "ratio", Reach::none(),
                      [&] { return copied(usual, tracker); });
}

/// Medians of the ratios of a round.
struct TimeRatio {
  double elapsed;
  double cpu;
};
TimeRatio time_ratio(const std::vector<Run>& subject, const std::vector<Run>& base) {
  std::vector<double> elapsed, cpu;
  for (std::size_t i = 0; i < subject.size(); ++i) {
    elapsed.push_back(subject[i].seconds / base[i].seconds);
    cpu.push_back(subject[i].cpu_seconds / base[i].cpu_seconds);
  }
  return {median(elapsed), median(cpu)};
}

double median_s(const std::vector<Run>& runs) {
  std::vector<double> all;
  for (const Run& each : runs) all.push_back(each.seconds);
  return median(all);
}

Measured run_times(const Cases& cases, int write_ns, std::size_t times) {
  Campaign& campaign = cases.campaign;
  std::vector<double> cpu;
  Measured result = mean_ratio(cases, [&](const Program& program, double interval_s, Json& detail) {
    const auto all = campaign.rounds(
        program, {{kHalves, interval_s, write_ns}, {kPage, interval_s, write_ns}}, times);
    const TimeRatio ratio = time_ratio(all[0], all[1]);
    cpu.push_back(ratio.cpu);
    detail["cpu_ratio"] = ratio.cpu;
    for (std::size_t i = 0; i < all.size(); ++i)
      detail[i == 0 ? "k2" : "page"] = {
          {"seconds", median_s(all[i])},
          {"checkpoint_s", all[i].front().count("checkpoint_ns") / 1e9},
          {"log_waits", all[i].front().count("log_waits")}};
    return ratio.elapsed;
  });
  result.detail["cpu_ratio"] = mean(cpu);
  return result;
}

// --- perdura advise ------------------------------------------------------------------------------

/// In which it predicts, and in milliseconds as it says it.
std::vector<int> advised_intervals_ms(const Context& context) {
  if (context.quick()) return {64};
  return {1000, 5000};
}

/// Runs each program once under `perdura advise`, and then with checkpoints in each way it
/// predicts.
class AdviceTrial {
 public:
  AdviceTrial(const Context& context, Campaign& campaign) : campaign_(campaign) {
    for (const Program& program : campaign.all())
      for (const int ms : advised_intervals_ms(context)) try_out(program, ms);
  }

  /// Run time in the way that is advised ÷ in the quickest of all.
  Measured advised() const {
    Measured result;
    std::vector<double> all;
    for (const Case& each : cases_) {
      const auto best =
          std::min_element(each.ways.begin(), each.ways.end(),
                           [](const Way& a, const Way& b) { return a.measured < b.measured; });
      const auto advised = std::find_if(each.ways.begin(), each.ways.end(),
                                        [&](const Way& way) { return way.name == each.advised; });
      if (advised == each.ways.end())
        throw std::runtime_error("perdura advise picks a way that it does not describe");
      all.push_back(advised->measured / best->measured);
      result.detail[each.name] = {
          {"advised", advised->name}, {"best", best->name}, {"ratio", all.back()}};
    }
    result.value = mean(all);
    return result;
  }

  /// The worst relative error of a predicted run time.
  Measured predicted() const {
    Measured result;
    result.value = 0;
    std::vector<double> errors;
    for (const Case& each : cases_)
      for (const Way& way : each.ways) {
        errors.push_back(std::abs(way.predicted / way.measured - 1));
        result.value = std::max(result.value, errors.back());
        result.detail[each.name][way.name] = {{"predicted", way.predicted},
                                              {"measured", way.measured}};
      }
    result.detail["median_error"] = median(errors);
    return result;
  }

 private:
  struct Way {
    std::string name;
    double predicted;
    double measured;  ///< ÷ run time without checkpoints
  };
  struct Case {
    std::string name;
    std::string advised;
    std::vector<Way> ways;
  };

  void try_out(const Program& program, int ms) {
    const double interval_s = ms / 1000.0;
    if (!campaign_.is_long_enough(program, interval_s)) return;
    const Json advice = campaign_.advise(program);
    Case one{fmt::format("{} every {} ms", program.name, ms), "", {}};
    for (const Json& each : advice["recommended"])
      if (each["interval_ms"] == ms) one.advised = each["way"].get<std::string>();
    std::vector<Tracker> trackers;
    for (const Json& way : advice["ways"]) {
      if (way.contains("unavailable")) continue;
      trackers.push_back({way["name"], way["aliases"], way["compare"], way["tracking"]});
      for (const Json& prediction : way["predictions"])
        if (prediction["interval_ms"] == ms)
          one.ways.push_back({trackers.back().name, prediction["slowdown"].get<double>(), 0});
    }
    std::vector<Setting> settings = {{kPage}};
    for (const Tracker& tracker : trackers) settings.push_back({tracker, interval_s});
    const auto runs = campaign_.rounds(program, settings, 3);
    for (std::size_t i = 0; i < trackers.size(); ++i)
      one.ways[i].measured = time_ratio(runs[i + 1], runs[0]).elapsed;
    cases_.push_back(std::move(one));
  }

  Campaign& campaign_;
  std::vector<Case> cases_;
};

void report_advice(Context& context, Campaign& campaign) {
  if (!context.wants("advised") && !context.wants("predicted")) return;
  std::optional<AdviceTrial> trial;
  const auto tried = [&]() -> const AdviceTrial& {
    if (!trial) trial.emplace(context, campaign);
    return *trial;
  };
  context.measure("advised", "ratio", Reach::at_most(1.10), [&] { return tried().advised(); });
  context.measure("predicted", "error", Reach::at_most(0.25), [&] { return tried().predicted(); });
}

/// Without checkpoints: what it costs to have a tracker.
void report_armed(Context& context, Campaign& campaign) {
  std::vector<Setting> settings = {{}, {kPage}};
  for (const Tracker& tracker : kScattered)
    if (is_measured(context, tracker)) settings.push_back({tracker});
  const auto key = [](const Setting& setting) { return "armed_" + setting.tracker->name; };
  if (std::none_of(settings.begin() + 1, settings.end(),
                   [&](const Setting& setting) { return context.wants(key(setting)); }))
    return;
  std::map<std::string, std::vector<std::vector<Run>>> runs;
  for (const Program& program : campaign.all())
    runs[program.name] = campaign.rounds(program, settings, 3);
  for (std::size_t i = 1; i < settings.size(); ++i)
    context.measure(key(settings[i]), "ratio", Reach::none(), [&] {
      Measured result;
      std::vector<double> elapsed, cpu;
      for (const auto& [name, all] : runs) {
        const TimeRatio ratio = time_ratio(all[i], all[0]);
        elapsed.push_back(ratio.elapsed);
        cpu.push_back(ratio.cpu);
        result.detail[name] = {{"ratio", ratio.elapsed},
                               {"cpu_ratio", ratio.cpu},
                               {"seconds", median_s(all[i])},
                               {"plain_s", median_s(all[0])},
                               {"page_faults", all[i].front().count("page_faults")}};
      }
      result.value = mean(elapsed);
      result.detail["cpu_ratio"] = mean(cpu);
      return result;
    });
}

void report_faults(Context& context, Campaign& campaign) {
  for (const Tracker& tracker : kScattered) {
    if (!is_measured(context, tracker)) continue;
    context.measure("faults_" + tracker.name, "ratio", Reach::none(), [&] {
      return mean_ratio(
          {campaign, campaign.all(), {usual_interval_s(context)}},
          [&](const Program& program, double interval_s, Json& detail) {
            const double ours = campaign.count(program, {tracker, interval_s}, "page_faults");
            const double pages = campaign.count(program, {kPage, interval_s}, "page_faults");
            detail["page_faults"] = ours;
            detail["of_page_tracking"] = pages;
            return ours / pages;
          });
    });
  }
}

#endif  // PERDURA_PRELOAD

// --- nv_malloc -----------------------------------------------------------------------------------

/// Replaces objects of 16 to 256 bytes at random, each written to once.
class Objects {
 public:
  template <class Allocate, class Free>
  double run_s(std::size_t count, Allocate&& allocate, Free&& free) {
    return timed_s([&] {
      for (std::size_t i = 0; i < count; ++i) {
        void*& object = live_[random_.below(kLive)];
        if (object != nullptr) free(object);
        object = allocate(16 + random_.below(241));
        *static_cast<std::uint64_t*>(object) = i;
      }
    });
  }

 private:
  static constexpr std::size_t kLive = 32 * 1024;
  Random random_{41};
  std::vector<void*> live_ = std::vector<void*>(kLive);
};

/// With `checkpoints` one is taken, untimed, before each segment: its first stores find everything
/// protected.
Measured compare_nv_malloc(Context& context, bool checkpoints) {
  const std::string plain_uri = context.uri(Place::kMemory, "plain");
  Store plain = open_store(plain_uri);
  Objects aliased, ordinary;
  const auto objects = [&](std::size_t count) {
    if (checkpoints) nv_ckall();
    return aliased.run_s(count, [](std::size_t size) { return nv_malloc(size, nullptr); }, nv_free);
  };
  const auto blocks = [&](std::size_t count) {
    if (checkpoints) plain.checkpoint();
    return ordinary.run_s(
        count, [&](std::size_t size) { return plain.allocate(size); },
        [&](void* object) { plain.deallocate(object); });
  };
  constexpr std::size_t kSteps = 256 * 1024;
  objects(kSteps);
  const double once_s = blocks(kSteps);
  const auto count = static_cast<std::size_t>(std::max(1.0, context.scale(0.3, 0.1) / once_s) *
                                              static_cast<double>(kSteps));
  const Paired result =
      paired(context.scale(15, 7), [&] { return objects(count); }, [&] { return blocks(count); });
  return {result.ratio,
          {{"nv_malloc_ns", result.subject / static_cast<double>(count) * 1e9},
           {"allocate_ns", result.base / static_cast<double>(count) * 1e9}}};
}

void report_nv_malloc(Context& context) {
  const std::string uri = context.uri(Place::kMemory, "objects");
  setenv("PERDURA_STORE", uri.c_str(), 1);
  pin_thread(kMutatorCpu);
  context.measure("nv_malloc", "ratio", Reach::at_most(1.5),
                  [&] { return compare_nv_malloc(context, false); });
  context.measure("nv_malloc_epochs", "ratio", Reach::none(),
                  [&] { return compare_nv_malloc(context, true); });
}

void run(Context& context) {
#ifdef PERDURA_PRELOAD
  Campaign campaign(context);
  report_copied(context, campaign);
  // Most of it is the medium's time, which is always the same.
  context.measure("time_k2_pcm", "ratio", Reach::at_most(0.85), [&] {
    return run_times({campaign, campaign.all(), intervals_s(context)}, kPcmWriteNs, 1);
  });
  context.measure("time_k2", "ratio", Reach::none(), [&] {
    return run_times({campaign, campaign.all(), {usual_interval_s(context)}}, 0, 3);
  });
  report_advice(context, campaign);
  report_faults(context, campaign);
  report_armed(context, campaign);
#else
  context.progress("built without libperdura_malloc.so: only nv_malloc is measured");
#endif
  report_nv_malloc(context);
}

const Registration kThis("tracker", "changes found by object ÷ by page, with unmodified programs",
                         run, plot_tracker);

}  // namespace
}  // namespace perdura::bench
