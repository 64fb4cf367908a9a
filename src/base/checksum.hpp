// The checksum of every durable byte: XXH3, 64 bits.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura {

u64 checksum(const void* data, size_t length) noexcept;

/// The checksum of the array of the checksums of each `piece_bytes` of the data, of 512 pieces at
/// most: a block of the log has fewer.
u64 pieces_checksum(const void* data, size_t length, size_t piece_bytes) noexcept;

/// The checksum of one 64 B line at a place; 0 for a line of zeros, so that space never written
/// has the sum 0.
u64 line_checksum(const void* line, u64 line_number) noexcept;

/// The sum of a page's line checksums modulo 2^64. Lines can be exchanged without reading the
/// rest of the page: sum - old line + new line.
u64 page_checksum(const void* page, u64 first_line_number) noexcept;

}  // namespace perdura
