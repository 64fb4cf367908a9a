// What a store on a RADOS cluster consists of. docs/format/rados.md describes it.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::format {

constexpr char kRadosMagic[8] = {'\x89', 'P', 'R', 'A', 'D', '\r', '\n', '\x1a'};
constexpr u32 kRadosVersion = 1;
/// Places and lengths of objects are multiples of it.
constexpr u64 kRadosUnitBytes = 4096;

/// The object "head": that there is a store in this namespace, and which objects are its own.
struct RadosHead {
  char magic[8];
  u64 checksum;  ///< of the bytes that follow it
  u32 version;
  u32 unit_bytes;
  u64 nonce;  ///< drawn when the store is created, part of the names of its objects
  u64 size;   ///< of the medium: no object is at or behind this place
};
static_assert(sizeof(RadosHead) == 40);
static_assert(offsetof(RadosHead, version) == 16);
static_assert(offsetof(RadosHead, nonce) == 24);

/// Behind the data of each other object.
struct RadosObjectEnd {
  u64 checksum;  ///< of a RadosObjectSummed
};
static_assert(sizeof(RadosObjectEnd) == 8);

struct RadosObjectSummed {
  u64 data_checksum;
  u64 place;  ///< at that of another it is no object
};
static_assert(sizeof(RadosObjectSummed) == 16);

}  // namespace perdura::format
