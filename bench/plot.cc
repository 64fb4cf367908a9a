#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace perdura::bench {
namespace {

/// A running gnuplot, which reads its commands from a pipe.
class Gnuplot {
 public:
  explicit Gnuplot(const std::string& path) : path_(path), pipe_(popen("gnuplot", "w")) {
    if (pipe_ == nullptr) throw std::runtime_error("cannot start gnuplot");
    say("set terminal svg size 860,400 dynamic noenhanced background 'white' font 'sans-serif,13'");
    const char* colours[] = {"#9ecae1", "#3182bd", "#08519c", "#fdae6b", "#e6550d", "#31a354"};
    for (int i = 0; i < 6; ++i) say("set linetype {} linecolor rgb '{}'", i + 1, colours[i]);
    say("set output '{}'", path);
    say("set grid ytics linecolor '#dddddd'");
    say("set border 3 linecolor '#666666'");
    say("set xtics nomirror scale 0");
    say("set ytics nomirror");
    say("set key outside right top Left reverse");
  }
  ~Gnuplot() {
    if (pipe_ != nullptr) pclose(pipe_);
  }
  Gnuplot(const Gnuplot&) = delete;
  Gnuplot& operator=(const Gnuplot&) = delete;

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    fmt::print(pipe_, format, std::forward<Args>(args)...);
    std::fputc('\n', pipe_);
  }

  /// As $name.
  void say_points(const std::string& name, const std::vector<Point>& points) {
    say("${} << END", name);
    for (const Point& point : points) say("{} {}", point.x, point.y);
    say("END");
  }

  void finish() {
    if (pclose(std::exchange(pipe_, nullptr)) != 0)
      throw std::runtime_error("gnuplot could not draw " + path_);
  }

 private:
  std::string path_;
  FILE* pipe_;
};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

void draw(const BarChart& chart, const std::string& path) {
  Gnuplot gnuplot(path);
  gnuplot.say("set title \"{}\"", chart.title);
  gnuplot.say("set ylabel \"{}\"", chart.y_label);
  gnuplot.say("set yrange [0:*]");
  gnuplot.say("set style data histograms");
  gnuplot.say("set style histogram clustered gap 1");
  gnuplot.say("set style fill solid 0.85 noborder");
  gnuplot.say("$figures << END");
  for (std::size_t group = 0; group < chart.groups.size(); ++group) {
    std::string line = fmt::format("\"{}\"", chart.groups[group]);
    for (const Series& series : chart.series)
      line += std::isfinite(series.values[group]) ? fmt::format(" {}", series.values[group]) : " -";
    gnuplot.say("{}", line);
  }
  gnuplot.say("END");
  gnuplot.say("set datafile missing '-'");
  std::vector<std::string> plots;
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    plots.push_back(
        fmt::format("$figures using {}:xtic(1) title \"{}\"", i + 2, chart.series[i].name));
  gnuplot.say("plot {}", joined(plots));
  gnuplot.finish();
}

void draw(const AgreementChart& chart, const std::string& path) {
  Gnuplot gnuplot(path);
  gnuplot.say("set title \"{}\"", chart.title);
  gnuplot.say("set xlabel \"{}\"", chart.x_label);
  gnuplot.say("set ylabel \"{}\"", chart.y_label);
  double least = 1, most = 1;
  for (const Cloud& cloud : chart.clouds)
    for (const Point& point : cloud.points) {
      least = std::min({least, point.x, point.y});
      most = std::max({most, point.x, point.y});
    }
  gnuplot.say("set size ratio -1");
  gnuplot.say("set xrange [{}:{}]", least * 0.95, most * 1.05);
  gnuplot.say("set yrange [{}:{}]", least * 0.95, most * 1.05);
  std::vector<std::string> plots = {"x title \"equal\" linecolor '#666666'"};
  for (const double factor : {1 + chart.tolerance, 1 / (1 + chart.tolerance)})
    plots.push_back(fmt::format(
        "x * {} {} linecolor '#aaaaaa' dashtype 2", factor,
        factor > 1 ? fmt::format("title \"{:.0f} % apart\"", chart.tolerance * 100) : "notitle"));
  for (std::size_t i = 0; i < chart.clouds.size(); ++i) {
    gnuplot.say_points(fmt::format("cloud{}", i), chart.clouds[i].points);
    plots.push_back(fmt::format("$cloud{} with points linetype {} pointtype 7 title \"{}\"", i,
                                i + 1, chart.clouds[i].name));
  }
  gnuplot.say("plot {}", joined(plots));
  gnuplot.finish();
}

void draw(const CurveChart& chart, const std::string& path) {
  Gnuplot gnuplot(path);
  gnuplot.say("set title \"{}\"", chart.title);
  gnuplot.say("set xlabel \"{}\"", chart.x_label);
  gnuplot.say("set ylabel \"{}\"", chart.y_label);
  gnuplot.say("set xrange [0:100]");
  gnuplot.say("set yrange [0:*]");
  gnuplot.say("set samples 1000");
  std::vector<std::string> plots;
  if (!chart.formula.empty())
    plots.push_back(fmt::format("{} title \"{}\" linecolor '#666666' linewidth 2", chart.formula,
                                chart.curve_name));
  for (std::size_t i = 0; i < chart.clouds.size(); ++i) {
    gnuplot.say_points(fmt::format("cloud{}", i), chart.clouds[i].points);
    plots.push_back(fmt::format("$cloud{} with linespoints linetype {} pointtype 7 title \"{}\"", i,
                                i + 1, chart.clouds[i].name));
  }
  for (std::size_t i = 0; i < chart.others.size(); ++i) {
    gnuplot.say_points(fmt::format("other{}", i), chart.others[i].points);
    plots.push_back(fmt::format("$other{} with points linecolor 'black' pointtype {} title \"{}\"",
                                i, i + 1, chart.others[i].name));
  }
  for (std::size_t i = 0; i < chart.levels.size(); ++i) {
    const Level& level = chart.levels[i];
    gnuplot.say_points(fmt::format("level{}", i), {{level.from, level.y}, {level.to, level.y}});
    plots.push_back(fmt::format("$level{} with lines linecolor 'black' dashtype {} title \"{}\"", i,
                                i + 2, level.name));
  }
  gnuplot.say("plot {}", joined(plots));
  gnuplot.finish();
}

}  // namespace perdura::bench
