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
// What halves of pages save depends on the share p of the pages that are stored to between two
// checkpoints. Where stores are spread evenly the half of a page is stored to with probability
// 1 - sqrt(1 - p), which is 1 / (1 + sqrt(1 - p)) of p. So copied_k2 and time_k2_pcm are measured
// where at most a quarter of the pages is stored to, which copied_k2_p says, and curve_k2 with
// larger shares as well. All other figures are at checkpoints by time (tracker_campaign.hpp), when
// these programs store to nearly every page.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <perdura/compat/fgck.h>

#include "harness.hpp"
#include "stores.hpp"
#include "tracker_campaign.hpp"
#include "tracker_plots.hpp"

namespace perdura::bench {
namespace {

#ifdef PERDURA_PRELOAD

const Tracker kScattered[] = {{"k1", 1}, kHalves, {"k4", 4}, {"k8", 8}, {"k256", 256}};

/// The paper's figures of phase-change memory (§5.1): a line takes so long to write.
constexpr int kPcmWriteNs = 600;

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

/// The mean of what `measure(program, point, detail)` says of each program and point, those of each
/// in the detail; of those of which it says nothing there is nothing.
template <class Label, class Measure>
Measured mean_over(const std::vector<Program>& programs, const std::vector<double>& points,
                   Label&& label, Measure&& measure) {
  Measured result;
  std::vector<double> all;
  for (const Program& program : programs)
    for (const double point : points) {
      Json detail = Json::object();
      const std::optional<double> measured = measure(program, point, detail);
      if (!measured) continue;
      all.push_back(*measured);
      detail["ratio"] = *measured;
      result.detail[program.name][label(point)] = detail;
    }
  result.value = mean(all);
  return result;
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
  return mean_over(
      cases.programs, cases.intervals_s,
      [](double interval_s) { return fmt::format("{} s", interval_s); },
      [&](const Program& program, double interval_s, Json& detail) -> std::optional<double> {
        if (!cases.campaign.is_long_enough(program, interval_s)) return std::nullopt;
        return ratio(program, interval_s, detail);
      });
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
  context.measure("copied_lines", "ratio", Reach::at_most(0.25),
                  [&] { return copied(all, kLines); });
  const Cases usual{campaign, campaign.all(), {usual_interval_s(context)}};
  for (const Tracker& tracker : kScattered)
    if (is_measured(context, tracker))
      context.measure(tracker == kHalves ? "copied_k2_usual" : "copied_" + tracker.name, "ratio",
                      Reach::none(), [&] { return copied(usual, tracker); });
}

// --- by the share of pages -----------------------------------------------------------------------

/// Of the pages between two checkpoints, about.
std::vector<double> shares(const Context& context) {
  if (context.quick()) return {0.1, Campaign::kShareMax, 0.99};
  return {0.03, 0.1, Campaign::kShareMax, 0.5, 0.75, 0.99};
}
std::vector<double> small_shares(const Context& context) {
  std::vector<double> some = shares(context);
  std::erase_if(some, [](double share) { return share > Campaign::kShareMax; });
  return some;
}

struct ShareCases {
  Campaign& campaign;
  std::vector<Program> programs;
  std::vector<double> shares;
};

/// The mean of what `ratio` says of each program and window; in the detail with the share that was
/// reached.
template <class Ratio>
Measured mean_of_windows(const ShareCases& cases, Ratio&& ratio) {
  return mean_over(
      cases.programs, cases.shares, [](double share) { return fmt::format("p {}", share); },
      [&](const Program& program, double share, Json& detail) -> std::optional<double> {
        const Window window = cases.campaign.window(program, share);
        detail = {{"p", cases.campaign.share(program, window)}, {"steps", window.steps}};
        return ratio(program, window, detail);
      });
}

double copied_ratio(Campaign& campaign, const Program& program, const Window& window,
                    Json& detail) {
  const double subject = campaign.count_in(program, kHalves, window, "changed_bytes");
  const double base = campaign.count_in(program, kPage, window, "changed_bytes");
  detail["checkpoints"] = window.checkpoints;
  detail["copied_mb"] = subject / 1e6;
  detail["pages_mb"] = base / 1e6;
  return subject / base;
}

Measured copied_in_windows(const ShareCases& cases) {
  return mean_of_windows(cases, [&](const Program& program, const Window& window, Json& detail) {
    return copied_ratio(cases.campaign, program, window, detail);
  });
}

/// The largest share that was reached.
Measured largest_share(const ShareCases& cases) {
  Measured result;
  result.value = 0;
  mean_of_windows(cases, [&](const Program& program, const Window& window, Json& detail) {
    const double share = detail["p"];
    result.value = std::max(result.value, share);
    result.detail[program.name][fmt::format("{} steps", window.steps)] = share;
    return share;
  });
  return result;
}

/// How far programs are from what evenly spread stores give, relatively, in the mean.
Measured distance_from_curve(const ShareCases& cases) {
  std::vector<double> distances;
  Measured result =
      mean_of_windows(cases, [&](const Program& program, const Window& window, Json& detail) {
        const double ratio = copied_ratio(cases.campaign, program, window, detail);
        const double even = 1 / (1 + std::sqrt(1 - std::min(detail["p"].get<double>(), 1.0)));
        detail["even"] = even;
        distances.push_back(std::abs(ratio / even - 1));
        return ratio;
      });
  result.value = mean(distances);
  return result;
}

void report_shares(Context& context, Campaign& campaign) {
  const ShareCases small{campaign, campaign.all(), small_shares(context)};
  context.measure("copied_k2", "ratio", Reach::at_most(0.60),
                  [&] { return copied_in_windows(small); });
  context.measure("copied_k2_p", "share", Reach::at_most(Campaign::kShareMax),
                  [&] { return largest_share(small); });
  for (const Program& program : campaign.all())
    context.measure("copied_k2_" + program.name, "ratio", Reach::none(),
                    [&] { return copied_in_windows({campaign, {program}, small.shares}); });
  context.measure("curve_k2", "distance", Reach::none(),
                  [&] { return distance_from_curve({campaign, campaign.all(), shares(context)}); });
}

// --- run times -----------------------------------------------------------------------------------

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

Measured run_times(const Cases& cases, std::size_t times) {
  Campaign& campaign = cases.campaign;
  std::vector<double> cpu;
  Measured result = mean_ratio(cases, [&](const Program& program, double interval_s, Json& detail) {
    const auto all = campaign.rounds(program, {{kHalves, interval_s}, {kPage, interval_s}}, times);
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

/// Once: most of it is the medium's time, which is always the same.
Measured pcm_times(const ShareCases& cases) {
  return mean_of_windows(cases, [&](const Program& program, const Window& window, Json& detail) {
    Setting ours{.tracker = kHalves, .write_ns = kPcmWriteNs, .window = window};
    Setting pages = ours;
    pages.tracker = kPage;
    const auto all = cases.campaign.rounds(program, {ours, pages}, 1);
    for (std::size_t i = 0; i < all.size(); ++i)
      detail[i == 0 ? "k2" : "page"] = {{"seconds", all[i].front().seconds},
                                        {"checkpoint_s", all[i].front().checkpoint_seconds}};
    return time_ratio(all[0], all[1]).elapsed;
  });
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
      if (way.contains("unavailable") || !way.contains("predictions")) continue;
      for (const Json& prediction : way["predictions"]) {
        if (prediction["interval_ms"] != ms) continue;
        trackers.push_back({way["name"], way["aliases"], way["compare"], way["tracking"]});
        one.ways.push_back({trackers.back().name, prediction["slowdown"].get<double>(), 0});
      }
    }
    if (trackers.empty()) return;  // it says nothing of that interval
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
  report_shares(context, campaign);
  report_copied(context, campaign);
  context.measure("time_k2_pcm", "ratio", Reach::at_most(0.85),
                  [&] { return pcm_times({campaign, campaign.all(), small_shares(context)}); });
  context.measure("time_k2", "ratio", Reach::none(), [&] {
    return run_times({campaign, campaign.all(), {usual_interval_s(context)}}, 3);
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
