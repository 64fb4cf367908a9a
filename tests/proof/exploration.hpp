// Exploring recorded runs, and what is kept of a problem so that it can be looked at again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jobs.hpp"
#include "oracle.hpp"

namespace perdura::proof {

/// A workload on a medium with a seed.
struct Task {
  const Workload* workload;
  const MediumKind* medium;
  u64 seed;

  std::string name() const {
    return std::string(workload->name) + " on " + medium->name + ", seed " + std::to_string(seed);
  }
  RunRecord record() const;
};

/// A run and an oracle for each of its sessions.
struct Judged {
  explicit Judged(RunRecord record);
  /// Learns nothing of the other sessions.
  Judged(RunRecord record, size_t session);

  testing::Explorer explorer(size_t session, testing::ExplorerOptions options) const;

  const RunRecord run;
  std::vector<std::unique_ptr<Oracle>> oracles;
  std::string problem;  ///< with nothing lost, or ""
};

struct Explored {
  u64 points_left_out = 0;
  testing::Coverage coverage;
  std::string problem;  ///< the first one, which ended it, or ""
  size_t session = 0;   ///< where it showed
  testing::CrashPoint point;
};

/// Every crash point of every session.
Explored explore(const Judged& judged, const testing::Mutation* mutation, int depth);
/// What one execution says: a problem, or "".
std::string replay(const Judged& judged, size_t session, const testing::CrashPoint& point,
                   const testing::Mutation* mutation);

/// A problem with the whole history that led to it, in a file. Threads make runs differ, so that a
/// seed alone does not bring it back.
struct Finding {
  std::string name;  ///< of the task
  std::string problem;
  size_t session;
  testing::CrashPoint point;
  RunRecord run;
};
void save(const Finding& finding, const std::string& path);
/// Throws when the file is none.
Finding load(const std::string& path);

/// Says what was found, and what the program had done before.
void print(const Finding& finding);

}  // namespace perdura::proof
