// The engine that writes each changed chunk to a new place, and then a new map (SoftPM §4).
//
//   chunks, map nodes    to places that no kept version refers to
//   barrier
//   version record       both copies
//   barrier              the version is durable; the oldest one's places are free
//
// What did not change is shared with the versions before. Nothing happens in the background but
// what the checkpointer does there.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "commit/engine.hpp"
#include "commit/page_set.hpp"
#include "commit/pins.hpp"
#include "commit/version_map.hpp"
#include "commit/write_buffers.hpp"
#include "region/region.hpp"

namespace perdura::commit {

/// What no version refers to any more once `version` is the oldest that is kept or read.
struct Retiring {
  u64 version;
  struct Place {
    u64 place;
    u64 length;
  };
  std::vector<Place> places;
};

/// What opening a region in chunks found. `space` knows what the kept versions use.
struct RecoveredVersions {
  std::vector<format::VersionRecord> kept;  ///< in rising order
  VersionMap map;                           ///< of the newest one
  std::list<Retiring> retiring;
};
/// Of the versions that read_versions found. With `pinned`, the lowest version that readers have:
/// where it is older than all of them nobody knows what it consists of, and all that is free may be
/// its own.
Result<RecoveredVersions> recover_versions(region::Volume& volume,
                                           const format::RegionRecord& region,
                                           const std::vector<FoundVersion>& found,
                                           region::ChunkSpace& space,
                                           u64 pinned = media::Medium::kNoPin);

class RemapEngine final : public Engine {
 public:
  struct Config {
    region::Volume* volume = nullptr;
    region::Region* region = nullptr;  ///< nullptr: versions are copied from elsewhere
    region::ChunkSpace* space = nullptr;
    format::RegionRecord record{};
    bool whole_chunks = false;
    const PageSet* withheld = nullptr;  ///< that are to be in no version: whole chunks
  };
  RemapEngine(const Config& config, RecoveredVersions recovered);

  /// Of an engine without a region, for a version whose chunks come from another store. Instead of
  /// begin() and a capture: begin_copy(), then any of these, then prepare().
  void begin_copy(u64 version, u64 backed_bytes, const format::VersionSource& source);
  Status copy_chunk(u64 index, const std::byte* bytes);
  /// The chunk lies there already: an attempt at this version that was cut short has written it,
  /// and nothing else has that place.
  Status adopt_chunk(u64 index, const format::ChunkEntry& entry);
  /// What was copied so far is found again by commit::read_progress(), as far as it is durable.
  Status save_progress();
  /// Of the version that is being copied, else the newest one.
  const VersionMap& map() const { return map_; }

  u64 unit_bytes() const override { return chunk_bytes_; }
  void begin(u64 version) override;
  Status capture_stopped(const track::DirtyMap& changes) override;
  Status capture(const track::DirtyMap& changes, Snapshot& snapshot) override;
  Status capture_selection(const Selection::Lines& lines) override;
  Status prepare() override;
  void publish() noexcept override;
  void discard() override;
  Status confirm() override;
  void keep_from(u64 version) override { kept_from_.store(version, std::memory_order_relaxed); }
  Written written() const override;
  Status finish(bool bring_home) override;
  void add_to(Statistics& statistics) const override;
  void reset_statistics() override;
  Findings findings() const override { return {}; }

 private:
  struct Change {
    u32 level;
    u64 index;
    format::ChunkEntry old;
  };

  void expect_chunks(u64 count);
  Result<std::byte*> room(u64 place, u64 length);
  /// `stays`: the bytes do, until buffers_ are drained.
  Status write_chunk(u64 index, const std::byte* bytes, bool stays = false);
  void set_entry(u32 level, u64 index, const format::ChunkEntry& entry);
  Status write_nodes();
  Status pad_nodes();
  format::VersionRecord make_record() const;
  Status write_record();
  void give_back(std::span<const Retiring::Place> places) noexcept;
  void retire();
  void retire_doubtful() noexcept;
  const std::byte* chunk_address(u64 index) const {
    return config_.region->base() + index * config_.record.chunk_bytes;
  }

  const Config config_;
  const u64 chunk_bytes_;
  media::Medium& medium_;
  VersionMap map_;  ///< of the newest durable version, and of the one that is written
  Pins pins_;
  std::list<Retiring> retiring_;
  std::list<Retiring> replaced_;  ///< of the version that may be published
  std::atomic<u64> kept_from_{kNoVersion};
  std::atomic<u64> durable_;  ///< the newest version; 0: none yet

  // --- of the version that is written
  Stage stage_;
  u64 version_ = 0;
  format::VersionSource source_{};
  std::vector<Change> changes_;  ///< of the map
  std::vector<Retiring::Place> taken_;
  u64 chunks_before_ = 0;
  bool record_begun_ = false;
  Written written_;
  /// Of attempts whose record may be on the medium: not to be given out before it is overwritten.
  std::vector<Retiring::Place> doubtful_;

  WriteBuffers buffers_;

  mutable std::mutex mutex_;  ///< what statistics reads
  u64 bytes_written_ = 0;
  u64 side_copies_ = 0;
};

}  // namespace perdura::commit
