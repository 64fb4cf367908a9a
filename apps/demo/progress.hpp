// What a worker tells its supervisor, in memory that survives the worker's death.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include <perdura/options.hpp>

namespace demo {

enum class Phase : std::uint32_t { kStarting, kOpening, kIndexing, kAnswering, kDone };

/// Zeroes before a worker starts. The supervisor reads the plain members after the phase that
/// follows them.
struct Progress {
  std::atomic<Phase> phase;

  // Valid from kIndexing on: what was found in the store.
  std::uint64_t resumed_document;
  std::uint64_t resumed_bytes;  ///< of text, from the beginning of the corpus
  std::uint64_t resumed_version;
  std::uint64_t open_ns;

  // Live: where the worker is, and the newest version that it was told is durable.
  std::atomic<std::uint64_t> document;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> durable_version;

  // Valid from kAnswering on.
  std::uint64_t build_ns;      ///< from the first step to the last durable version
  std::uint64_t build_cpu_ns;  ///< of all threads, and of the kernel on their behalf
  perdura::Statistics statistics;
  std::uint64_t heap_blocks;  ///< found in use when the whole heap was checked
  std::uint64_t heap_bytes;

  // Valid at kDone.
  std::uint64_t answer_ns;
};
static_assert(std::is_trivially_destructible_v<Progress>);

}  // namespace demo
