// The charts of docs/tracking.md, from the figures of the benchmark `tracker`.
#include "tracker_plots.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "plot.hpp"

namespace perdura::bench {
namespace {

/// By their keys.
using Details = std::map<std::string, Json>;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Entries that are no programs' have no structure.
std::vector<std::string> programs_of(const Json& detail) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : detail.items())
    if (entry.is_object()) names.push_back(name);
  return names;
}

/// What `value` finds in each program's entry of a figure.
template <class Value>
Series series_of(const std::string& name, const Json& detail,
                 const std::vector<std::string>& groups, Value&& value) {
  Series series{name, {}};
  for (const std::string& group : groups)
    series.values.push_back(detail.contains(group) ? value(detail[group]) : kNone);
  return series;
}

/// One series for each figure there is, at the shortest interval.
void draw_by_tracker(const Details& details, BarChart chart,
                     const std::vector<std::pair<std::string, std::string>>& figures,
                     const std::string& path) {
  for (const auto& [key, name] : figures) {
    if (!details.contains(key)) continue;
    const Json& detail = details.at(key);
    if (chart.groups.empty()) chart.groups = programs_of(detail);
    chart.series.push_back(series_of(name, detail, chart.groups, [](const Json& entry) {
      return entry.contains("ratio") ? entry["ratio"].get<double>()
                                     : entry.front()["ratio"].get<double>();
    }));
  }
  if (!chart.series.empty()) draw(chart, path);
}

// --- by the share of pages -----------------------------------------------------------------------

/// A program's points, by the share of its pages that is stored to.
Cloud cloud_of(const std::string& name, const Json& windows) {
  Cloud cloud{name, {}};
  for (const auto& [wanted, window] : windows.items())
    cloud.points.push_back({100 * window["p"].get<double>(), window["ratio"].get<double>()});
  std::sort(cloud.points.begin(), cloud.points.end(),
            [](const Point& a, const Point& b) { return a.x < b.x; });
  return cloud;
}

/// FGCK's table 5: page faults with checkpoints every 5, 10 and 15 s, of the programs with many
/// objects. (The others have arrays, which are seen through one alias.) A fault is a page, or the
/// half of one, that was stored to between two checkpoints.
struct PaperFaults {
  double pages[3];
  double halves[3];
};
constexpr PaperFaults kPaperFaults[] = {
    {{630'904, 628'804, 628'574}, {943'311, 941'768, 940'848}},            // Bayes
    {{901'240, 581'812, 551'172}, {1'484'891, 888'361, 803'974}},          // Intruder
    {{2'518'316, 1'197'890, 560'062}, {3'341'583, 1'857'242, 1'002'237}},  // Vacation
    {{735'901, 423'242, 396'855}, {1'030'046, 475'225, 438'061}}};         // Genome

/// The paper does not say which share of the pages was stored to. It follows from how many halves
/// were, if stores were spread evenly: so these points are on the curve by definition, and say
/// where on it the paper's programs are. A half is half a page to copy, apart from what its
/// allocator wastes.
Cloud paper_faults() {
  Cloud cloud{"paper, by its faults", {}};
  for (const PaperFaults& program : kPaperFaults)
    for (int i = 0; i < 3; ++i) {
      const double ratio = program.halves[i] / program.pages[i] / 2;
      const double untouched = 1 / ratio - 1;  // of the halves
      cloud.points.push_back({100 * (1 - untouched * untouched), ratio});
    }
  return cloud;
}

/// The bytes that the paper copied in the mean (§5.2), beside the shares that its faults give. Its
/// allocator rounds sizes up to powers of two; pages copy that, and halves do not. Of Tokyo Cabinet
/// it counts no faults.
std::vector<Level> paper_bytes(const Cloud& faults) {
  const auto [least, most] =
      std::minmax_element(faults.points.begin(), faults.points.end(),
                          [](const Point& a, const Point& b) { return a.x < b.x; });
  return {{"paper, STAMP's bytes", least->x, most->x, 0.594},
          {"paper, Tokyo's bytes, any p", 0, 100, 0.51}};
}

CurveChart chart_by_share(const Details& details, const std::string& title,
                          const std::string& key) {
  CurveChart chart{title,
                   "p: % of the pages stored to between two checkpoints",
                   "÷ page tracking",
                   {},
                   {},
                   {},
                   {},
                   {}};
  for (const std::string& program : programs_of(details.at(key)))
    chart.clouds.push_back(cloud_of(program, details.at(key)[program]));
  return chart;
}

void draw_curve(const Details& details, const std::string& path) {
  if (!details.contains("curve_k2")) return;
  CurveChart chart = chart_by_share(details, "Bytes copied with 2 aliases", "curve_k2");
  chart.curve_name = "evenly spread stores";
  chart.formula = "1 / (1 + sqrt(1 - x / 100))";
  chart.others = {paper_faults()};
  chart.levels = paper_bytes(chart.others.front());
  draw(chart, path);
}

void draw_pcm_times(const Details& details, const std::string& path) {
  if (!details.contains("time_k2_pcm")) return;
  draw(chart_by_share(details, "Run time with 2 aliases, PCM's 600 ns a line", "time_k2_pcm"),
       path);
}

// --- the adviser ---------------------------------------------------------------------------------

void draw_predicted(const Details& details, const std::string& path) {
  if (!details.contains("predicted")) return;
  AgreementChart chart{"Slowdown with checkpoints, as perdura advise predicts it and as it is",
                       "predicted",
                       "measured",
                       0.25,
                       {}};
  std::map<std::string, std::size_t> places;
  for (const auto& [name, ways] : details.at("predicted").items()) {
    if (!ways.is_object()) continue;
    for (const auto& [way, pair] : ways.items()) {
      const std::size_t place = places.emplace(way, chart.clouds.size()).first->second;
      if (place == chart.clouds.size()) chart.clouds.push_back({way, {}});
      chart.clouds[place].points.push_back({pair["predicted"], pair["measured"]});
    }
  }
  draw(chart, path);
}

}  // namespace

void plot_tracker(const Json& figures, const std::string& folder) {
  Details details;
  for (const Json& figure : figures) details[figure["key"]] = figure["detail"];
  const auto path = [&](const char* name) { return folder + "/" + name + ".svg"; };
  const std::string of_pages = "÷ page tracking";
  draw_by_tracker(details, {"Bytes copied by checkpoints", of_pages, {}, {}},
                  {{"copied_k1", "1 alias"},
                   {"copied_k2_usual", "2 aliases"},
                   {"copied_k4", "4 aliases"},
                   {"copied_k8", "8 aliases"},
                   {"copied_k256", "256 aliases"},
                   {"copied_lines", "pages, compared"}},
                  path("copied"));
  draw_curve(details, path("copied-by-share"));
  draw_pcm_times(details, path("time-pcm"));
  draw_by_tracker(details, {"Page faults", of_pages, {}, {}},
                  {{"faults_k1", "1 alias"},
                   {"faults_k2", "2 aliases"},
                   {"faults_k4", "4 aliases"},
                   {"faults_k8", "8 aliases"},
                   {"faults_k256", "256 aliases"}},
                  path("faults"));
  draw_by_tracker(details,
                  {"Run time without checkpoints, tracker armed", "÷ glibc's malloc", {}, {}},
                  {{"armed_page", "pages"},
                   {"armed_k1", "1 alias"},
                   {"armed_k2", "2 aliases"},
                   {"armed_k4", "4 aliases"},
                   {"armed_k8", "8 aliases"},
                   {"armed_k256", "256 aliases"}},
                  path("armed"));
  draw_predicted(details, path("predicted"));
}

}  // namespace perdura::bench
