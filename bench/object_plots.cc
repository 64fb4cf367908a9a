// Charts of the benchmark `object`, as SIMPO's figures 10 to 19 have them.
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "object_parts.hpp"
#include "plot.hpp"

namespace perdura::bench {
namespace {

/// By their keys, those that were measured.
using Figures = std::map<std::string, Json>;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// What a figure's detail has at a path of names; NaN where that is not there.
double detail_of(const Figures& figures, const std::string& key,
                 const std::vector<std::string>& path) {
  const auto found = figures.find(key);
  if (found == figures.end()) return kNone;
  const Json* at = &found->second["detail"];
  for (const std::string& name : path) {
    if (!at->contains(name)) return kNone;
    at = &at->at(name);
  }
  return at->is_number() ? at->get<double>() : kNone;
}
double value_of(const Figures& figures, const std::string& key) {
  const auto found = figures.find(key);
  return found == figures.end() || found->second["value"].is_null()
             ? kNone
             : found->second["value"].get<double>();
}
/// Millions a second, of so many nanoseconds each.
double millions(double each_ns) { return 1e3 / each_ns; }

class Charts {
 public:
  Charts(const Json& figures, const std::string& folder) : folder_(folder) {
    for (const Json& figure : figures) figures_[figure["key"]] = figure;
  }

  /// Not ssd: beside a thousand the others could not be seen.
  void draw_all() const {
    draw_throughput();
    draw_bars(
        "object-checkpoints", "Figures 10 and 11: checkpoints",
        "throughput, the faster ÷ the slower",
        {{"hybrid ÷ nvram", "nvram"}, {"hybrid ÷ cow", "cow"}, {"hybrid ÷ cow, each", "cow_each"}});
    draw_bars("object-rows", "Figures 12 and 13: two rows, 8 threads", "throughput ÷",
              {{"m-server ÷ fc", "m_server_fc"},
               {"m-server ÷ native", "m_server"},
               {"fc ÷ native", "fc"}});
    draw_bars("object-grouping", "Figures 14 and 15: grouping", "throughput ÷",
              {{"group ÷ no", "group_no"},
               {"group ÷ all", "group_all"},
               {"1000:1 ÷ native", "mix_1000"},
               {"100:1", "mix_100"},
               {"10:1", "mix_10"},
               {"1:1", "mix_1"}});
    draw_recovery();
    draw_bars("object-pool", "Figure 17: objects of 4 MiB", "throughput ÷ native",
              {{"unmerged", "pool"}, {"merged", "pool_merged"}});
    draw_bars("object-swap", "Figure 17: space for two thirds of them", "time ÷",
              {{"all have space", "swap"}, {"raw input and output", "swap_floor"}});
    draw_structures();
    draw_bars("object-length", "Instants by their length, 2 threads", "time ÷ native",
              {{"0.1 µs", "length_100ns"},
               {"1 µs", "length_1us"},
               {"10 µs", "length_10us"},
               {"100 µs", "length_100us"}});
  }

 private:
  void draw_chart(const char* name, const BarChart& chart) const {
    for (const Series& series : chart.series)
      for (const double value : series.values)
        if (value == value) return draw(chart, folder_ + "/" + name + ".svg");
  }
  /// A bar for each figure.
  void draw_bars(const char* name, const char* title, const char* label,
                 const std::vector<std::pair<const char*, const char*>>& figures) const {
    BarChart chart{title, label, {}, {{"measured", {}}}};
    for (const auto& [group, key] : figures) {
      chart.groups.push_back(group);
      chart.series[0].values.push_back(value_of(figures_, key));
    }
    draw_chart(name, chart);
  }
  void draw_throughput() const {
    BarChart chart{"Figures 10 and 11: 500 integers", "million calls a second", {}, {}};
    const std::vector<std::string> threads = {"1", "2", "8", "60"};
    for (const std::string& count : threads)
      chart.groups.push_back(count + (count == "1" ? " thread" : " threads"));
    const auto add = [&](const char* name, const char* side, auto&& key) {
      Series series{name, {}};
      for (const std::string& count : threads)
        series.values.push_back(millions(detail_of(figures_, key(count), {count, side})));
      chart.series.push_back(series);
    };
    const auto simpo = [](const std::string& count) { return "simpo_" + count; };
    add("native", "base_ns", simpo);
    add("hybrid", "subject_ns", [](const std::string&) { return "hybrid"; });
    add("simpo", "subject_ns", simpo);
    // These were measured in two threads.
    const auto add_pair = [&](const char* name, const char* side, const char* key) {
      Series series{name, {}};
      for (const std::string& count : threads)
        series.values.push_back(count == "2" ? millions(detail_of(figures_, key, {side})) : kNone);
      chart.series.push_back(series);
    };
    add_pair("nvram", "base_ns", "nvram");
    add_pair("cow", "base_ns", "cow");
    draw_chart("object-throughput", chart);
  }
  void draw_recovery() const {
    const auto of = [&](const char* key, const char* what) {
      return detail_of(figures_, key, {what});
    };
    draw_chart("object-recovery",
               {"Figure 16: after a kill at 640,000 calls",
                "ms",
                {"opening", "running the program again", "running it natively"},
                {{"measured",
                  {of("recover_object", "recover_ms"), of("recover_program", "run_again_ms"),
                   of("recover_object", "native_ms")}}}});
  }
  void draw_structures() const {
    BarChart chart{"Figures 18 and 19: 100,000 elements", "time ÷ native", {}, {}};
    chart.series = {{"simpo, 2 threads", {}},
                    {"simpo, 8 threads", {}},
                    {"hybrid, 2 threads", {}},
                    {"hybrid, 8 threads", {}}};
    for (const std::string name : {"array", "queue", "heap", "stack", "tree", "graph"}) {
      chart.groups.push_back(name);
      std::size_t series = 0;
      for (const char* suffix : {"", "_hybrid"})
        for (const char* threads : {"2", "8"})
          chart.series[series++].values.push_back(
              detail_of(figures_, name + suffix, {threads, "ratio"}));
    }
    draw_chart("object-structures", chart);
  }

  Figures figures_;
  const std::string& folder_;
};

}  // namespace

void plot_object(const Json& figures, const std::string& folder) {
  Charts(figures, folder).draw_all();
}

}  // namespace perdura::bench
