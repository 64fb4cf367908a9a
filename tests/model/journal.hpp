// What the processes of a program tell each other: in shared memory, so that it survives their
// deaths, as a witness beside the store would.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include "durable.hpp"
#include "features.hpp"
#include "model.hpp"

namespace perdura::model {

constexpr u64 kActionsMax = 4096;
constexpr u64 kSessionsMax = 64;

constexpr size_t kParts = static_cast<size_t>(Part::kCount);

/// How far an action came.
enum class Progress : u8 {
  kNone,
  kBegun,
  kCut,  ///< it ends with the steps that are done: there is no room for more
  kDone,
  kFailed,
};

/// Only atomics that need no lock: a process may die anywhere.
struct Journal {
  struct Far {
    std::atomic<u64> operation{0};
    std::atomic<u64> transaction{0};
  };
  struct SessionRecord {
    std::atomic<bool> opened{false};  ///< and `found` is set
    std::atomic<bool> closed{false};
    std::array<Far, kLanes> found{};
  };

  std::array<std::atomic<Progress>, kActionsMax> progress{};
  std::array<std::atomic<std::uint32_t>, kActionsMax> steps{};  ///< of an action that were done
  std::array<Far, kLanes> done{};
  std::array<Far, kLanes> acknowledged{};
  std::array<SessionRecord, kSessionsMax> sessions{};
  std::array<std::atomic<u64>, kParts> part_done{};
  std::array<std::atomic<u64>, kParts> part_acknowledged{};
  struct LastVersion {
    std::atomic<u64> number{0};
    std::atomic<u64> session{0};
    std::array<std::atomic<u64>, kLanes> operations{};
  } last_version;                           ///< that a call of one session returned, alone
  std::atomic<bool> is_rolled_back{false};  ///< what was acknowledged is exactly what is there
  std::atomic<bool> world_acknowledged{false};
  std::array<std::atomic<bool>, kFeatures> used{};  ///< since the last version
  std::atomic<u64> actions{0};                      ///< done or tried
  std::atomic<u64> failed_calls{0};
  std::atomic<bool> is_kept{false};  ///< the file is open elsewhere, so that it may be deleted
  std::atomic<bool> has_problem{false};
  char problem[2048] = {};

  void begin(const Action& action) {
    progress[action.id] = Progress::kBegun;
    ++actions;
  }
  std::atomic<u64>& done_of(Part part) { return part_done[static_cast<size_t>(part)]; }
  std::atomic<u64>& acknowledged_of(Part part) {
    return part_acknowledged[static_cast<size_t>(part)];
  }
  void say(std::string_view what) {
    if (has_problem.exchange(true)) return;
    const size_t length = std::min(what.size(), sizeof problem - 1);
    std::memcpy(problem, what.data(), length);
  }
  /// Readers take it for none meanwhile.
  template <class Lanes>
  void note_version(u64 version, u64 session, const Lanes& lanes) {
    last_version.number = 0;
    last_version.session = session;
    for (u64 lane = 0; lane < kLanes; ++lane) last_version.operations[lane] = lanes[lane].operation;
    last_version.number = version;
  }
  void use(Feature feature) {
    used[static_cast<size_t>(feature)].store(true, std::memory_order_relaxed);
  }
  FeatureSet features() const {
    FeatureSet features;
    for (size_t i = 0; i < kFeatures; ++i) features[i] = used[i];
    return features;
  }
  /// The others are in a version.
  void keep_features(const FeatureSet& kept) {
    for (size_t i = 0; i < kFeatures; ++i)
      if (!kept[i]) used[i] = false;
  }
};

inline void raise(std::atomic<u64>& value, u64 to) {
  u64 seen = value.load();
  while (seen < to && !value.compare_exchange_weak(seen, to)) {
  }
}

}  // namespace perdura::model
