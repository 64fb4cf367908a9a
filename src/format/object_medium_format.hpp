// What media of objects have in common: docs/format/memcached.md, rados.md and s3.md describe each.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::format {

/// Places and lengths of objects are multiples of it.
constexpr u64 kObjectUnitBytes = 4096;

/// How a head begins: that there is a medium of this name, and which objects are its own.
struct MediumHead {
  char magic[8];
  u64 checksum;  ///< of the bytes of the head that follow it
  u32 version;
  u32 unit_bytes;
  u64 nonce;  ///< drawn when the medium is created, part of the names of its objects
  u64 size;   ///< of the medium: no object is at or behind this place
};
static_assert(sizeof(MediumHead) == 40);
static_assert(offsetof(MediumHead, version) == 16);
static_assert(offsetof(MediumHead, nonce) == 24);

/// Behind the data of an object.
struct ObjectEnd {
  u64 checksum;  ///< of an ObjectSummed
};
static_assert(sizeof(ObjectEnd) == 8);

struct ObjectSummed {
  u64 data_checksum;
  u64 place;  ///< at that of another it is no object
};
static_assert(sizeof(ObjectSummed) == 16);

}  // namespace perdura::format
