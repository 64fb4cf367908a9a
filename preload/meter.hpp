// How long a program runs, and how much of that is the machine's doing: what it waited for a
// processor that something else had, and what a page costs it that is protected.
#pragma once

#include <sys/types.h>

#include <algorithm>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::preload {

/// By the program, in a while. Nanoseconds.
struct Spent {
  u64 wall_ns = 0;
  u64 cpu_ns = 0;      ///< of processors, all threads together
  u64 waited_ns = 0;   ///< for a processor, all threads together
  u64 stopped_ns = 0;  ///< of the wall time: allocations had to wait, where there were any

  /// Of the wall time what is left without waiting for a processor: threads that run at once wait
  /// at once.
  u64 own_ns() const { return wall_ns - waited_wall_ns(); }
  u64 waited_wall_ns() const {
    const u64 wanted_ns = cpu_ns + waited_ns;
    return wanted_ns <= wall_ns
               ? std::min(waited_ns, wall_ns)
               : static_cast<u64>(static_cast<double>(wall_ns) * static_cast<double>(waited_ns) /
                                  static_cast<double>(wanted_ns));
  }

  Spent& operator+=(const Spent& other) {
    wall_ns += other.wall_ns;
    cpu_ns += other.cpu_ns;
    waited_ns += other.waited_ns;
    stopped_ns += other.stopped_ns;
    return *this;
  }
};

/// By the threads of this process, from its beginning on.
class Meter {
 public:
  /// `without`: a thread that is not the program's; 0: none.
  void begin(pid_t without);
  void add_stopped(u64 ns) { stopped_ns_ += ns; }
  Spent spent() const;

 private:
  Spent begin_;  ///< as the process's threads had it
  pid_t without_ = 0;
  u64 stopped_ns_ = 0;
};

/// Of the calling thread, so far.
double thread_cpu_ns();

/// What the first store to a protected page costs in this process: nanoseconds of the thread's
/// processor time.
struct Faults {
  double least = 0;
  double median = 0;
};
Result<Faults> measure_faults();

}  // namespace perdura::preload
