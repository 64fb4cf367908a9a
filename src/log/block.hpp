// Blocks: what the log holds of versions (format::LogBlockHeader).
#pragma once

#include <algorithm>

#include "format/format.hpp"

namespace perdura::log {

/// The largest that is written: enough for a disk. Four fill the largest segment exactly.
constexpr u64 kBlockBytes = 256 * kKiB;
static_assert(format::kSegmentBytesMax % kBlockBytes == 0);
/// Less than this at the end of a segment is left unused.
constexpr u64 kBlockBytesMin = 8 * kKiB;

/// A block's lines are written, and have checksums, in pieces of so many.
constexpr u64 kPieceLines = format::kLogPieceBytes / kLineBytes;
static_assert(format::kLogPieceBytes == kPageBytes);
static_assert(kBlockBytes <= 512 * format::kLogPieceBytes);

/// The lines that the blocks of a segment surely hold where no two lines follow each other
/// (VersionWriter::fits_piece).
constexpr u64 lines_of_segment(u64 segment_bytes) {
  constexpr u64 kPieceBytes = format::kLogPieceBytes + kPieceLines * sizeof(u64);
  const u64 block_bytes = std::min(kBlockBytes, segment_bytes);
  const u64 pieces = (block_bytes - sizeof(format::LogBlockHeader)) / kPieceBytes;
  return segment_bytes / block_bytes * pieces * kPieceLines;
}
/// Of all lines of a version's segments the last piece, which may have few, and the commit block
/// with what may be left unused before it take so many away.
constexpr u64 kLinesOfEnd = 4 * kPieceLines;
static_assert(3 * format::kLogPieceBytes >= kBlockBytesMin + kPageBytes);

/// Where a block of a committed version is.
struct BlockRef {
  u64 offset = 0;  ///< on the medium
  u32 run_count = 0;
  u32 data_bytes = 0;
  u32 block_bytes = 0;
};

/// The parts of a block in memory.
inline const std::byte* block_data(const std::byte* block) {
  return block + sizeof(format::LogBlockHeader);
}
inline const u64* block_runs(const std::byte* block, u64 data_bytes) {
  return reinterpret_cast<const u64*>(block_data(block) + data_bytes);
}

/// The checksum that a header should have.
u64 header_checksum(const format::LogBlockHeader& header);

}  // namespace perdura::log
