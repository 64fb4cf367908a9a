// The runs that the demo compares: undisturbed ones, and one that is killed again and again.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "process.hpp"
#include "progress_bar.hpp"

namespace demo {

/// How a run went that came to its end.
struct Finished {
  double build_s = 0;      ///< until the whole index was built (and durable)
  double build_cpu_s = 0;  ///< of an undisturbed run
  perdura::Statistics statistics;
  std::uint64_t heap_blocks = 0;  ///< in use; none in ordinary memory
  std::uint64_t heap_bytes = 0;
  std::vector<std::string> answers;
};

/// One SIGKILL in the middle of the work, and what it cost.
struct Kill {
  std::uint64_t document = 0;  ///< where it struck
  std::uint64_t bytes = 0;
  int while_opening = 0;               ///< further kills, before the worker had come back to work
  double open_ms = 0;                  ///< until the store was open again, recovery included
  std::uint64_t resumed_document = 0;  ///< where work went on
  std::uint64_t resumed_bytes = 0;
  double lost_ms = 0;  ///< what the killed worker had done after that point had taken so long

  std::uint64_t lost_documents() const { return document - std::min(document, resumed_document); }
  std::uint64_t lost_bytes() const { return bytes - std::min(bytes, resumed_bytes); }
};

/// Build the index once, in the store `uri`, of which ordinary memory has none.
Finished run_undisturbed(const Launcher& launcher, Side side, const std::string& uri,
                         std::uint64_t text_bytes);

/// Build the index while killing the worker. Each start continues in what the last one left.
class KilledRun {
 public:
  using OnKill = std::function<void(const Kill&)>;

  /// `count` kills at random moments of the work; every second is followed by another while the
  /// store is being opened again. `on_kill` is called when a worker is back at work.
  KilledRun(const Launcher& launcher, Side side, std::string uri, std::uint64_t text_bytes,
            int count, std::uint64_t seed, OnKill on_kill);

  Finished run();
  const std::vector<Kill>& kills() const { return kills_; }

 private:
  /// Positions in the text, one in each of `count` equal parts, in ascending order.
  std::vector<std::uint64_t> choose_moments(int count);
  void kill_while_opening(Process& worker);
  /// Waits until the worker is back at work, and checks that it found what it must.
  void await_work(Process& worker);
  /// False when the worker built the rest before the next moment to kill it.
  bool await_moment(Process& worker);
  void kill_at_work(Process& worker);
  double ms_since(std::uint64_t bytes) const;

  const Launcher& launcher_;
  Side side_;
  std::string uri_;
  std::uint64_t text_bytes_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> moments_;
  OnKill on_kill_;
  ProgressBar bar_;

  /// Where the worker was when.
  struct Footprint {
    std::chrono::steady_clock::time_point time;
    std::uint64_t bytes;
  };
  std::vector<Footprint> trail_;  ///< of the worker at work, or of the last one that was

  std::vector<Kill> kills_;
  bool resuming_ = false;               ///< after a kill, until a worker is back at work
  std::uint64_t promised_version_ = 0;  ///< the newest that a worker was told is durable
  double open_ms_ = 2;                  ///< of the last opening; a guess before the first
};

}  // namespace demo
