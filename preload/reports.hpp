// Reports of a program that perdura-clang has compiled (docs/compiler.md). It has a library of its
// own, which knows nothing of the heap here, and sends what it is told of addresses in it.
#pragma once

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::preload {

enum class Reports : u8 {
  kTracked,  ///< by the tracker of the store
  kCounted,  ///< nothing else is done with them
};
/// kUnsupported where no part of the program reports.
Status take_reports(Reports what);

/// So far, of all threads.
u64 reports_counted();
/// What counting one takes: nanoseconds of the thread's processor time. Not what the store's
/// tracker takes, which keeps all of them.
double measure_counting();

}  // namespace perdura::preload
