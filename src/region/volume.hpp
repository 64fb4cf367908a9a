// A medium with a superblock and a directory: which regions exist and where their bytes live.
//
// Invariants:
//  - The superblock slot with the higher sequence whose directory is whole describes the store.
//  - Extents never overlap; space of no extent is free.
//  - An extent is in the durable directory before anything durable refers to it, and leaves the
//    directory before its space is given to another.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "format/format.hpp"
#include "media/medium.hpp"

namespace perdura::region {

u64 superblock_checksum(const format::Superblock& superblock);
/// Which has no final zero where it is as long as it may be.
inline std::string_view region_name(const format::RegionRecord& record) {
  return {record.name, ::strnlen(record.name, sizeof record.name)};
}

class Volume {
 public:
  /// Nothing was ever stored there: empty, or its creation was cut short before the superblock.
  static Result<bool> is_blank(media::Medium& medium);
  /// Format a blank medium.
  static Result<std::unique_ptr<Volume>> create(std::unique_ptr<media::Medium> medium,
                                                u64 segment_bytes);
  /// Read and check a formatted one. Refuses, with a sentence that says which: a foreign file, a
  /// newer incompatible format, another architecture, a truncated or damaged store.
  static Result<std::unique_ptr<Volume>> open(std::unique_ptr<media::Medium> medium);
  /// The same, perhaps beside a process that writes: nothing is ever written.
  static Result<std::unique_ptr<Volume>> open_to_read(std::unique_ptr<media::Medium> medium);

  media::Medium& medium() { return *medium_; }
  /// Of a volume that has home images and logs.
  media::LinearMedium& linear() {
    PERDURA_ASSERT(medium_->linear() != nullptr);
    return *medium_->linear();
  }
  const std::string& name() const { return medium_->name(); }
  /// Who is told of what concerns all regions that are open.
  EventHub& events() { return *events_; }
  void set_events(std::shared_ptr<EventHub> events) { events_ = std::move(events); }
  u64 store_id() const;
  u64 segment_bytes() const { return superblock_.segment_bytes; }
  format::Superblock superblock() const;

  /// Of one that is open to be read: what its superblock and directory say now.
  Status look_again();
  bool is_read_only() const { return is_read_only_; }
  /// What look_again() can find changed: as long as it is the same, all extents are those that are
  /// known here, and no other process has opened the store to write.
  struct State {
    u64 session = 0;
    u64 directory_sequence = 0;
    bool operator==(const State&) const = default;
  };
  State state() const;

  /// Count this opening, of a region or to write to one, and sign the store as ours.
  Status begin_session();
  /// It has ended in order, with nothing in flight. When all have, the store is clean.
  Status end_session();

  // --- where several processes share it: each call under the lock that they share

  /// What another one has written counts here as well.
  Status refresh();
  /// This opening is part of a session that another process has begun.
  void join_session();
  /// One more session has been, which is returned: no earlier one had its number.
  Result<u64> count_session();

  /// A number and a name that no other has. One with chunks gets space for its version records.
  Status add_region(const format::RegionRecord& record);
  /// The same of one that a copy is written to: it has no version until finish_regions().
  /// `restores`: of a backup, whose original the store is going to be.
  Status add_unfinished_region(const format::RegionRecord& record, bool restores);
  bool is_unfinished(u32 region) const;
  /// A restore to it was begun, and not completed.
  bool is_unfinished_restore() const;
  /// kNotFound of one that is unfinished, with what to do about it.
  Status check_finished(const format::RegionRecord& record) const;
  /// The copies to these regions are complete, and durable: from now on they are what they hold.
  Status finish_regions(std::span<const u32> regions);
  /// Its space is free from then on. Nobody may use it; kLocked where somebody reads it.
  Status remove_region(u32 region);
  std::vector<format::RegionRecord> regions() const;
  /// Where a region is mapped from now on, if it can be.
  Status set_region_address(u32 region, u64 address);
  /// Of a region of objects: which store has those that it has no space for, by its id.
  Status set_region_overflow(u32 region, u64 store_id);
  std::vector<format::Extent> extents(format::ExtentKind kind) const;
  std::vector<format::Extent> extents(format::ExtentKind kind, u32 region) const;

  /// The start of the log segment that holds a medium offset.
  u64 segment_of(u64 medium_offset) const;

  /// Space for [region_offset, region_offset + length) of a region and its checksum table, once or
  /// twice as `kind` says (kHome, kCopies). Where a caller failed to use an earlier extent that
  /// holds region_offset, it gets that one again: each part of a region has one home.
  Result<format::Extent> allocate_home(u32 region, u64 region_offset, u64 length,
                                       format::ExtentKind kind = format::ExtentKind::kHome);
  /// `length` bytes for log segments of a region, prewritten and zero.
  Result<format::Extent> allocate_log(u32 region, u64 length);
  /// `length` bytes for chunks of a region, at a multiple of their size. They may hold anything.
  Result<format::Extent> allocate_chunks(const format::RegionRecord& record, u64 length);
  /// `length` bytes for objects of a region, zero and prewritten; kind kObjectHeads or kObjects.
  Result<format::Extent> allocate_objects(u32 region, format::ExtentKind kind, u64 length);
  /// Give back the log space [medium_offset, medium_offset + length).
  Status release_log(u64 medium_offset, u64 length);
  /// Give back the log space of these regions, of which nobody needs anything any more.
  Status release_logs(const std::vector<u32>& regions);
  /// All of them, by medium_offset.
  std::vector<format::Extent> extents() const;
  /// Let the store end behind its last extent. What the medium has beyond may go after that.
  Status end_at_last_extent();

  /// The store is another one from now on. Nothing may be durable that has its id elsewhere than
  /// in the superblock and is needed.
  Status set_identity(const u8 (&uuid)[16]);

  format::RegionState state(u32 region) const;
  u64 replayed_version(u32 region) const { return state(region).replayed_version; }
  /// The home image of `region` holds `version`, and its log segments before `live_generation` are
  /// no longer needed. The home image must be durable.
  Status set_replayed(u32 region, u64 version, u64 live_generation);
  /// `version` of a region in copies is the newest one; what it consists of must be durable. Where
  /// this fails the medium may say so or not, until the next time that it does not fail.
  Status set_newest(u32 region, u64 version);
  /// This version is durable: from now on one that is older cannot be taken for the newest one.
  Status confirm(u32 region, u64 version);
  /// Nothing of the region's log is needed by its next opening, if that is the next thing that
  /// happens to it.
  void note_ended_log(u32 region);
  /// Whether that was so when it was opened. Once: from now on the log is in use.
  bool take_ended_log(u32 region);
  /// The newest version of which the superblock knows that it was durable.
  u64 confirmed_version(u32 region) const;

 private:
  explicit Volume(std::unique_ptr<media::Medium> medium, bool is_read_only = false)
      : medium_(std::move(medium)), is_read_only_(is_read_only) {}

  Status add_region_locked(const format::RegionRecord& record);
  Status change_region(u32 region, const std::function<void(format::RegionRecord&)>& change);
  Status read_head();
  Status check_unread(u32 region) const;
  Status erase_extents(u32 region, std::span<const format::Extent> extents);
  Status read_directory(const format::Superblock& superblock);
  u64 features_of_regions() const;
  Status check_regions() const;
  Status check_extents() const;
  Status check_homes() const;
  bool has_region(const format::Extent& extent) const;
  Failure impossible_region(const format::RegionRecord& record) const;
  Failure impossible_extent(const format::Extent& extent) const;
  struct Space {
    u64 length;
    u64 alignment;
    bool cleared;     ///< it reads as zeros
    bool prewritten;  ///< later writes change no metadata of a file system
  };
  Result<u64> allocate(const Space& space);
  void insert_sorted(const format::Extent& extent);
  Result<format::Extent> allocate_prewritten(u32 region, format::ExtentKind kind, u64 length);
  Status add_mergeable(const format::Extent& extent);
  void merge_extents();
  Status exchange_extents(std::vector<format::Extent>& extents);
  Status clear(u64 offset, u64 length);
  void set_confirmed(u32 region, u64 version);
  Status write_directory();
  Status write_superblock();
  Status write_next_slot();

  mutable std::mutex mutex_;
  std::shared_ptr<EventHub> events_ = std::make_shared<EventHub>();
  std::unique_ptr<media::Medium> medium_;
  const bool is_read_only_;
  u64 sessions_ = 0;    ///< that have not ended in order
  u64 ended_logs_ = 0;  ///< a bit for each region, see take_ended_log()
  format::Superblock superblock_{};
  std::vector<format::RegionRecord> regions_;
  std::vector<format::Extent> extents_;  ///< sorted by medium_offset
};

}  // namespace perdura::region
