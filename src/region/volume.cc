#include "region/volume.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "media/lock.hpp"
#include "region/engine_rules.hpp"

namespace perdura::region {
namespace {

using format::DirectoryHeader;
using format::Extent;
using format::ExtentKind;
using format::RegionRecord;
using format::Superblock;

constexpr size_t kUncheckedBytes = offsetof(Superblock, format_version);

// Until a writer that updates the superblock all the time has been caught between two updates.
constexpr int kLooksMax = 100;
constexpr std::chrono::milliseconds kLookAgain(1);

// Whether the directory that a superblock refers to is whole, both in the medium's first bytes.
bool directory_fits(media::Medium& medium, const std::byte* head, const Superblock& superblock) {
  if (superblock.directory_slot > 1 || superblock.directory_bytes > format::kDirectoryBytes)
    return false;
  const u64 offset = format::kDirectoryOffset[superblock.directory_slot];
  return medium.whole(offset, head + offset, superblock.directory_bytes,
                      PERDURA_SITE("first directory"), [&](const std::byte* bytes) {
                        return checksum(bytes, superblock.directory_bytes) ==
                               superblock.directory_checksum;
                      });
}

size_t index_of(u32 region) {
  PERDURA_ASSERT(region != 0 && region <= format::kRegionsMax);
  return region - 1;
}

enum class SlotState { kWhole, kDamaged, kForeign };

struct Slot {
  SlotState state = SlotState::kForeign;
  Superblock superblock;
};

Slot inspect(media::Medium& medium, u64 offset, const std::byte* bytes) {
  Slot slot;
  const bool whole = medium.whole(
      offset, bytes, format::kSuperblockBytes, PERDURA_SITE("superblock"),
      [&](const std::byte* at) {
        std::memcpy(&slot.superblock, at, sizeof slot.superblock);
        if (std::memcmp(slot.superblock.magic, format::kMagic, sizeof format::kMagic) != 0)
          return false;
        const u64 actual = superblock_checksum(slot.superblock);
        // A machine of the other byte order stored the same sum with its bytes reversed.
        return slot.superblock.checksum == actual ||
               slot.superblock.checksum == __builtin_bswap64(actual);
      });
  std::memcpy(&slot.superblock, bytes, sizeof slot.superblock);
  if (whole) slot.state = SlotState::kWhole;
  else if (std::memcmp(slot.superblock.magic, format::kMagic, sizeof format::kMagic) == 0 ||
           slot.superblock.checksum == superblock_checksum(slot.superblock))
    slot.state = SlotState::kDamaged;  // also where that is the magic alone
  return slot;
}

// Whether a directory is in either of its places, as far as its header says that. It tells a store
// of which both superblocks are lost from a foreign file. Servers' media answer for themselves.
Result<bool> holds_directory(media::Medium& medium) {
  if (medium.linear() == nullptr || medium.geometry().size < format::kDataBegin) return false;
  AlignedBuffer page(kPageBytes);
  for (const u64 offset : format::kDirectoryOffset) {
    PERDURA_TRY(medium.read(offset, page.span()));
    DirectoryHeader header;
    std::memcpy(&header, page.data(), sizeof header);
    if (header.magic == format::kDirectoryMagic && header.region_count <= format::kRegionsMax &&
        header.extent_count <= format::kDirectoryBytes / sizeof(Extent) &&
        header.sequence <= format::kCounterMax)
      return true;
  }
  return false;
}

Status check_compatible(const std::string& name, const Superblock& superblock) {
  if (std::memcmp(superblock.architecture, format::kArchitecture, sizeof format::kArchitecture) !=
      0)
    return Failure{Code::kIncompatible,
                   "'" + name + "' was written on the architecture '" +
                       std::string(superblock.architecture, strnlen(superblock.architecture, 16)) +
                       "', this is '" + format::kArchitecture +
                       "': its pointers mean nothing here; open it on such a machine"};
  if (superblock.format_version < format::kFormatVersionMin ||
      superblock.format_version > format::kFormatVersion ||
      superblock.superblock_bytes != format::kSuperblockBytes)
    return Failure{Code::kIncompatible, "'" + name + "' has format version " +
                                            std::to_string(superblock.format_version) +
                                            ", this Perdura reads versions " +
                                            std::to_string(format::kFormatVersionMin) + " to " +
                                            std::to_string(format::kFormatVersion) +
                                            (superblock.format_version > format::kFormatVersion
                                                 ? "; use a newer Perdura"
                                                 : "; use the older Perdura that wrote it")};
  const u64 unknown = superblock.incompatible_features & ~format::kKnownIncompatible;
  if (unknown != 0)
    return Failure{Code::kIncompatible, "'" + name + "' uses format features (mask " +
                                            std::to_string(unknown) +
                                            ") that this Perdura does not know; use a newer one"};
  return {};
}

}  // namespace

u64 superblock_checksum(const Superblock& superblock) {
  return checksum(reinterpret_cast<const char*>(&superblock) + kUncheckedBytes,
                  sizeof superblock - kUncheckedBytes);
}

u64 Volume::store_id() const {
  u64 id = 0;
  std::memcpy(&id, superblock_.uuid, sizeof id);
  return id;
}

Superblock Volume::superblock() const {
  std::lock_guard lock(mutex_);
  return superblock_;
}

// What create() writes before its first barrier is the first directory and the superblock of it.
// Until that is whole the store never was.
Result<bool> Volume::is_blank(media::Medium& medium) {
  const u64 size = medium.geometry().size;
  if (size > format::kDataBegin) return false;
  if (size == 0) return true;
  AlignedBuffer head(size);
  PERDURA_TRY(medium.load_pages(0, head.first(size)));
  const auto is_unwritten = [&](u64 begin, u64 end) {
    begin = std::min(begin, size);
    end = std::min(end, size);
    return medium.whole(begin, head.data() + begin, end - begin, PERDURA_SITE("blank space"),
                        [&](const std::byte* bytes) { return is_zero(bytes, end - begin); });
  };
  if (is_unwritten(0, size)) return true;
  if (size != format::kDataBegin) return false;
  constexpr u64 kSuperblock = format::kSuperblockOffset[1];
  constexpr u64 kDirectory = format::kDirectoryOffset[1];
  const Slot first = inspect(medium, kSuperblock, head.data() + kSuperblock);
  return is_unwritten(0, kSuperblock) &&
         is_unwritten(kSuperblock + format::kSuperblockBytes, kDirectory) &&
         is_unwritten(kDirectory + sizeof(DirectoryHeader), size) &&
         !(first.state == SlotState::kWhole &&
           directory_fits(medium, head.data(), first.superblock));
}

Result<std::unique_ptr<Volume>> Volume::create(std::unique_ptr<media::Medium> medium,
                                               u64 segment_bytes) {
  std::unique_ptr<Volume> volume(new Volume(std::move(medium)));
  PERDURA_TRY(volume->medium_->grow(format::kDataBegin, true));
  Superblock& superblock = volume->superblock_;
  std::memcpy(superblock.magic, format::kMagic, sizeof format::kMagic);
  std::memcpy(superblock.architecture, format::kArchitecture, sizeof format::kArchitecture);
  superblock.superblock_bytes = format::kSuperblockBytes;
  superblock.segment_bytes = static_cast<u32>(segment_bytes);
  superblock.medium_bytes = format::kDataBegin;
  superblock.clean = 1;
  if (::getrandom(superblock.uuid, sizeof superblock.uuid, 0) != sizeof superblock.uuid)
    return system_failure(errno, "cannot draw a store id");
  PERDURA_TRY(volume->write_directory());
  return volume;
}

Result<std::unique_ptr<Volume>> Volume::open(std::unique_ptr<media::Medium> medium) {
  std::unique_ptr<Volume> volume(new Volume(std::move(medium)));
  PERDURA_TRY(volume->read_head());
  return volume;
}

Result<std::unique_ptr<Volume>> Volume::open_to_read(std::unique_ptr<media::Medium> medium) {
  std::unique_ptr<Volume> volume(new Volume(std::move(medium), true));
  PERDURA_TRY(volume->look_again());
  return volume;
}

// Each update replaces one superblock after the other, and a directory to which none refers. So
// beside a writer what does not fit was caught between two updates, and is whole a moment later.
Status Volume::look_again() {
  if (!is_read_only_) return {};  // who writes knows all that there is
  std::lock_guard lock(mutex_);
  for (int looks = 0;; ++looks) {
    const bool was_written = medium_->has_writer();
    Status read = guarded([this]() -> Status {
      PERDURA_TRY(medium_->look_again());
      return read_head();
    });
    const bool written = was_written || medium_->has_writer();
    if (read || !written || looks == kLooksMax) return read;
    std::this_thread::sleep_for(kLookAgain);
  }
}

Volume::State Volume::state() const {
  std::lock_guard lock(mutex_);
  return {superblock_.session, superblock_.directory_sequence};
}

Status Volume::read_head() {
  media::Medium& m = *medium_;
  const u64 size = m.geometry().size;
  const auto foreign = [&] {
    return Failure{Code::kForeign, "'" + name() +
                                       "' is not a Perdura store (its first bytes are not a "
                                       "superblock's); choose another path, or move it away"};
  };
  if (size < 2 * format::kSuperblockBytes) {
    AlignedBuffer head(format::kSuperblockBytes);
    if (size >= format::kSuperblockBytes) {
      PERDURA_TRY(m.read(0, head.first(format::kSuperblockBytes)));
      if (inspect(m, 0, head.data()).state != SlotState::kForeign)
        return Failure{Code::kCorrupt, "'" + name() + "' is truncated to " + std::to_string(size) +
                                           " bytes; restore it from a copy"};
    }
    return foreign();
  }
  AlignedBuffer head(2 * format::kSuperblockBytes);
  PERDURA_TRY(m.load_pages(0, head.span()));
  Slot slots[2] = {inspect(m, 0, head.data()),
                   inspect(m, format::kSuperblockBytes, head.data() + format::kSuperblockBytes)};
  if (slots[0].state == SlotState::kForeign && slots[1].state == SlotState::kForeign) {
    PERDURA_ASSIGN(const bool is_store, holds_directory(m));
    if (!is_store) return foreign();
  }
  if (slots[1].state == SlotState::kWhole &&
      (slots[0].state != SlotState::kWhole ||
       slots[1].superblock.sequence > slots[0].superblock.sequence))
    std::swap(slots[0], slots[1]);

  Status failed = Failure{Code::kCorrupt, "both superblocks of '" + name() +
                                              "' (offsets 0 and 4096) are damaged; restore the "
                                              "store from a copy"};
  for (const Slot& slot : slots) {
    if (slot.state != SlotState::kWhole) continue;
    PERDURA_TRY(check_compatible(name(), slot.superblock));
    if (slot.superblock.medium_bytes > size) {
      failed = Failure{Code::kCorrupt, "'" + name() + "' is truncated: " + std::to_string(size) +
                                           " of " + std::to_string(slot.superblock.medium_bytes) +
                                           " bytes are left; restore it from a copy"};
      continue;
    }
    // The directory is written with its superblock under one barrier: where it is torn, so was the
    // update, and the other slot describes the store.
    Status read = read_directory(slot.superblock);
    if (read || read.failure().code != Code::kCorrupt) return read;
    failed = read;
  }
  return failed;
}

Status Volume::begin_session() {
  std::lock_guard lock(mutex_);
  PERDURA_TRY(medium_->write(format::kOwnerOffset, media::describe_owner().bytes,
                             PERDURA_SITE("owner record")));
  if (sessions_ == 0 && superblock_.clean == 1 &&
      superblock_.ended_logs_session == superblock_.session)
    ended_logs_ = superblock_.ended_logs;
  superblock_.ended_logs_session = superblock_.ended_logs = 0;
  ++superblock_.session;
  superblock_.clean = 0;
  // A store of an earlier version becomes one of this: until the first slot that says so is whole,
  // the other one and its directory are as they were.
  PERDURA_TRY(superblock_.format_version == format::kFormatVersion ? write_superblock()
                                                                   : write_directory());
  ++sessions_;
  return {};
}

Status Volume::end_session() {
  std::lock_guard lock(mutex_);
  PERDURA_ASSERT(sessions_ != 0);
  if (--sessions_ != 0) return {};
  superblock_.clean = 1;
  superblock_.ended_logs_session = superblock_.session;
  superblock_.ended_logs = ended_logs_;
  return write_superblock();
}

Status Volume::refresh() {
  std::lock_guard lock(mutex_);
  return guarded([this]() -> Status {
    PERDURA_TRY(medium_->look_again());
    return read_head();
  });
}

void Volume::join_session() {
  std::lock_guard lock(mutex_);
  ++sessions_;
}

Result<u64> Volume::count_session() {
  std::lock_guard lock(mutex_);
  ++superblock_.session;
  PERDURA_TRY(write_superblock());
  return superblock_.session;
}

Status Volume::add_region(const RegionRecord& record) {
  std::lock_guard lock(mutex_);
  // Regions that are still to come may have this name.
  if (superblock_.unfinished != 0)
    return Failure{Code::kNotFound,
                   "'" + name() +
                       "' is not there as a whole yet, and gets no other regions: a copy to it was "
                       "begun and not completed; begin the same copy, backup or restore again, "
                       "which goes on where it was, or remove what there is with `perdura remove`"};
  return add_region_locked(record);
}

Status Volume::add_unfinished_region(const RegionRecord& record, bool restores) {
  std::lock_guard lock(mutex_);
  const u64 before = superblock_.unfinished, sequence = superblock_.sequence;
  superblock_.unfinished |= u64{1} << index_of(record.region);
  if (restores) superblock_.unfinished |= format::kUnfinishedRestore;
  Status added = add_region_locked(record);
  // Where the first slot has it already, the next update is to say so as well.
  if (!added && superblock_.sequence == sequence) superblock_.unfinished = before;
  return added;
}

bool Volume::is_unfinished_restore() const {
  std::lock_guard lock(mutex_);
  return (superblock_.unfinished & format::kUnfinishedRestore) != 0;
}

namespace {

// A restore is over with the last of its regions.
u64 without_region(u64 unfinished, u32 region) {
  unfinished &= ~(u64{1} << index_of(region));
  return unfinished == format::kUnfinishedRestore ? 0 : unfinished;
}

}  // namespace

bool Volume::is_unfinished(u32 region) const {
  std::lock_guard lock(mutex_);
  return (superblock_.unfinished >> index_of(region) & 1) != 0;
}

Status Volume::check_finished(const RegionRecord& record) const {
  if (!is_unfinished(record.region)) return {};
  return Failure{Code::kNotFound,
                 "region '" + std::string(region_name(record)) + "' of '" + name() +
                     "' has no version yet: a copy to it was begun and not completed; begin the "
                     "same copy, backup or restore again, which goes on where it was, or remove "
                     "the region with `perdura remove`"};
}

// One update for all of them: a store of several regions is there as a whole, or not yet.
Status Volume::finish_regions(std::span<const u32> regions) {
  std::lock_guard lock(mutex_);
  const Superblock before = superblock_;
  for (const u32 region : regions)
    superblock_.unfinished = without_region(superblock_.unfinished, region);
  if (superblock_.unfinished == before.unfinished) return {};
  superblock_.incompatible_features = features_of_regions();
  Status written = write_superblock();
  if (!written && superblock_.sequence == before.sequence) superblock_ = before;
  return written;
}

Status Volume::add_region_locked(const RegionRecord& record) {
  const std::vector<Extent> before = extents_;
  const u64 records_bytes = engine_rules(record).version_records_bytes(record);
  if (records_bytes != 0) {
    Extent records{ExtentKind::kVersions, record.region, 0, records_bytes, 0};
    PERDURA_ASSIGN(records.medium_offset, allocate({.length = records.length,
                                                    .alignment = format::kExtentUnit,
                                                    .cleared = true,
                                                    .prewritten = true}));
    insert_sorted(records);
  }
  regions_.push_back(record);
  superblock_.regions[index_of(record.region)] = {};
  superblock_.confirmed[index_of(record.region)] = 0;
  ended_logs_ &= ~(u64{1} << index_of(record.region));
  Status written = guarded([this] { return write_directory(); });
  if (!written) {
    regions_.pop_back();
    extents_ = before;
  }
  return written;
}

// Whoever pins a version looks at the directory afterwards. So once a directory without the region
// is durable a reader either is seen here, and gets its region back, or finds that it is gone.
Status Volume::remove_region(u32 region) {
  std::lock_guard lock(mutex_);
  PERDURA_TRY(check_unread(region));
  u64 unfinished = without_region(superblock_.unfinished, region);
  std::vector<RegionRecord> regions = regions_;
  std::vector<Extent> extents = extents_;
  std::erase_if(regions, [&](const RegionRecord& each) { return each.region == region; });
  std::erase_if(extents, [&](const Extent& each) { return each.region == region; });
  const auto exchange = [&] {
    regions.swap(regions_);
    extents.swap(extents_);
    std::swap(unfinished, superblock_.unfinished);
    return guarded([this] { return write_directory(); });
  };
  Status written = exchange();
  if (!written) {
    regions.swap(regions_);
    extents.swap(extents_);
    std::swap(unfinished, superblock_.unfinished);
    return written;
  }
  if (const Status unread = check_unread(region); !unread) {
    PERDURA_TRY(exchange());
    return copy_of(unread.failure());
  }
  return erase_extents(region, extents);
}

// Of a region that is gone, whose objects may be of any size.
Status Volume::erase_extents(u32 region, std::span<const Extent> extents) {
  if (!medium_->geometry().objects) return {};
  const std::unique_ptr<media::WriteQueue> queue = medium_->queue();
  for (const Extent& each : extents)
    if (each.region == region)
      for (u64 at = 0; at < each.length; at += kPageBytes)
        queue->erase(each.medium_offset + at, kPageBytes);
  return queue->drain();
}

Status Volume::check_unread(u32 region) const {
  if (medium_->lowest_pin(region, 0) == media::Medium::kNoPin) return {};
  return Failure{Code::kLocked, "region " + std::to_string(region) + " of '" + name() +
                                    "' is open to be read; close it there before it is removed"};
}

std::vector<RegionRecord> Volume::regions() const {
  std::lock_guard lock(mutex_);
  return regions_;
}

std::vector<Extent> Volume::extents(ExtentKind kind) const {
  std::lock_guard lock(mutex_);
  std::vector<Extent> found;
  for (const Extent& extent : extents_)
    if (extent.kind == kind) found.push_back(extent);
  return found;
}

std::vector<Extent> Volume::extents(ExtentKind kind, u32 region) const {
  std::vector<Extent> found = extents(kind);
  std::erase_if(found, [&](const Extent& extent) { return extent.region != region; });
  return found;
}

format::RegionState Volume::state(u32 region) const {
  std::lock_guard lock(mutex_);
  return superblock_.regions[index_of(region)];
}

Status Volume::change_region(u32 region, const std::function<void(RegionRecord&)>& change) {
  std::lock_guard lock(mutex_);
  const auto record = std::find_if(regions_.begin(), regions_.end(),
                                   [&](const RegionRecord& each) { return each.region == region; });
  PERDURA_ASSERT(record != regions_.end());
  const RegionRecord before = *record;
  change(*record);
  Status written = guarded([this] { return write_directory(); });
  if (!written) *record = before;
  return written;
}

Status Volume::set_identity(const u8 (&uuid)[16]) {
  std::lock_guard lock(mutex_);
  const Superblock before = superblock_;
  std::memcpy(superblock_.uuid, uuid, sizeof superblock_.uuid);
  Status written = write_superblock();
  // Where the first slot has it already the second one will get it with the next update.
  if (!written && superblock_.sequence == before.sequence) superblock_ = before;
  return written;
}

Status Volume::set_region_address(u32 region, u64 address) {
  return change_region(region, [&](RegionRecord& record) { record.address = address; });
}

Status Volume::set_region_overflow(u32 region, u64 store_id) {
  return change_region(region, [&](RegionRecord& record) {
    record.engine = format::EngineId::kObjectsOverflowing;
    record.chunk_bytes = format::overflow_mark(store_id);
  });
}

Status Volume::set_replayed(u32 region, u64 version, u64 live_generation) {
  std::lock_guard lock(mutex_);
  const u64 known = superblock_.regions[index_of(region)].replayed_version +
                    superblock_.confirmed[index_of(region)];
  superblock_.regions[index_of(region)] = {version, live_generation};
  set_confirmed(region, known);
  return write_superblock();
}

// Where it fails, later updates for other reasons say what was the newest one before.
Status Volume::set_newest(u32 region, u64 version) {
  std::lock_guard lock(mutex_);
  format::RegionState& state = superblock_.regions[index_of(region)];
  const format::RegionState before = std::exchange(state, {version, 0});
  Status written = write_superblock();
  if (!written) state = before;
  return written;
}

// As far as the superblock can say it.
void Volume::set_confirmed(u32 region, u64 version) {
  const u64 replayed = superblock_.regions[index_of(region)].replayed_version;
  const u64 behind = version - std::min(version, replayed);
  superblock_.confirmed[index_of(region)] =
      static_cast<u32>(std::min<u64>(behind, std::numeric_limits<u32>::max()));
}

void Volume::note_ended_log(u32 region) {
  std::lock_guard lock(mutex_);
  ended_logs_ |= u64{1} << index_of(region);
}

bool Volume::take_ended_log(u32 region) {
  std::lock_guard lock(mutex_);
  const u64 bit = u64{1} << index_of(region);
  const bool ended = (ended_logs_ & bit) != 0;
  ended_logs_ &= ~bit;
  return ended;
}

Status Volume::confirm(u32 region, u64 version) {
  std::lock_guard lock(mutex_);
  u32& confirmed = superblock_.confirmed[index_of(region)];
  const u32 before = confirmed;
  set_confirmed(region, version);
  Status written = confirmed > before ? write_superblock() : Status{};
  // Who tries again, before lines come home, must not find it said in memory alone.
  if (!written || confirmed < before) confirmed = before;
  return written;
}

u64 Volume::confirmed_version(u32 region) const {
  std::lock_guard lock(mutex_);
  return superblock_.regions[index_of(region)].replayed_version +
         superblock_.confirmed[index_of(region)];
}

// Both slots in turn: what happens to one of them later, the other says the same.
Status Volume::write_superblock() {
  PERDURA_ASSERT(!is_read_only_);
  PERDURA_TRY(write_next_slot());
  return write_next_slot();
}

// Barrier: a power failure tears one slot at most; and the superblock, with the directory it refers
// to, is durable before anything that relies on it is written.
Status Volume::write_next_slot() {
  ++superblock_.sequence;
  superblock_.checksum = superblock_checksum(superblock_);
  alignas(kPageBytes) std::byte page[format::kSuperblockBytes];
  std::memcpy(page, &superblock_, sizeof superblock_);
  Status written = guarded([&]() -> Status {
    PERDURA_TRY(medium_->write_record(format::kSuperblockOffset[superblock_.sequence & 1], page,
                                      PERDURA_SITE("superblock")));
    return medium_->barrier(PERDURA_SITE("superblock"));
  });
  // What failed is tried again in the same slot: the other one holds the last good state.
  if (!written) --superblock_.sequence;
  return written;
}

}  // namespace perdura::region
