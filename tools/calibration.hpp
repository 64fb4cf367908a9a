// Measures what tracking and checkpoints cost on this machine and a kind of medium, with stores of
// ours (perdura advise).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "costs.hpp"

namespace perdura::tools {

/// Whether the medium is addressed by bytes, after a store there was made and removed again: before
/// a program runs in vain.
Result<bool> try_out(const std::string& uri, const std::string& path);

/// Where the stores are made that are measured.
struct Site {
  std::string medium;  ///< "emu?write_ns=600"
  std::string folder;  ///< nothing is left in it
  bool byte_addressable;
};
/// A URI of a medium and a path on it.
std::string uri_of(const std::string& medium, const std::string& path);

/// A way with what it costs, or why it is not to be had here.
struct Calibrated {
  Way way;
  std::optional<Failure> failure;  ///< kUnsupported
  Costs costs;
};
/// Some seconds. Ways take turns, in several rounds, so that whatever else the machine does is met
/// by all of them. `between` is called with a few words all the while, and may throw.
Result<std::vector<Calibrated>> calibrate(const Site& site,
                                          const std::function<void(const std::string&)>& between);

}  // namespace perdura::tools
