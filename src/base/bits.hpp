// Arithmetic on sizes and bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace perdura {

using std::size_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u64 kLineBytes = 64;    ///< a cache line: the unit of logs
constexpr u64 kPageBytes = 4096;  ///< a page: the unit of home images and their checksums
constexpr u64 kLinesPerPage = kPageBytes / kLineBytes;
constexpr u64 kKiB = 1024;
constexpr u64 kMiB = 1024 * kKiB;
constexpr u64 kGiB = 1024 * kMiB;

/// `alignment` is a power of two.
constexpr u64 round_down(u64 value, u64 alignment) { return value & ~(alignment - 1); }
constexpr u64 round_up(u64 value, u64 alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr bool is_aligned(u64 value, u64 alignment) { return (value & (alignment - 1)) == 0; }

/// Bits [first, first + count) of a word; first is less than 64, first + count at most 64.
constexpr u64 bit_range(unsigned first, unsigned count) {
  return (count < 64 ? (u64{1} << count) - 1 : ~u64{0}) << first;
}

/// Whether all `length` bytes are zero.
inline bool is_zero(const void* bytes, size_t length) {
  const auto* const at = static_cast<const u8*>(bytes);
  return length == 0 || (at[0] == 0 && std::memcmp(at, at + 1, length - 1) == 0);
}

}  // namespace perdura
