#include "costs.hpp"

#include <algorithm>
#include <cmath>

namespace perdura::tools {
namespace {

/// What else the machine does only adds to what work takes: the least of several times is the
/// nearest to it. How near, the distance to the lower quartile tells.
struct Time {
  double least = 0;
  double doubt = 0;
};

Time time_of(std::vector<double> rounds) {
  if (rounds.empty()) return {};
  std::sort(rounds.begin(), rounds.end());
  return {rounds.front(), rounds[rounds.size() / 4] - rounds.front()};
}

/// An equation: `seen` and `lines` take `ns` beyond what a checkpoint of nothing takes.
struct Equation {
  double seen;
  double lines;
  double ns;
};

Equation equation_of(const Epochs& epochs, const Epochs& idle) {
  return {epochs.seen, epochs.lines,
          std::max(1.0, time_of(epochs.checkpoint_ns).least - time_of(idle.checkpoint_ns).least)};
}

/// The costs with which sums come nearest to what was measured, relatively: none is below zero.
struct PageAndLine {
  double page;
  double line;
};

double page_for(std::span<const Equation> equations, double line) {
  double above = 0;
  double below = 0;
  for (const Equation& each : equations) {
    const double seen = each.seen / each.ns;
    above += seen * (1 - line * each.lines / each.ns);
    below += seen * seen;
  }
  return below == 0 ? 0 : std::max(0.0, above / below);
}

double line_alone(std::span<const Equation> equations) {
  double above = 0;
  double below = 0;
  for (const Equation& each : equations) {
    above += each.lines / each.ns;
    below += each.lines / each.ns * (each.lines / each.ns);
  }
  return below == 0 ? 0 : above / below;
}

PageAndLine page_and_line(std::span<const Equation> equations) {
  double ss = 0, sl = 0, ll = 0, s = 0, l = 0;
  for (const Equation& each : equations) {
    const double seen = each.seen / each.ns;
    const double lines = each.lines / each.ns;
    ss += seen * seen;
    sl += seen * lines;
    ll += lines * lines;
    s += seen;
    l += lines;
  }
  const double determinant = ss * ll - sl * sl;
  // The equations say nearly the same: what is copied is the lines' doing.
  constexpr double kApart = 0.01;
  if (determinant <= kApart * ss * ll) return {0, line_alone(equations)};
  const double line = (ss * l - sl * s) / determinant;
  if (line <= 0) return {page_for(equations, 0), 0};
  const double page = page_for(equations, line);
  return page == 0 ? PageAndLine{0, line_alone(equations)} : PageAndLine{page, line};
}

/// How far the sums are from what was measured, and the times from each other.
double doubt_of(std::span<const Equation> equations, std::span<const Epochs> epochs,
                const PageAndLine& pair) {
  double most = 0;
  for (size_t i = 0; i < equations.size(); ++i) {
    const Equation& each = equations[i];
    const double sum = pair.page * each.seen + pair.line * each.lines;
    most = std::max(
        {most, std::abs(sum / each.ns - 1), time_of(epochs[i].checkpoint_ns).doubt / each.ns});
  }
  return most;
}

/// Of reports only very many take long enough to be timed.
const Epochs& epochs_of_faults(const Way& way, const Measurements& measured) {
  return way.reported ? measured.thin : measured.sparse;
}

double fault_of(const Epochs& epochs) {
  if (epochs.seen == 0) return 0;
  return std::max(0.0, time_of(epochs.stores_ns).least - time_of(epochs.stores_again_ns).least) /
         epochs.seen;
}

std::vector<Epochs> epochs_of(const Measurements& each) {
  return {each.sparse, each.dense, each.thin};
}

std::vector<Equation> equations_of(const Measurements& each) {
  std::vector<Equation> equations;
  for (const Epochs& epochs : epochs_of(each)) equations.push_back(equation_of(epochs, each.idle));
  return equations;
}

/// Whether all lines of what is seen are captured together.
bool captures_together(const Way& way) { return !way.compare && !way.reported; }

/// By those ways whose epochs tell lines from pages.
double shared_line(std::span<const Way> ways, std::span<const Measurements> measured) {
  std::vector<double> lines;
  for (size_t i = 0; i < ways.size(); ++i)
    if (captures_together(ways[i]) && ways[i].aliases != 0 && measured[i].dense.seen != 0)
      lines.push_back(page_and_line(equations_of(measured[i])).line);
  if (lines.empty()) return -1;
  std::sort(lines.begin(), lines.end());
  return lines[lines.size() / 2];
}

}  // namespace

const std::vector<Way>& ways() {
  static const std::vector<Way> all{
      {"pages", Tracking::kUserfault, 0, false},
      {"pages, compared", Tracking::kUserfault, 0, true},
      {"1 alias", Tracking::kUserfault, 1, false},
      {"2 aliases", Tracking::kUserfault, 2, false},
      {"4 aliases", Tracking::kUserfault, 4, false},
      {"8 aliases", Tracking::kUserfault, 8, false},
      {"an alias a block", Tracking::kUserfault, 256, false},
      {"reported by its compiler", Tracking::kCompiled, 0, false, true}};
  return all;
}

std::vector<Costs> costs_of(std::span<const Way> ways, std::span<const Measurements> measured) {
  const double together = shared_line(ways, measured);
  std::vector<Costs> all;
  for (size_t i = 0; i < ways.size(); ++i) {
    const Measurements& each = measured[i];
    Costs costs;
    costs.fault = fault_of(epochs_of_faults(ways[i], each));
    costs.fresh = time_of(each.fresh_ns).least;
    const Time idle = time_of(each.idle.checkpoint_ns);
    if (each.more_pages != 0)
      costs.heap_page = std::max(0.0, time_of(each.idle_large.checkpoint_ns).least - idle.least) /
                        each.more_pages;
    costs.fixed = std::max(0.0, idle.least - costs.heap_page * each.pages);
    const std::vector<Equation> equations = equations_of(each);
    PageAndLine pair = page_and_line(equations);
    if (captures_together(ways[i]) && together >= 0)
      pair = {page_for(equations, together), together};
    costs.page = pair.page;
    costs.line = pair.line;
    const Time stores = time_of(epochs_of_faults(ways[i], each).stores_ns);
    costs.doubt = std::max(doubt_of(equations, epochs_of(each), pair),
                           stores.least == 0 ? 0 : stores.doubt / stores.least);
    all.push_back(costs);
  }
  return all;
}

}  // namespace perdura::tools
