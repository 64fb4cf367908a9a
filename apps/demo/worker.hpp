// The process that builds the index, and that the supervisor kills: perdura-demo-worker, and the
// same code compiled by perdura-clang++.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <perdura/options.hpp>

namespace demo {

/// How the memory is durable that the index is built in, and who finds out what changes there.
enum class Side {
  kOrdinary,   ///< not at all: nothing survives
  kReporting,  ///< the containers, which report what they store to
  kPages,      ///< a page tracker
  kCompiled,   ///< the compiler, which put a report in front of each store
};
/// As arguments and JSON name them.
constexpr std::array<std::string_view, 4> kSideNames = {"ordinary", "reporting", "pages",
                                                        "compiled"};
constexpr std::string_view name_of(Side side) { return kSideNames[static_cast<std::size_t>(side)]; }

struct WorkerOptions {
  Side side = Side::kOrdinary;
  std::string store;  ///< URI; unused in ordinary memory
  std::uint32_t interval_ms = 64;
  perdura::Tracking page_tracker = perdura::Tracking::kAutomatic;
  std::uint64_t seed = 1;       ///< of the queries
  bool verify_found = false;    ///< compare what is in the store with an index built anew
  bool verify_reports = false;  ///< compare what changes with what was reported

  // Inherited descriptors: SharedMemory with the corpus and with Progress; a file for the answers.
  int corpus_fd = -1;
  int progress_fd = -1;
  int answers_fd = -1;
};

}  // namespace demo
