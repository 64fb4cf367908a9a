// The space of a region's log: segments on the medium, recycled when their versions are home.
//
//   of versions      [block v7][block v7][block v7 commit][block v8 commit][stale or zero ...]
//   of transactions  [block of no version][record][record][record][stale or zero ...]
//
// A segment belongs to one stream at a time, which appends to it (OpenSegment). Every use of a
// segment has a generation; what is of another use of it ends what is read of it.
// Invariant: a segment is used again only after the superblock says that its versions are home.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "region/volume.hpp"

namespace perdura::log {

/// A use of a segment: which one of which session. Generations alone would not do: a session that
/// finds the beginning of a segment torn does not learn of its last use, and may number its own
/// alike.
struct SegmentUse {
  u64 session = 0;
  u64 generation = 0;
};

/// What a use of a segment holds.
enum class Content { kVersions, kTransactions };

/// The segments of a region's log. Thread-safe.
///
/// On a medium that is full what is in the log can be brought home only by versions, and these need
/// log themselves. So some segments are kept from transactions, and versions that take them give
/// them back as soon as they are home: whenever a crash comes, so many are free once recovery has
/// brought the versions home. They carry a version of the largest transaction that is in the log.
class Space {
 public:
  struct Place {
    u64 offset = 0;  ///< of the segment on the medium
    SegmentUse use;
    u32 index = 0;
  };

  Space(region::Volume& volume, u32 region, u64 limit_bytes);

  /// After recovery: blocks of `version` live in the segment at `offset`; kHeld: transactions do,
  /// and no version frees it before free_held().
  static constexpr u64 kHeld = ~u64{0};
  void adopt(u64 offset, u64 generation, u64 version_max);
  /// What recovered transactions did is part of `version`, but for segments at one of the offsets
  /// `needed`, which are sorted.
  void free_held(u64 version, std::span<const u64> needed = {});
  /// Nothing of a version after `durable` is being written, nor was any whole: what was written of
  /// one never was, and its segments, which writers have left, are free. Versions up to `replayed`
  /// are home.
  void free_torn(u64 durable, u64 replayed);
  /// A version of so many lines fits what is free; more space is taken where it does not.
  Status make_room(u64 lines);
  bool fits(u64 lines) const;
  /// From now on a version of so many lines, at least, fits what is kept for versions.
  Status reserve(u64 lines);
  /// The lines of a version that fits for sure.
  u64 reserved_lines() const { return reserved_lines_.load(std::memory_order_relaxed); }
  /// When there is no space for another segment: brings versions home, so that theirs are free.
  /// False: there was none. nullptr: nothing does.
  void on_shortage(std::function<bool()> relieve);
  /// When few segments are left: grow_ahead() shall be called by another thread than the one that
  /// calls this, and before long. Not where there is little to take. nullptr: nobody does.
  void on_scarcity(std::function<void()> wake);
  /// Takes more space before anybody waits for it, up to the limit: who takes a segment then does
  /// not stand still while the medium extends a file, clears the new part and writes the directory.
  /// Where that fails it is left to whoever needs the space, who is told.
  void grow_ahead();
  /// The medium had no space for more of it when it was asked last, and no room for a version has
  /// been found since.
  bool is_short() const { return is_short_.load(std::memory_order_relaxed); }

  /// A free segment for `version`, allocating one where none is free; what is kept for versions,
  /// transactions leave. It stays with the caller until release().
  Result<Place> take(Content content, u64 version);
  void note_version(u32 index, u64 version);
  void release(u32 index);

  /// The generation before which no segment is needed once `replayed` is home.
  u64 live_generation_after(u64 replayed) const;
  /// The same where all is home and nobody writes any more, though writers have segments.
  u64 live_generation_at_end() const;
  /// The superblock says that versions up to `replayed` are home: recycle their segments.
  void recycle(u64 replayed);
  /// The same, and give space beyond the limit back.
  void retire(u64 replayed);

  u64 capacity_bytes() const;
  /// Of the segments with transactions that are free once `version` is home.
  u64 transaction_bytes(u64 version) const;
  u64 limit_bytes() const { return limit_bytes_; }

  /// Transactions that waited for their records to be durable, and how long all of them did.
  struct Waits {
    std::atomic<u64> count{0};
    std::atomic<u64> ns{0};
  };
  Waits& waits() { return waits_; }
  /// The opening that this log is written in: what it writes says so.
  u64 session() const { return session_; }
  bool over_limit() const { return capacity_bytes() > limit_bytes_; }

 private:
  Waits waits_;
  struct Segment {
    u64 offset = 0;
    u64 generation = 0;
    u64 version_max = 0;
    u64 version_min = 0;  ///< nothing in it is older
    bool live = false;    ///< holds versions that are not home
    bool owned = false;   ///< a writer appends to it; then it is live
    bool has_transactions = false;
  };

  /// So many segments, at least.
  Status have_free(std::unique_lock<std::mutex>& lock, u64 segments);
  Status grow(std::unique_lock<std::mutex>& lock, bool in_need);
  bool is_scarce() const;
  u64 growth_bytes() const;
  void free_segments_until(u64 replayed);
  void give_back();
  u64 free_segments() const;
  u64 lines_in(u64 segments) const;
  u64 segments_for(u64 lines) const;

  region::Volume& volume_;
  const u32 region_;
  const u64 limit_bytes_;
  const u64 segment_bytes_;
  const u64 session_;
  const u64 lines_of_segment_;
  mutable std::mutex mutex_;
  u64 kept_for_versions_;          ///< segments; grows
  bool has_transactions_ = false;  ///< or had
  std::function<bool()> relieve_;
  std::function<void()> wake_;
  bool woken_ = false;    ///< since the last growth, by whoever
  bool growing_ = false;  ///< somebody takes more space, without the lock
  std::condition_variable grown_;
  std::atomic<u64> reserved_lines_{0};
  std::atomic<bool> is_short_{false};
  std::vector<Segment> segments_;
  u64 next_generation_ = 1;
};

}  // namespace perdura::log
