// The frame of perdura-bench: registered benchmarks, the figures they report, where their files
// go. A benchmark is one small file that ends with
//
//   const Registration kThis("name", "what it compares with what", run);
//
// and whose run(Context&) reports figures:
//
//   context.measure("key", "ratio", Reach::at_most(1.25), [&] {
//     return Measured{ratio, {{"pairs", 7}}};
//   });
//
// Each benchmark runs in a process of its own, so one that crashes takes no other with it, and its
// memory is fresh. Files live in two directories that the main process removes at the end.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "measure.hpp"

namespace perdura::bench {

using Json = nlohmann::ordered_json;

/// What a figure should reach.
class Reach {
 public:
  static Reach none() { return Reach(Kind::kNone, 0); }
  static Reach at_most(double bound) { return Reach(Kind::kAtMost, bound); }
  static Reach at_least(double bound) { return Reach(Kind::kAtLeast, bound); }

  Json text() const;               ///< "≤ 1.25", or null
  Json holds(double value) const;  ///< true, false, or null without a bound; NaN never holds

 private:
  enum class Kind { kNone, kAtMost, kAtLeast };
  Reach(Kind kind, double bound) : kind_(kind), bound_(bound) {}
  Kind kind_;
  double bound_;
};

struct Measured {
  double value = std::numeric_limits<double>::quiet_NaN();
  Json detail = Json::object();
};

/// Where a benchmark's file lives: on a disk (`file:`), or in memory, as emulated NVM (`emu:`).
enum class Place { kDisk, kMemory };

class Context {
 public:
  struct Setup {
    std::string benchmark;
    bool quick = false;
    std::vector<std::string> keys;  ///< only these figures; empty: all
    std::string disk_directory;
    std::string memory_directory;
    std::function<void(const Json&)> sink;  ///< receives each figure
  };
  explicit Context(Setup setup) : setup_(std::move(setup)) {}

  /// At most a minute for the whole benchmark.
  bool quick() const { return setup_.quick; }
  template <class T>
  T scale(T full, T quick_value) const {
    return quick() ? quick_value : full;
  }

  /// Whether the figure was asked for; set-up that only serves unwanted figures can be skipped.
  bool wants(std::string_view key) const;

  void figure(std::string_view key, std::string_view unit, Reach reach, const Measured& measured);

  /// Runs `body` (returning Measured) if the figure is wanted. An exception becomes a figure
  /// without a value, and the next figure goes on.
  void measure(std::string_view key, std::string_view unit, Reach reach,
               const std::function<Measured()>& body);

  /// A line on stderr.
  template <class... Args>
  void progress(fmt::format_string<Args...> format, Args&&... args) const {
    say(fmt::format(format, std::forward<Args>(args)...));
  }

  /// A path that exists nowhere yet; files and directories there are removed at exit at the latest.
  std::string path(Place place, std::string_view stem);
  /// The same as a store's URI: "file:…" or "emu:…".
  std::string uri(Place place, std::string_view stem);
  /// Remove what path() or uri() named, and every file beside it whose name begins so.
  void remove(std::string_view path_or_uri) const;

 private:
  void say(const std::string& line) const;
  Setup setup_;
  int paths_ = 0;
};

using Function = void (*)(Context&);
/// Draws figures into a folder.
using Plot = void (*)(const Json& figures, const std::string& folder);
struct Benchmark {
  std::string name;
  std::string description;
  Function function;
  Plot plot;  ///< or nullptr
};
/// By name.
std::vector<Benchmark>& benchmarks();

struct Registration {
  Registration(const char* name, const char* description, Function function, Plot plot = nullptr) {
    benchmarks().push_back({name, description, function, plot});
  }
};

/// What the figures were measured on: cpu, cores, kernel, memory, compiler, file system.
Json machine(const std::string& directory);

}  // namespace perdura::bench
