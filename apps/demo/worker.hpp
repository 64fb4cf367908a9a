// The process that builds the index, and that the supervisor kills.
#pragma once

#include <cstdint>
#include <string>

#include <perdura/options.hpp>

namespace demo {

struct WorkerOptions {
  std::string store;  ///< URI; empty builds in ordinary memory
  std::uint32_t interval_ms = 64;
  perdura::Tracking tracking = perdura::Tracking::kAutomatic;
  std::uint64_t seed = 1;  ///< of the queries

  // Inherited descriptors: SharedMemory with the corpus and with Progress; a file for the answers.
  int corpus_fd = -1;
  int progress_fd = -1;
  int answers_fd = -1;
};

/// Builds the index from wherever the store left off, answers the queries, returns the exit code.
int run_worker(const WorkerOptions& options);

}  // namespace demo
