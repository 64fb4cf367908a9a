// The space of a volume: which of it nobody has, given to regions and given back.
#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "region/volume.hpp"

namespace perdura::region {

using format::Extent;
using format::ExtentKind;
using format::RegionRecord;

u64 Volume::segment_of(u64 medium_offset) const {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(extents_.begin(), extents_.end(), [&](const Extent& each) {
    return each.kind == ExtentKind::kLog && medium_offset < format::extent_end(each);
  });
  PERDURA_ASSERT(found != extents_.end() && found->medium_offset <= medium_offset);
  return found->medium_offset + round_down(medium_offset - found->medium_offset, segment_bytes());
}

Result<Extent> Volume::allocate_home(u32 region, u64 region_offset, u64 length, ExtentKind kind) {
  PERDURA_ASSERT(format::has_homes(kind));
  std::lock_guard lock(mutex_);
  for (const Extent& extent : extents_)
    if (extent.kind == kind && extent.region == region &&
        region_offset - extent.region_offset < extent.length)
      return extent;
  Extent extent{kind, region, region_offset, length, 0};
  PERDURA_ASSIGN(extent.medium_offset, allocate({.length = format::extent_bytes(extent),
                                                 .alignment = format::kExtentUnit,
                                                 .cleared = true,
                                                 .prewritten = false}));
  std::vector<Extent> before = extents_;
  insert_sorted(extent);
  if (Status written = guarded([this] { return write_directory(); }); !written) {
    extents_.swap(before);
    return written.failure();
  }
  return extent;
}

void Volume::insert_sorted(const Extent& extent) {
  const auto after = std::find_if(extents_.begin(), extents_.end(), [&](const Extent& each) {
    return each.medium_offset > extent.medium_offset;
  });
  extents_.insert(after, extent);
}

// Log segments, chunks and objects carry nothing behind them, so neighbours become one and the
// directory stays short.
void Volume::merge_extents() {
  const auto merges = [](const Extent& each) {
    return !format::has_homes(each.kind) && each.kind != ExtentKind::kVersions;
  };
  for (size_t i = 1; i < extents_.size();) {
    Extent& left = extents_[i - 1];
    if (merges(left) && left.kind == extents_[i].kind && left.region == extents_[i].region &&
        format::extent_end(left) == extents_[i].medium_offset) {
      left.length += extents_[i].length;
      extents_.erase(extents_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

Result<Extent> Volume::allocate_log(u32 region, u64 length) {
  return allocate_prewritten(region, ExtentKind::kLog, length);
}

Result<Extent> Volume::allocate_chunks(const RegionRecord& record, u64 length) {
  std::lock_guard lock(mutex_);
  Extent extent{ExtentKind::kChunks, record.region, 0, length, 0};
  PERDURA_ASSIGN(extent.medium_offset, allocate({.length = length,
                                                 .alignment = record.chunk_bytes,
                                                 .cleared = false,
                                                 .prewritten = false}));
  PERDURA_TRY(add_mergeable(extent));
  return extent;
}

Result<Extent> Volume::allocate_objects(u32 region, ExtentKind kind, u64 length) {
  PERDURA_ASSERT(kind == ExtentKind::kObjectHeads || kind == ExtentKind::kObjects);
  return allocate_prewritten(region, kind, length);
}

Result<Extent> Volume::allocate_prewritten(u32 region, ExtentKind kind, u64 length) {
  std::lock_guard lock(mutex_);
  Extent extent{kind, region, 0, length, 0};
  PERDURA_ASSIGN(extent.medium_offset, allocate({.length = length,
                                                 .alignment = format::kExtentUnit,
                                                 .cleared = true,
                                                 .prewritten = true}));
  PERDURA_TRY(add_mergeable(extent));
  return extent;
}

Status Volume::add_mergeable(const Extent& extent) {
  std::vector<Extent> before = extents_;
  insert_sorted(extent);
  merge_extents();
  Status written = guarded([this] { return write_directory(); });
  if (!written) extents_.swap(before);
  return written;
}

Status Volume::release_log(u64 medium_offset, u64 length) {
  std::lock_guard lock(mutex_);
  std::vector<Extent> before = extents_;
  extents_.reserve(extents_.size() + 1);
  const auto found = std::find_if(extents_.begin(), extents_.end(), [&](const Extent& each) {
    return each.kind == ExtentKind::kLog && format::extent_end(each) >= medium_offset + length;
  });
  PERDURA_ASSERT(found != extents_.end() && found->medium_offset <= medium_offset);
  Extent tail = *found;
  tail.medium_offset = medium_offset + length;
  tail.length = format::extent_end(*found) - tail.medium_offset;
  found->length = medium_offset - found->medium_offset;
  const auto index = found - extents_.begin();
  if (tail.length != 0) extents_.insert(found + 1, tail);
  if (extents_[static_cast<size_t>(index)].length == 0) extents_.erase(extents_.begin() + index);
  Status written = guarded([this] { return write_directory(); });
  if (!written) extents_.swap(before);
  return written;
}

Status Volume::exchange_extents(std::vector<Extent>& extents) {
  extents.swap(extents_);
  Status written = guarded([this] { return write_directory(); });
  if (!written) extents.swap(extents_);
  return written;
}

Status Volume::release_logs(const std::vector<u32>& regions) {
  std::lock_guard lock(mutex_);
  std::vector<Extent> kept = extents_;
  std::erase_if(kept, [&](const Extent& each) {
    return each.kind == ExtentKind::kLog && std::ranges::count(regions, each.region) != 0;
  });
  return kept.size() == extents_.size() ? Status{} : exchange_extents(kept);
}

std::vector<Extent> Volume::extents() const {
  std::lock_guard lock(mutex_);
  return extents_;
}

Status Volume::end_at_last_extent() {
  std::lock_guard lock(mutex_);
  const u64 before = superblock_.medium_bytes;
  const u64 end = extents_.empty() ? format::kDataBegin : format::extent_end(extents_.back());
  if (end >= before) return {};
  superblock_.medium_bytes = end;
  // Barrier in it, of both slots: none says that the medium is longer before it is cut off.
  Status written = write_superblock();
  if (!written) superblock_.medium_bytes = before;
  return written;
}

// First fit; else the medium grows.
Result<u64> Volume::allocate(const Space& space) {
  if (is_read_only_)
    return Failure{Code::kUnsupported, "'" + name() +
                                           "' is open to be read and gets no more space; open it "
                                           "to write"};
  u64 free_from = round_up(format::kDataBegin, space.alignment);
  for (const Extent& extent : extents_) {
    if (extent.medium_offset >= free_from && extent.medium_offset - free_from >= space.length) {
      // What a compaction has given back gets its space again before anything relies on it.
      PERDURA_TRY(medium_->have_space(free_from, space.length));
      // Space given back holds old bytes: a home image must read as zeros, and a log is better so.
      if (space.cleared) PERDURA_TRY(clear(free_from, space.length));
      return free_from;
    }
    free_from = std::max(free_from, round_up(format::extent_end(extent), space.alignment));
  }
  const u64 old_bytes = superblock_.medium_bytes;
  // The medium may be longer than the store: where growing was cut short, or something was
  // appended.
  const u64 existing_bytes = std::max(old_bytes, medium_->geometry().size);
  if (free_from < existing_bytes)
    PERDURA_TRY(medium_->have_space(free_from, std::min(space.length, existing_bytes - free_from)));
  if (space.cleared && free_from < existing_bytes)
    PERDURA_TRY(clear(free_from, std::min(space.length, existing_bytes - free_from)));
  if (old_bytes >= free_from + space.length) return free_from;
  PERDURA_TRY(medium_->grow(free_from + space.length, space.prewritten));
  superblock_.medium_bytes = free_from + space.length;
  return free_from;
}

Status Volume::clear(u64 offset, u64 length) {
  if (length == 0) return {};
  AlignedBuffer zeros(std::min(length, kMiB));
  std::memset(zeros.data(), 0, zeros.size());
  for (u64 done = 0; done < length;) {
    const u64 piece = std::min<u64>(length - done, zeros.size());
    PERDURA_TRY(
        medium_->write_pages(offset + done, zeros.first(piece), PERDURA_SITE("clear free space")));
    done += piece;
  }
  // Barrier: the old bytes are gone before a directory says that the space is a home image.
  return medium_->barrier(PERDURA_SITE("cleared space"));
}

}  // namespace perdura::region
