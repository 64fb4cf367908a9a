// The engine that writes what changed to the older one of two copies of a region, which then is the
// newer one (SIMPO §3.2.2).
//
//   copy 0   | version 4 |            | version 6 |            version v is in copy v mod 2
//   copy 1         | version 5 |            | version 7 ...
//
//   changed lines, and those that the older copy lacks    to the older copy
//   page checksums                                        to its table
//   barrier
//   superblock: the newest version                        each of its slots with a barrier
//
// The older copy lacks what changed in the newest version, and has what attempts that failed have
// left there: lines of these that did not change again come from the newest copy. What it lacks
// when a region is opened nobody knows: before the first version of a session a thread compares the
// copies and makes them level. Nothing else happens in the background, but verifying the copy that
// the program views.
//
// The newest copy and its checksums are never written, so they are what the superblock says
// whatever becomes of an attempt. A page is in a copy only where the program stored to it since it
// was opened, or where both copies have the same: so a view of a copy shows the program what it
// has, whichever copy is written (as it does above a home image to which a log is replayed).
//
// Lock order: mutex_ is a leaf; it is not held during I/O.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "commit/capture.hpp"
#include "commit/copies.hpp"
#include "commit/copy_writer.hpp"
#include "commit/engine.hpp"
#include "commit/home_guard.hpp"
#include "commit/pins.hpp"
#include "commit/scrub.hpp"
#include "commit/write_buffers.hpp"

namespace perdura::commit {

class DualCopyEngine final : public Engine {
 public:
  struct Config {
    region::Volume* volume = nullptr;
    region::Region* region = nullptr;
    track::Mutators* mutators = nullptr;
    Copies* copies = nullptr;
    HomeGuard* guard = nullptr;       ///< of the copy that is viewed; condemns kWithVersion
    bool compare = true;              ///< on NVM: leave out lines that did not change
    u64 verify_bytes_per_second = 0;  ///< of the copy that is viewed, once; 0: not
  };
  static Result<std::unique_ptr<DualCopyEngine>> create(const Config& config, u64 durable_version);
  ~DualCopyEngine() override;
  DualCopyEngine(const DualCopyEngine&) = delete;

  bool has_room() const override;
  /// Waits until the copies are level, and a while for readers; kLocked where these stay.
  Result<bool> make_room() override;
  void retry() override;
  u64 unit_bytes() const override { return kPageBytes; }
  void begin(u64 version) override;
  Status capture_stopped(const track::DirtyMap& changes) override;
  Status capture(const track::DirtyMap& changes, Snapshot& snapshot) override;
  Status capture_selection(const Selection::Lines& lines) override;
  Status prepare() override;
  void publish() noexcept override;
  void discard() override;
  void keep_from(u64 version) override;
  Written written() const override { return written_; }
  Status confirm() override { return {}; }  // the superblock knows each version
  bool hold(bool on) override;
  Status finish(bool bring_home) override;
  void add_to(Statistics& statistics) const override;
  void reset_statistics() override;
  Findings findings() const override { return config_.guard->findings(); }

 private:
  DualCopyEngine(const Config& config, u64 durable_version, track::DirtyMap lacking,
                 track::DirtyMap changed);

  // --- of the version that is written
  Status start_capture();
  const format::Extent& home(const region::HomeMap& copy, u64 page);
  void change_sum(u64 page, u64 sum);
  CopyWriter* take_writer(bool compare);
  void count_written();
  Status add_lacking();
  Status copy_page(u64 page, u64 mask);
  Status write_sums();
  Status write_sums_around(u64 page, u64* next);

  // --- with mutex_ held
  bool has_place() const;
  /// To the older copy, or, while it is uncertain which one that is, to the superblock.
  bool may_write() const { return doubtful_ || has_place(); }
  bool is_due() const { return is_wanted_ && !ready_ && !failure_; }

  void run();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  Status get_ready();
  void stop_thread();

  const Config config_;
  media::LinearMedium& medium_;
  const bool by_lines_;  ///< NVM; else by pages
  Pins pins_;

  Stage stage_;
  u64 version_ = 0;
  bool writing_ = false;      ///< start_capture() went well
  bool index_begun_ = false;  ///< the superblock may say that it is there
  Written written_;
  /// In what the older copy may be unlike the newest one.
  std::unique_ptr<track::DirtyMap> lacking_;
  std::unique_ptr<track::DirtyMap> changed_;  ///< what the version has that the newest one has not
  struct OldSum {
    u64 page;
    u64 sum;
  };
  std::vector<OldSum> old_sums_;  ///< what the newest version has where the sums have changed
  WriteBuffers buffers_;
  /// Those of the first writers_taken_ write the version.
  std::vector<std::unique_ptr<CopyWriter>> writers_;
  size_t writers_taken_ = 0;
  std::mutex writers_mutex_;  ///< of these two, while mutators help

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  u64 newest_;                  ///< durable, in the copy that is not written
  u64 kept_from_ = kNoVersion;  ///< it stays
  bool ready_ = false;          ///< the copies are level but for lacking_, and the index is certain
  bool is_wanted_ = false;      ///< that they are ready
  bool doubtful_ = false;       ///< the superblock may say that a discarded version is the newest
  std::optional<Failure> failure_;  ///< of getting ready, until it is tried again
  bool held_ = false;
  bool working_ = false;
  bool stopping_ = false;
  u64 bytes_written_ = 0;
  u64 side_copies_ = 0;

  // --- of the thread
  bool is_level_ = false;
  std::atomic<bool> stop_{false};
  Scrub scrub_;
  bool scrubbing_;
  std::chrono::steady_clock::time_point next_scrub_;
  std::thread thread_;
};

}  // namespace perdura::commit
