// Charts for documents, drawn as SVG by gnuplot.
#pragma once

#include <string>
#include <vector>

namespace perdura::bench {

struct Series {
  std::string name;
  std::vector<double> values;  ///< one for each group; NaN where there is none
};

/// Groups of bars, a bar for each series.
struct BarChart {
  std::string title;
  std::string y_label;
  std::vector<std::string> groups;
  std::vector<Series> series;
};

struct Point {
  double x;
  double y;
};
struct Cloud {
  std::string name;
  std::vector<Point> points;
};

/// Points around the diagonal on which x is y.
struct AgreementChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  double tolerance;  ///< two further lines are so far from the diagonal, relatively
  std::vector<Cloud> clouds;
};

/// A height in a part of a chart's width.
struct Level {
  std::string name;
  double from;
  double to;
  double y;
};

/// Points beside a curve, which a formula in gnuplot's language gives of x; x is 0 to 100.
struct CurveChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::string curve_name;
  std::string formula;        ///< or "": no curve
  std::vector<Cloud> clouds;  ///< each with its points in the order of x, which lines join
  std::vector<Cloud> others;  ///< somebody else's
  std::vector<Level> levels;  ///< the same
};

void draw(const BarChart& chart, const std::string& path);
void draw(const AgreementChart& chart, const std::string& path);
void draw(const CurveChart& chart, const std::string& path);

}  // namespace perdura::bench
