// What tracking and checkpoints cost on this machine and a kind of medium, measured with stores of
// ours (perdura advise).
#pragma once

#include <string>
#include <vector>

#include <perdura/options.hpp>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::tools {

/// A way of tracking that a program can use without being changed. Not sigbus and protect: with
/// them system calls fail that store into the heap, and no run shows that a program has none.
struct Way {
  std::string name;
  Tracking tracking;
  u32 aliases;  ///< 0: pages
  bool compare;
};
/// The simplest first.
const std::vector<Way>& ways();

/// Nanoseconds.
struct Costs {
  double fault = 0;      ///< first store to a page, or to one of an alias
  double page = 0;       ///< capture: a page, or a page of an alias, that was stored to
  double line = 0;       ///< capture: a line that is written
  double heap_page = 0;  ///< any page of the heap, at each checkpoint
  double fixed = 0;      ///< a checkpoint
  double fresh = 0;      ///< a page of memory that is new, its blocks allocated and stored to
};

/// Whether the medium is addressed by bytes, after a store there was made and removed again: before
/// a program runs in vain.
Result<bool> try_out(const std::string& uri, const std::string& path);

/// Takes a fraction of a second. `uri` names a store that does not exist, to be made at `path`; it
/// is removed again. kUnsupported where this system lacks the tracker.
Result<Costs> calibrate(const Way& way, const std::string& uri, const std::string& path);

}  // namespace perdura::tools
