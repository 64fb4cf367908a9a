// Runs the programs of the benchmark `tracker` under trackers, and remembers what does not depend
// on the machine's speed. Programs take their checkpoints themselves, at the same steps under every
// tracker, in one of two ways:
//
//   by time    from beginning to end. An interval is as many steps as the program does in that time
//              on plain malloc; programs of which it is a whole pass over their data store to
//              nearly all pages
//   by pages   in a window at the end, when the data are there: so few steps apart that only a
//   share
//              of the pages is stored to
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"

namespace perdura::bench {

struct Program {
  std::string name;
  std::string file;
  std::vector<std::string> arguments;  ///< when it takes checkpoints follows
  std::uint64_t steps;
  std::uint64_t built_steps;  ///< its data hardly grow after these
};
/// FGCK's: Tokyo Cabinet with records of three sizes, and three in the style of STAMP.
std::vector<Program> tracker_programs(const Context& context);

struct Tracker {
  std::string name;
  int aliases;
  bool compare = false;
  std::string tracking = "userfault";
  auto operator<=>(const Tracker&) const = default;
};
inline const Tracker kPage{"page", 0}, kLines{"lines", 0, true}, kHalves{"k2", 2};

/// The checkpoints of a program when its data are there: so many after the first, `steps` apart.
struct Window {
  std::uint64_t steps;
  std::uint64_t checkpoints;
  auto operator<=>(const Window&) const = default;
};

/// Has all that it says in itself: what was measured with it is remembered for longer than some
/// trackers live.
struct Setting {
  std::optional<Tracker> tracker;  ///< none: plain malloc
  double interval_s = 0;           ///< 0: no checkpoints by time
  int write_ns = 0;
  std::optional<Window> window = std::nullopt;
  auto operator<=>(const Setting&) const = default;
};

struct Run {
  double seconds;
  double cpu_seconds;         ///< of the program's own thread
  double checkpoint_seconds;  ///< of `seconds`; known in a window
  double queued_seconds;      ///< of `seconds`, while others had the processor
  Json statistics;            ///< null with plain malloc
  double count(const std::string& name) const { return statistics[name].get<double>(); }
};

class Campaign {
 public:
  explicit Campaign(Context& context) : context_(context), programs_(tracker_programs(context)) {}

  const std::vector<Program>& all() const { return programs_; }

  /// Whether a program takes checkpoints at this interval.
  bool is_long_enough(const Program& program, double interval_s);

  /// Of a run that may be an earlier one.
  double count(const Program& program, const Setting& setting, const std::string& name);

  /// Of each setting its runs, one in every round; those of a round are neighbours in time, and
  /// each round begins with another setting.
  std::vector<std::vector<Run>> rounds(const Program& program, const std::vector<Setting>& settings,
                                       std::size_t times);

  /// Of the pages between two checkpoints: up to here halves of pages are to be worth their price.
  static constexpr double kShareMax = 0.25;

  /// In which about `share` of the pages is stored to between two checkpoints, and never more than
  /// kShareMax where `share` is not.
  Window window(const Program& program, double share);
  /// What is stored to between two checkpoints, in the mean of a window, of the pages that were
  /// ever stored to before it.
  double share(const Program& program, const Window& window);
  /// Of the checkpoints of a window alone, without the first, which has everything.
  double count_in(const Program& program, const Tracker& tracker, const Window& window,
                  const std::string& name);

  /// What `perdura advise` says of a program that offers checkpoints often.
  Json advise(const Program& program);

 private:
  std::uint64_t steps_between(const Program& program, double interval_s);
  Window window_of_quarter(const Program& program);
  Run run(const Program& program, const Setting& setting);

  Context& context_;
  const std::vector<Program> programs_;
  std::map<std::pair<std::string, Setting>, Run> counted_;
  std::map<std::string, double> speeds_;
  std::map<std::string, Window> quarters_;
  std::map<std::string, Json> advice_;
  std::map<std::string, std::string> checksums_;
};

}  // namespace perdura::bench
