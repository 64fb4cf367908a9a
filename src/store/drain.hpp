// Versions of an open region, sent to a second place behind it (Options::drain).
//
//   checkpoint ─ note(version, what it changed) ─ durable
//                     |
//   drain thread      └─ the newest durable version; of it what the noted ones up to it changed
//                         ─ send ─ commit there ─ the next one, which may be some later
//
// Invariants:
//  - what a version changed is noted before it is durable, and taken when one that is not older is
//    sent. So what is not noted is as the version there has it, once that was sent without failure;
//  - where that is not known, in a new session or after a failure, all of it is compared;
//  - nothing that happens there fails or delays anything here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <perdura/options.hpp>

#include "base/events.hpp"
#include "store/backup.hpp"
#include "store/own_version.hpp"
#include "store/shared_volume.hpp"
#include "track/dirty_map.hpp"

namespace perdura::store {

class Drain {
 public:
  struct Config {
    std::string uri;
    u64 bytes_per_second = 0;
    media::MediumOptions medium{};
    OwnVersion::Of source{};
    Events* events = &Events::nobody();
    std::function<std::unique_ptr<media::Medium>(std::unique_ptr<media::Medium>)> wrap{};
  };
  explicit Drain(Config config);
  /// What is under way ends at the next piece.
  ~Drain();
  Drain(const Drain&) = delete;

  /// Before the version is durable, also in the thread that has stopped all mutators.
  void note(u64 version, const track::DirtyMap& changes) noexcept;
  void note(u64 version, std::span<const u64> lines) noexcept;
  /// The newest version that is durable there; 0: none that is known.
  u64 drained() const { return drained_.load(std::memory_order_acquire); }
  /// Wait until the newest version is there, `wait_ms` at most, and end. What is missing is told.
  void finish(u64 wait_ms);
  void add_to(Statistics& statistics) const;

 private:
  struct Target;
  static constexpr size_t kNotedMax = 64;

  void run();
  void end();
  Status drain_one();
  Status open_target();
  void lose_notes() noexcept;
  void add(u64 version, std::vector<u64> chunks);
  std::vector<u64> take_noted(u64 version);
  Status pace(u64 bytes);
  void fail(const Failure& failure);

  const Config config_;
  const u64 chunk_bytes_;
  std::unique_ptr<Target> target_;  ///< of the thread
  Pace pace_;
  bool knows_changes_ = false;  ///< what is not noted is as the version there has it

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::map<u64, std::vector<u64>> noted_;  ///< of versions: numbers of chunks, rising
  bool is_choosing_ = false;               ///< a version is being chosen, whose notes are not taken
  bool has_lost_notes_ = false;            ///< there was no memory for some
  std::atomic<u64> drained_{0};
  Statistics counters_{};
  u64 looks_ = 0;
  u64 failures_in_row_ = 0;
  std::string last_failure_;
  bool ends_ = false;
  std::thread thread_;  ///< last
};

}  // namespace perdura::store
