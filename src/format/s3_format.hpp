// What a store on an S3 service consists of. docs/format/s3.md describes it.
#pragma once

#include <cstddef>

#include "format/object_medium_format.hpp"

namespace perdura::format {

constexpr char kS3Magic[8] = {'\x89', 'P', 'S', '3', 'L', '\r', '\n', '\x1a'};
constexpr u32 kS3Version = 1;

enum class S3EntryKind : u32 {
  kOpening = 1,  ///< somebody has opened the store: who that is
  kSize = 2,     ///< the medium has another size
  kPage = 3,     ///< what is at `place` now: a page, or nothing any more
  kClosed = 4,   ///< the opening is over
  kRemoved = 5,  ///< and the store is gone
};

/// An entry of the log, an object that nobody overwrites: this, S3Page[pages], and what its kind
/// says. The newest one says what the store is.
struct S3Entry {
  MediumHead head;  ///< the checksum is of all of the entry that follows it
  S3EntryKind kind;
  u32 pages;    ///< that are in the log, this one's with them
  u64 number;   ///< of the entry: in another one's place it is none
  u64 opening;  ///< by which of all openings, from 1
  u64 drawn;    ///< by that one: two have the same number of an opening if both made the store
  u64 opened;   ///< the number of that opening's entry
  u64 lease_s;  ///< of that opening
  u64 place;    ///< of a page
};
static_assert(sizeof(S3Entry) == 96);
static_assert(offsetof(S3Entry, number) == 48);

/// Which entry has the page at a place.
struct S3Page {
  u64 place;
  u64 number;
};
static_assert(sizeof(S3Page) == 16);

}  // namespace perdura::format
