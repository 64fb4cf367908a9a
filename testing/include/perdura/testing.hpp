// Finding out whether a program's own structures survive failures. For tests: link
// Perdura::testing. docs/testing-your-code.md is the guide.
//
//   auto report = perdura::testing::crash_test(
//       {},
//       [](perdura::Store& store) { ... what the program does ... },
//       [](perdura::Store& store) { return std::string(...what is wrong, or ""...); });
//   EXPECT_TRUE(report.ok()) << report.text();
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <perdura/store.hpp>

namespace perdura::testing {

struct CrashTestOptions {
  CrashTestOptions() {
    store.tracking = Tracking::kReported;
    store.region_limit_bytes = 16 << 20;
    store.log_segment_bytes = 32 << 10;
  }
  /// How the store is opened. The defaults suit a small structure whose stores are reported.
  Options store;
  /// Take a checkpoint before every outermost operation of the program, as a timer might. Without
  /// it only the program's own checkpoints are versions.
  bool checkpoint_everywhere = true;
  /// Stop checkpointing by itself after so many versions.
  std::uint64_t versions_max = 2000;
};

struct CrashTestReport {
  std::string problem;        ///< what the first bad version is about; "" when there is none
  std::uint64_t version = 0;  ///< that version
  /// Versions that a failure can leave, with the transactions behind each, every one checked.
  std::uint64_t versions = 0;
  std::uint64_t states = 0;      ///< moments of failure, those inside recovery included
  std::uint64_t executions = 0;  ///< recoveries executed for them
  double log10_contents = 0;     ///< decimal logarithm of the contents of the medium covered
  bool ok() const { return problem.empty(); }
  std::string text() const;
};

/// Runs `run` on a new store on emulated NVM, and then recovers every state that a failure at any
/// moment may have left of it. Each version found is opened as a store, with each set of
/// transactions that was durable behind it, and `check` says what is
/// wrong with it, or "". `check` must accept a store on which `run` has done nothing yet.
/// Throws what `run` throws, and perdura::Error where the store fails.
CrashTestReport crash_test(const CrashTestOptions& options, const std::function<void(Store&)>& run,
                           const std::function<std::string(Store&)>& check);

}  // namespace perdura::testing
