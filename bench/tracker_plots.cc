// The charts of docs/tracking.md, from the figures of the benchmark `tracker`.
#include "tracker_plots.hpp"

#include <limits>
#include <map>
#include <set>
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

double ratio_at(const Json& entry, const std::string& interval) {
  return entry.contains(interval) ? entry[interval]["ratio"].get<double>() : kNone;
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

/// One series for each interval.
void draw_by_interval(const Details& details, BarChart chart, const std::string& key,
                      const std::string& path) {
  if (!details.contains(key)) return;
  const Json& detail = details.at(key);
  chart.groups = programs_of(detail);
  std::set<std::pair<double, std::string>> intervals;
  for (const std::string& program : chart.groups)
    for (const auto& [interval, entry] : detail[program].items())
      intervals.emplace(std::stod(interval), interval);
  for (const auto& [seconds, interval] : intervals)
    chart.series.push_back(
        series_of("every " + interval, detail, chart.groups,
                  [&interval = interval](const Json& entry) { return ratio_at(entry, interval); }));
  draw(chart, path);
}

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
                   {"copied_k2", "2 aliases"},
                   {"copied_k4", "4 aliases"},
                   {"copied_k8", "8 aliases"},
                   {"copied_k256", "256 aliases"},
                   {"copied_lines", "pages, compared"}},
                  path("copied"));
  draw_by_interval(details, {"Bytes copied with 2 aliases", of_pages, {}, {}}, "copied_k2",
                   path("copied-by-interval"));
  draw_by_interval(details, {"Run time with 2 aliases, PCM's 600 ns a line", of_pages, {}, {}},
                   "time_k2_pcm", path("time-pcm"));
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
