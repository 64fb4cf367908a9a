// What a store on a memcached server consists of. docs/format/memcached.md describes it.
#pragma once

#include <cstddef>

#include "format/object_medium_format.hpp"

namespace perdura::format {

constexpr char kMemcachedMagic[8] = {'\x89', 'P', 'M', 'E', 'M', '\r', '\n', '\x1a'};
constexpr u32 kMemcachedVersion = 2;
/// An object is in items of so much, the last one of what is left: a server takes no larger ones
/// than 1 MiB unless it is told to.
constexpr u64 kMemcachedItemDataBytesMax = 256 * kKiB;

/// The head item, which begins as an MediumHead.
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
static_assert(offsetof(MemcachedHead, size) == offsetof(MediumHead, size));

}  // namespace perdura::format
