// What tracking and checkpoints cost, from epochs of stores of ours that were measured (perdura
// advise): what is measured is in calibration.cc, and what follows from it here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <perdura/options.hpp>

#include "base/bits.hpp"

namespace perdura::tools {

/// A way of tracking that a program can use without being changed. Not sigbus and protect: with
/// them system calls fail that store into the heap, and no run shows that a program has none.
struct Way {
  std::string name;
  Tracking tracking;
  u32 aliases;  ///< 0: pages
  bool compare;
  bool reported = false;  ///< what is seen is reports of the compiler, not pages
};
/// The simplest first.
const std::vector<Way>& ways();

/// Nanoseconds.
struct Costs {
  double fault = 0;      ///< first store to a page, or to one of an alias; a report
  double page = 0;       ///< capture: a page, or a page of an alias, that was stored to; a report
  double line = 0;       ///< capture: a line that is written
  double heap_page = 0;  ///< any page of the heap, at each checkpoint
  double fixed = 0;      ///< a checkpoint
  double fresh = 0;      ///< a page of memory that is new, its blocks allocated and stored to
  double doubt = 0;      ///< how far sums of these may be off, relatively
};

/// Of one kind of epoch, in each round of which it was one. Nanoseconds.
struct Epochs {
  double seen = 0;                           ///< pages, pages of aliases, or reports
  double lines = 0;                          ///< captured
  std::vector<double> stores_ns = {};        ///< the stores, of which each was seen
  std::vector<double> stores_again_ns = {};  ///< once more, where nothing new is to be seen
  std::vector<double> checkpoint_ns = {};
};

/// Of one way.
struct Measurements {
  Epochs idle;        ///< next to nothing changes
  Epochs idle_large;  ///< the same in a heap that is `more_pages` larger
  double pages = 0;   ///< of the heap
  double more_pages = 0;
  Epochs sparse;                      ///< a block a page
  Epochs dense;                       ///< all blocks of all pages
  Epochs thin;                        ///< what is seen has fewer lines
  std::vector<double> fresh_ns = {};  ///< of each step in which the heap grew: nanoseconds a page
};

/// Of ways on one medium, in the same order. A line takes the medium as long whichever tracker
/// found it, but not the same where lines are captured one by one, as those are that were compared
/// or reported.
std::vector<Costs> costs_of(std::span<const Way> ways, std::span<const Measurements> measured);

}  // namespace perdura::tools
