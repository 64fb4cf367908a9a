#include "commit/remap_engine.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"

namespace perdura::commit {
namespace {

using format::ChunkEntry;
using format::kNodeBytes;
using format::kNodeEntries;
using format::VersionRecord;

u64 length_at(u32 level, u64 chunk_bytes) { return level == 0 ? chunk_bytes : kNodeBytes; }

}  // namespace

// From the newest version to the oldest: what was seen before is shared, and what a version has
// first goes with it.
Result<RecoveredVersions> recover_versions(region::Volume& volume,
                                           const format::RegionRecord& region,
                                           const std::vector<FoundVersion>& found,
                                           region::ChunkSpace& space, u64 pinned) {
  RecoveredVersions recovered;
  MapReader reader(volume, space);
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    const VersionRecord& record = each->record;
    const bool newest = each == found.rbegin();
    Retiring retiring{record.version + 1, {}};
    if (newest) recovered.map.resize(record.backed_bytes / region.chunk_bytes);
    const Status walked =
        reader.walk(record, [&](u32 level, u64 index, const ChunkEntry& entry) -> Result<bool> {
          const u64 length = length_at(level, region.chunk_bytes);
          const bool first = space.adopt(entry.place, length);
          if (newest && !first)
            return Failure{Code::kCorrupt,
                           "the map of version " + std::to_string(record.version) + " of '" +
                               volume.name() + "' has two parts of the region at medium offset " +
                               std::to_string(entry.place) + "; restore the store from a copy"};
          if (newest) recovered.map.at(level, index) = entry;
          else if (first) retiring.places.push_back({entry.place, length});
          return first;
        });
    // Rot in the map of an older version takes that version, and keeps nobody from the others.
    if (!walked && (newest || walked.failure().code != Code::kCorrupt)) return walked.failure();
    if (walked) recovered.kept.insert(recovered.kept.begin(), record);
    if (!newest) recovered.retiring.push_front(std::move(retiring));
  }
  if (const u64 oldest = found.empty() ? 0 : found.front().record.version; pinned < oldest) {
    Retiring unknown{oldest, {}};
    for (const region::ChunkSpace::Free& each : space.take_all_free())
      unknown.places.push_back({each.place, each.length});
    recovered.retiring.push_front(std::move(unknown));
  }
  return recovered;
}

// --- making a version ---------------------------------------------------------------------------

RemapEngine::RemapEngine(const Config& config, RecoveredVersions recovered)
    : config_(config),
      chunk_bytes_(config.record.chunk_bytes),
      medium_(config.volume->medium()),
      map_(std::move(recovered.map)),
      pins_(medium_, config.record.region),
      retiring_(std::move(recovered.retiring)),
      durable_(recovered.kept.empty() ? 0 : recovered.kept.back().version),
      buffers_(medium_, chunk_bytes_, PERDURA_SITE("chunks")) {}

void RemapEngine::begin(u64 version) {
  stage_.begin();
  retire();  // readers may have gone, and their space may be all that there is
  version_ = version;
  changes_.clear();
  taken_.clear();
  record_begun_ = false;
  written_ = {};
  chunks_before_ = map_.chunks();
}

void RemapEngine::expect_chunks(u64 count) {
  // In the background it may have grown since the cut, by what is zero in this version.
  const auto home = config_.region->home();  // which growth replaces
  const auto& extents = home->extents();
  const u64 backed = extents.empty() ? 0 : extents.back().region_offset + extents.back().length;
  map_.resize(std::max(map_.chunks(), backed / chunk_bytes_));
  // What it takes to undo an entry is there before the entry changes.
  const u64 entries = count * (map_.levels() + 2);
  changes_.reserve(entries);
  taken_.reserve(entries);
}

// Memory for what goes to `place` next.
Result<std::byte*> RemapEngine::room(u64 place, u64 length) {
  written_.bytes += length;
  return buffers_.room(place, length);
}

void RemapEngine::set_entry(u32 level, u64 index, const ChunkEntry& entry) {
  ChunkEntry& at = map_.at(level, index);
  changes_.push_back({level, index, at});
  at = entry;
}

Status RemapEngine::write_chunk(u64 index, const std::byte* bytes, bool stays) {
  if (config_.withheld != nullptr &&
      config_.withheld->contains(index * (chunk_bytes_ / kPageBytes)))
    return {};
  written_.changed_bytes += chunk_bytes_;
  if (is_zero(bytes, chunk_bytes_)) {
    set_entry(0, index, {});
    return {};
  }
  PERDURA_ASSIGN(const u64 place, config_.space->take_chunk());
  taken_.push_back({place, chunk_bytes_});
  if (stays) {
    written_.bytes += chunk_bytes_;
    set_entry(0, index, {place, checksum(bytes, chunk_bytes_)});
    return buffers_.write(place, {bytes, chunk_bytes_});
  }
  PERDURA_ASSIGN(std::byte* const to, room(place, chunk_bytes_));
  std::memcpy(to, bytes, chunk_bytes_);
  set_entry(0, index, {place, checksum(to, chunk_bytes_)});
  return {};
}

Status RemapEngine::capture_stopped(const track::DirtyMap& changes) {
  stage_.capture();
  const std::vector<u64> chunks = units_of(changes, chunk_bytes_);
  expect_chunks(chunks.size());
  for (const u64 index : chunks) PERDURA_TRY(write_chunk(index, chunk_address(index)));
  return buffers_.flush();
}

Status RemapEngine::capture(const track::DirtyMap& changes, Snapshot& snapshot) {
  stage_.capture();
  const std::vector<u64> chunks = units_of(changes, chunk_bytes_);
  expect_chunks(chunks.size());
  const bool stays = snapshot.keeps_units();
  Status written = guarded([&] {
    return snapshot.write_units(chunks, [&](u64 index, const std::byte* bytes) {
      return write_chunk(index, bytes, stays);
    });
  });
  // It is closed next, and its bytes are those of the next one then.
  if (stays && written) written = buffers_.drain();
  if (stays && !written) buffers_.abandon();
  {
    std::lock_guard lock(mutex_);
    side_copies_ += snapshot.side_copies();
  }
  PERDURA_TRY(written);
  return buffers_.flush();
}

Status RemapEngine::capture_selection(const Selection::Lines&) {
  return Failure{Code::kUnsupported,
                 "'" + config_.volume->name() +
                     "' keeps its region in chunks, so no object of it can become durable by "
                     "itself; use a store with a redo log"};
}

// --- copies of other stores' versions ------------------------------------------------------------

void RemapEngine::begin_copy(u64 version, u64 backed_bytes, const format::VersionSource& source) {
  begin(version);
  stage_.capture();
  source_ = source;
  map_.resize(std::max(map_.chunks(), backed_bytes / chunk_bytes_));
}

// No mutator waits, so that memory to undo it is taken as it comes.
Status RemapEngine::copy_chunk(u64 index, const std::byte* bytes) {
  if (changes_.size() == changes_.capacity()) changes_.reserve(2 * changes_.size() + 64);
  if (taken_.size() == taken_.capacity()) taken_.reserve(2 * taken_.size() + 64);
  return write_chunk(index, bytes);
}

Status RemapEngine::adopt_chunk(u64 index, const ChunkEntry& entry) {
  taken_.push_back({entry.place, chunk_bytes_});
  set_entry(0, index, entry);
  return {};
}

// Without barriers: whoever finds it compares each chunk.
Status RemapEngine::save_progress() {
  PERDURA_TRY(write_nodes());
  PERDURA_TRY(buffers_.drain());
  return write_progress(*config_.volume, config_.record, make_record());
}

// --- commit -------------------------------------------------------------------------------------

Status RemapEngine::write_nodes() {
  if (map_.levels() == 0) return {};
  std::vector<u64> dirty;
  const bool deeper = map_.levels() != format::levels_for(chunks_before_);
  for (u32 level = 1; level <= map_.levels(); ++level) {
    dirty.clear();
    // A map that has become deeper has nodes where the record had entries.
    if (deeper && level > format::levels_for(chunks_before_)) {
      for (u64 i = 0; i < map_.level(level).size(); ++i) dirty.push_back(i);
    } else {
      for (const Change& change : changes_)
        if (change.level == level - 1) dirty.push_back(change.index / kNodeEntries);
      std::sort(dirty.begin(), dirty.end());
      dirty.erase(std::unique(dirty.begin(), dirty.end()), dirty.end());
    }
    changes_.reserve(changes_.size() + dirty.size());
    taken_.reserve(taken_.size() + dirty.size());
    for (const u64 node : dirty) {
      alignas(kNodeBytes) std::byte bytes[kNodeBytes];
      map_.fill_node(level - 1, node, bytes);
      if (is_zero(bytes, kNodeBytes)) {
        set_entry(level, node, {});
        continue;
      }
      PERDURA_ASSIGN(const u64 place, config_.space->take_node());
      taken_.push_back({place, kNodeBytes});
      PERDURA_ASSIGN(std::byte* const to, room(place, kNodeBytes));
      std::memcpy(to, bytes, kNodeBytes);
      set_entry(level, node, {place, checksum(bytes, kNodeBytes)});
    }
  }
  return {};
}

Status RemapEngine::pad_nodes() {
  const region::ChunkSpace::Rest rest = config_.space->end_node_chunk();
  for (u64 at = 0; at < rest.length; at += kNodeBytes) {
    PERDURA_ASSIGN(std::byte* const to, room(rest.place + at, kNodeBytes));
    std::memset(to, 0, kNodeBytes);
  }
  return {};
}

Status RemapEngine::prepare() {
  stage_.prepare();
  PERDURA_TRY(medium_.check_named());
  PERDURA_TRY(write_nodes());
  if (config_.whole_chunks) PERDURA_TRY(pad_nodes());
  PERDURA_TRY(buffers_.drain());
  replaced_.assign(1, {version_, {}});
  Retiring& replaced = replaced_.front();
  replaced.places.reserve(changes_.size() + doubtful_.size());
  for (const Change& change : changes_)
    if (change.old.place != 0)
      replaced.places.push_back({change.old.place, length_at(change.level, chunk_bytes_)});
  // Barrier: all that the version consists of is durable before a record says that there is one.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("chunks and map")));
  PERDURA_TRY(write_record());
  stage_.prepared();
  return {};
}

void RemapEngine::publish() noexcept {
  stage_.publish();
  durable_ = version_;
  retiring_.splice(retiring_.end(), replaced_);
  retire_doubtful();
  retire();
  std::lock_guard lock(mutex_);
  bytes_written_ += written_.bytes;
}

VersionRecord RemapEngine::make_record() const {
  VersionRecord record{};
  record.magic = format::kVersionMagic;
  record.region = config_.record.region;
  record.store_id = config_.volume->store_id();
  record.version = version_;
  record.backed_bytes = map_.chunks() * chunk_bytes_;
  record.changed_chunks = written_.changed_bytes / chunk_bytes_;
  record.changed_bytes = written_.bytes;
  record.levels = map_.levels();
  record.chunk_bytes = config_.record.chunk_bytes;
  record.source = source_;
  const std::vector<ChunkEntry>& top = map_.level(map_.levels());
  std::copy(top.begin(), top.end(), record.top);
  return record;
}

Status RemapEngine::write_record() {
  doubtful_.reserve(doubtful_.size() + taken_.size());
  record_begun_ = true;
  return write_version(*config_.volume, config_.record, make_record());
}

void RemapEngine::give_back(std::span<const Retiring::Place> places) noexcept {
  for (const Retiring::Place& each : places) {
    buffers_.queue().erase(each.place, each.length);
    config_.space->release(each.place, each.length);
  }
}

// Nobody finds them any more; but who has pinned the number may have found them before.
void RemapEngine::retire_doubtful() noexcept {
  if (pins_.lowest() < version_) return;  // they stay as long as there are readers
  give_back(doubtful_);
  doubtful_.clear();
}

void RemapEngine::retire() {
  const u64 kept = config_.record.versions_kept;
  const u64 kept_from = std::min(kept_from_.load(std::memory_order_relaxed), pins_.lowest());
  while (!retiring_.empty() && retiring_.front().version + kept <= durable_ + 1 &&
         retiring_.front().version <= kept_from) {
    give_back(retiring_.front().places);
    retiring_.pop_front();
  }
}

void RemapEngine::discard() {
  stage_.discard();
  buffers_.abandon();
  replaced_.clear();
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
    map_.at(change->level, change->index) = change->old;
  map_.resize(chunks_before_);
  if (record_begun_) {
    pins_.note_failed(version_);
    doubtful_.insert(doubtful_.end(), taken_.begin(), taken_.end());
  } else {
    give_back(taken_);
  }
  changes_.clear();
  taken_.clear();
}

Engine::Written RemapEngine::written() const { return written_; }

// The superblock learns which version there is at least: then no damage to records can hide it.
Status RemapEngine::confirm() {
  const u64 durable = durable_;
  if (durable <= config_.volume->replayed_version(config_.record.region)) return {};
  return config_.volume->set_newest(config_.record.region, durable);
}

Status RemapEngine::finish(bool bring_home) { return bring_home ? confirm() : Status{}; }

void RemapEngine::add_to(Statistics& statistics) const {
  std::lock_guard lock(mutex_);
  statistics.log_bytes = bytes_written_;
  statistics.side_copies = side_copies_;
}

void RemapEngine::reset_statistics() {
  std::lock_guard lock(mutex_);
  bytes_written_ = side_copies_ = 0;
}

}  // namespace perdura::commit
