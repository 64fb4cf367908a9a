// What a store on a memcached server consists of. docs/format/memcached.md describes it.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::format {

constexpr char kMemcachedMagic[8] = {'\x89', 'P', 'M', 'E', 'M', '\r', '\n', '\x1a'};
constexpr u32 kMemcachedVersion = 1;
constexpr u64 kMemcachedBlockBytes = 4096;

/// The head item: that there is a medium of this name, and which blocks are its own.
struct MemcachedHead {
  char magic[8];
  u64 checksum;  ///< of the bytes that follow it
  u32 version;
  u32 block_bytes;
  u64 nonce;      ///< drawn when the medium is created, part of the keys of its blocks
  u64 size;       ///< of the medium, bytes
  u64 items_end;  ///< no block at or behind this offset has an item
};
static_assert(sizeof(MemcachedHead) == 48);
static_assert(offsetof(MemcachedHead, version) == 16);
static_assert(offsetof(MemcachedHead, nonce) == 24);

/// A block's item: the block itself, then this.
struct MemcachedBlockEnd {
  u64 checksum;  ///< of a MemcachedBlockSummed
};
static_assert(sizeof(MemcachedBlockEnd) == 8);
constexpr u64 kMemcachedItemBytes = kMemcachedBlockBytes + sizeof(MemcachedBlockEnd);

struct MemcachedBlockSummed {
  u64 data_checksum;
  u64 block;  ///< its number: in the place of another it is no block
};
static_assert(sizeof(MemcachedBlockSummed) == 16);

}  // namespace perdura::format
