// What a store on a memcached server consists of. docs/format/memcached.md describes it.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::format {

constexpr char kMemcachedMagic[8] = {'\x89', 'P', 'M', 'E', 'M', '\r', '\n', '\x1a'};
constexpr u32 kMemcachedVersion = 2;
/// Places and lengths of objects are multiples of it.
constexpr u64 kMemcachedUnitBytes = 4096;
/// An object is in items of so much, the last one of what is left: a server takes no larger ones
/// than 1 MiB unless it is told to.
constexpr u64 kMemcachedItemDataBytesMax = 256 * kKiB;

/// The head item: that there is a medium of this name, and which objects are its own.
struct MemcachedHead {
  char magic[8];
  u64 checksum;  ///< of the bytes that follow it
  u32 version;
  u32 unit_bytes;
  u64 nonce;      ///< drawn when the medium is created, part of the keys of its objects
  u64 size;       ///< of the medium: no object is at or behind this place
  u64 items_end;  ///< no item of a place at or behind this one is there
};
static_assert(sizeof(MemcachedHead) == 48);
static_assert(offsetof(MemcachedHead, version) == 16);
static_assert(offsetof(MemcachedHead, nonce) == 24);

/// An item of an object: its data, then this.
struct MemcachedItemEnd {
  u64 checksum;  ///< of a MemcachedItemSummed
};
static_assert(sizeof(MemcachedItemEnd) == 8);

struct MemcachedItemSummed {
  u64 data_checksum;
  u64 place;  ///< in that of another it is no item
};
static_assert(sizeof(MemcachedItemSummed) == 16);

}  // namespace perdura::format
