#include "region/chunk_space.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace perdura::region {
namespace {
constexpr u64 kGrowthChunksMin = 4;
constexpr u64 kGrowthFraction = 8;
}  // namespace

ChunkSpace::ChunkSpace(Volume& volume, const format::RegionRecord& record, u32 over_provisioning,
                       bool read_only)
    : volume_(volume),
      record_(record),
      over_provisioning_(over_provisioning),
      read_only_(read_only),
      chunk_units_(record.chunk_bytes / kUnitBytes) {
  for (const format::Extent& extent : volume.extents(format::ExtentKind::kChunks, record.region)) {
    expect_piece(extent.length);
    add_piece(extent);
  }
  promised_bytes_ = units_ * kUnitBytes / (100 + over_provisioning) * 100;
}

// What it takes to know a piece is there before the piece is.
void ChunkSpace::expect_piece(u64 length) {
  pieces_.reserve(pieces_.size() + 1);
  used_.resize((units_ + length / kUnitBytes + 63) / 64);
}

void ChunkSpace::add_piece(const format::Extent& extent) noexcept {
  pieces_.push_back({extent.medium_offset, extent.length, units_});
  units_ += extent.length / kUnitBytes;
}

u64 ChunkSpace::unit_of(u64 place, u64 length) const {
  if (!is_aligned(place, length)) return kNone;
  for (const Piece& piece : pieces_)
    if (place >= piece.medium_offset && place - piece.medium_offset < piece.length)
      return piece.first_unit + (place - piece.medium_offset) / kUnitBytes;
  return kNone;
}

u64 ChunkSpace::place_of(u64 unit) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), unit,
                       [](u64 wanted, const Piece& piece) { return wanted < piece.first_unit; });
  const Piece& piece = *(after - 1);
  return piece.medium_offset + (unit - piece.first_unit) * kUnitBytes;
}

// Pieces are aligned to chunks, and no length is larger than one.
bool ChunkSpace::holds(u64 place, u64 length) const {
  std::lock_guard lock(mutex_);
  return unit_of(place, length) != kNone;
}

bool ChunkSpace::is_free(u64 first_unit, u64 count) const {
  for (u64 unit = first_unit; unit < first_unit + count;) {
    const u64 here = std::min(first_unit + count - unit, 64 - unit % 64);
    if ((used_[unit / 64] &
         bit_range(static_cast<unsigned>(unit % 64), static_cast<unsigned>(here))) != 0)
      return false;
    unit += here;
  }
  return true;
}

void ChunkSpace::mark(u64 first_unit, u64 count, bool used) {
  for (u64 unit = first_unit; unit < first_unit + count;) {
    const u64 here = std::min(first_unit + count - unit, 64 - unit % 64);
    const u64 bits = bit_range(static_cast<unsigned>(unit % 64), static_cast<unsigned>(here));
    if (used) used_[unit / 64] |= bits;
    else used_[unit / 64] &= ~bits;
    unit += here;
  }
}

bool ChunkSpace::adopt(u64 place, u64 length) {
  std::lock_guard lock(mutex_);
  const u64 unit = unit_of(place, length);
  PERDURA_ASSERT(unit != kNone);
  if (!is_free(unit, length / kUnitBytes)) return false;
  mark(unit, length / kUnitBytes, true);
  return true;
}

void ChunkSpace::release(u64 place, u64 length) {
  std::lock_guard lock(mutex_);
  const u64 unit = unit_of(place, length);
  PERDURA_ASSERT(unit != kNone);
  mark(unit, length / kUnitBytes, false);
}

std::vector<ChunkSpace::Free> ChunkSpace::take_all_free() {
  std::lock_guard lock(mutex_);
  std::vector<Free> taken;
  for (u64 chunk = 0; chunk < units_; chunk += chunk_units_) {
    if (is_free(chunk, chunk_units_)) {
      taken.push_back({place_of(chunk), chunk_units_ * kUnitBytes});
    } else {
      for (u64 unit = chunk; unit < chunk + chunk_units_; ++unit)
        if (is_free(unit, 1)) taken.push_back({place_of(unit), kUnitBytes});
    }
    mark(chunk, chunk_units_, true);
  }
  return taken;
}

u64 ChunkSpace::find_free_chunk() {
  const u64 chunks = units_ / chunk_units_;
  for (u64 i = 0, chunk = next_ / chunk_units_; i < chunks; ++i, ++chunk) {
    if (chunk >= chunks) chunk = 0;
    if (is_free(chunk * chunk_units_, chunk_units_)) return chunk * chunk_units_;
  }
  return kNone;
}

Result<u64> ChunkSpace::take_chunk_locked() {
  u64 unit = find_free_chunk();
  if (unit == kNone) {
    unit = units_;
    const u64 chunks = units_ / chunk_units_ / kGrowthFraction;
    Status grown = grow(std::max(chunks, kGrowthChunksMin));
    if (!grown && grown.failure().code == Code::kNoSpace) grown = grow(1);
    if (!grown) return grown.failure();
  }
  mark(unit, chunk_units_, true);
  next_ = unit + chunk_units_;
  return unit;
}

Result<u64> ChunkSpace::take_chunk() {
  std::lock_guard lock(mutex_);
  PERDURA_ASSIGN(const u64 unit, take_chunk_locked());
  return place_of(unit);
}

// All of a chunk of nodes is in use while nodes are added to it.
Result<u64> ChunkSpace::take_node() {
  std::lock_guard lock(mutex_);
  if (node_units_left_ == 0) {
    PERDURA_ASSIGN(node_unit_, take_chunk_locked());
    node_units_left_ = chunk_units_;
  }
  --node_units_left_;
  return place_of(node_unit_++);
}

ChunkSpace::Rest ChunkSpace::end_node_chunk() {
  std::lock_guard lock(mutex_);
  if (node_units_left_ == 0) return {};
  mark(node_unit_, node_units_left_, false);
  return {place_of(node_unit_), std::exchange(node_units_left_, 0) * kUnitBytes};
}

Status ChunkSpace::grow(u64 chunks) {
  const u64 length = chunks * record_.chunk_bytes;
  expect_piece(length);
  PERDURA_ASSIGN(const format::Extent extent, volume_.allocate_chunks(record_, length));
  PERDURA_ASSERT(extent.length == length);
  add_piece(extent);
  return {};
}

Status ChunkSpace::promise(u64 length) {
  if (read_only_) return {};
  std::lock_guard lock(mutex_);
  const u64 wanted = (promised_bytes_ + length) / 100 * (100 + over_provisioning_);
  const u64 have = units_ * kUnitBytes;
  if (wanted > have) PERDURA_TRY(grow((wanted - have) / record_.chunk_bytes + 1));
  promised_bytes_ += length;
  return {};
}

u64 ChunkSpace::total_bytes() const {
  std::lock_guard lock(mutex_);
  return units_ * kUnitBytes;
}

u64 ChunkSpace::free_bytes() const {
  std::lock_guard lock(mutex_);
  u64 used = 0;
  for (const u64 word : used_) used += static_cast<u64>(std::popcount(word));
  return (units_ - used) * kUnitBytes;
}

}  // namespace perdura::region
