// Runs recovery on every state that a failure may leave of a recorded run, and on every state that
// a failure inside those recoveries may leave.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "crash_state.hpp"

namespace perdura::testing {

/// A version that was acknowledged when so many calls were recorded.
struct Acknowledgement {
  u64 version;
  size_t calls;
};
/// The newest version acknowledged before a failure after the first `calls` calls, or 0.
u64 acknowledged_by(std::span<const Acknowledgement> all, size_t calls);

/// What recovery made of a state, looked at without deciding more of it.
struct Outcome {
  std::string problem;  ///< "" when all is well
  u64 version = 0;      ///< that was recovered
  u64 recoveries = 0;   ///< executed to find out
};

/// Recovers the medium once, and judges it: the failure came after so many recorded calls. May be
/// called again on the same execution, as a second recovery.
using Recover = std::function<Outcome(Execution& execution, size_t call)>;

/// Where a problem shows: enough to run that one execution again.
struct CrashPoint {
  size_t call = 0;                          ///< the failure comes after so many recorded calls
  std::vector<std::vector<u32>> choices{};  ///< of the recovery; of one after a failure inside it
  bool killed = false;                      ///< at first the process was killed alone
  u64 barrier = 0;  ///< that failure: before this barrier of the first recovery, from 1
  u64 sample = 0;   ///< the number of the sampled state, from 1; 0: explored exactly
};

struct Problem {
  std::string what;
  CrashPoint point;
};

struct Coverage {
  u64 executions = 0;
  u64 states = 0;          ///< crash states: failures at one moment, those inside recovery included
  u64 sampled_states = 0;  ///< of them, those with too many distinguishable contents
  u64 inner_left_out = 0;  ///< states inside recoveries beyond inner_max, or left half explored
  double log10_contents = 0;  ///< decimal logarithm of the number of contents covered

  void add(const Coverage& other);
};

struct ExplorerOptions {
  u64 distinguishable_max = 1 << 15;  ///< executions of one state before it is sampled instead
  u64 samples = 4096;
  int depth = 2;  ///< 2: failures inside recovery as well
  /// So many states inside the recoveries of one state are explored, and of the others one in
  /// inner_step.
  u64 inner_max = 64;
  u64 inner_step = 32;
  /// Executions of a state inside recovery before it is left.
  u64 inner_distinguishable_max = 1 << 11;
  /// Of all the states inside the recoveries of one state together.
  u64 inner_executions_max = 1 << 16;
  u64 seed = 1;
  const Mutation* mutation = nullptr;
  Passed* passed = nullptr;
};

class Explorer {
 public:
  Explorer(media::Geometry geometry, ExplorerOptions options, Recover recover)
      : geometry_(geometry), options_(options), recover_(std::move(recover)) {}

  /// Explore the state at `call`. False, with the problem kept, at the first one.
  bool explore(CrashState& state, size_t call);
  /// The same of the death of a process, which power failures follow while the next one opens it.
  bool explore_killed(CrashState& state, size_t call);
  /// Run one execution again.
  Outcome replay(const CrashState& at, const CrashPoint& point);

  const Coverage& coverage() const { return coverage_; }
  const std::optional<Problem>& problem() const { return problem_; }

 private:
  bool explore_exactly(CrashState& state, CrashPoint& point, int depth);
  bool sample(const CrashState& state, CrashPoint& point);
  bool run(Execution& execution, const Choices& choices, CrashPoint& point);

  const media::Geometry geometry_;
  const ExplorerOptions options_;
  const Recover recover_;
  Coverage coverage_;
  std::optional<Problem> problem_;
};

}  // namespace perdura::testing
