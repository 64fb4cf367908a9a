// What the environment says (docs/malloc.md).
#pragma once

#include <chrono>
#include <string>

#include <perdura/options.hpp>

#include "base/result.hpp"

namespace perdura::preload {

struct Settings {
  std::string uri;
  bool is_default_uri = false;
  Options options;
  bool by_reports = false;  ///< changes are what the program's compiler reports
  std::chrono::milliseconds checkpoint_interval{64};  ///< 0: never
  std::string statistics_path;                        ///< empty: none are written
  std::string sample_path;  ///< not empty: sample instead of taking checkpoints

  /// kInvalidArgument names the variable and what it may hold.
  static Result<Settings> from_environment();
};

}  // namespace perdura::preload
