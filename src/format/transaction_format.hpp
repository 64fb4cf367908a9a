// Transactions in a region's log (docs/format/transaction.md).
//
//   segment   [log block: kLogTransactions][record][record] ... [stale or zero ...]
//
// A segment that a thread fills with records begins with a log block of no version that spans all
// of it, so that whoever reads the log for versions steps over it.
#pragma once

#include "format/format.hpp"

namespace perdura::format {

/// LogBlockHeader::flags: records of one stream follow it, of which the first has its ticket as
/// sequence.
constexpr u32 kLogTransactions = 2;
constexpr u32 kRecordLayout = 4;  ///< LogBlockHeader::records

/// One record: this, its entries, padding to the medium's write unit. With two words that were
/// stored it is a line.
struct RecordHeader {
  u64 checksum;         ///< of the rest, and of where and in which use of the segment it lies
  u64 time;             ///< of its commit; no two of a region's have the same
  u64 durable_version;  ///< when it was made: with an older one it cannot be recovered
  u32 bytes;            ///< with entries, without padding
  u16 number;           ///< in its segment, from 0
  u16 behind;           ///< so many records before it were perhaps not durable when it was written
};
static_assert(sizeof(RecordHeader) == 32);
static_assert(offsetof(RecordHeader, durable_version) == 16 && offsetof(RecordHeader, bytes) == 24);
static_assert(offsetof(RecordHeader, number) == 28 && offsetof(RecordHeader, behind) == 30);
static_assert(kSegmentBytesMax / kLineBytes <= 0x10000, "numbers of a segment's records");
constexpr u64 kBehindMax = 0xffff;  ///< so many, or more

/// Before format version 4. Before version 3 there was no durable_version, but its lowest 16 bits
/// in the highest of sequence; then the segment's header names no session.
struct RecordHeaderV3 {
  u64 checksum;
  u64 time;
  u16 slot;  ///< the stream, of which the segment said nothing
  u16 behind;
  u32 bytes;
  u64 sequence;
  u64 durable_version;
};
static_assert(sizeof(RecordHeaderV3) == 40);
static_assert(offsetof(RecordHeaderV3, bytes) == 20 && offsetof(RecordHeaderV3, sequence) == 24);
constexpr u64 kRecordBytesV2 = 32;
constexpr u64 sequence_v2(u64 word) { return word & ((u64{1} << 48) - 1); }

// Entries are words: the first has a kind, a count and a place.
enum class EntryKind : u64 {
  kWords = 1,       ///< `count` words to be stored at a place, in words; they follow
  kAllocate = 2,    ///< a block at a place, in units of 16 bytes; two words follow
  kFree = 3,        ///< a block at a place, in units of 16 bytes
  kMaskedWord = 4,  ///< some bytes of a word at a place, in words; `count` has a bit for each
};
constexpr u64 kEntryCountMax = (u64{1} << 16) - 1;
constexpr u64 make_entry(EntryKind kind, u64 count, u64 place) {
  return static_cast<u64>(kind) << 60 | count << 44 | place;
}
constexpr EntryKind entry_kind(u64 word) { return static_cast<EntryKind>(word >> 60); }
constexpr u64 entry_count(u64 word) { return word >> 44 & kEntryCountMax; }
constexpr u64 entry_place(u64 word) { return word & ((u64{1} << 44) - 1); }
/// The bits of a word's bytes, from one bit for each, and back.
constexpr u64 mask_of_bytes(u64 bytes) {
  u64 mask = 0;
  for (unsigned i = 0; i < 8; ++i) mask |= (bytes >> i & 1) * (u64{0xff} << 8 * i);
  return mask;
}
constexpr u64 bytes_of_mask(u64 mask) {
  u64 bytes = 0;
  for (unsigned i = 0; i < 8; ++i) bytes |= (mask >> 8 * i & 1) << i;
  return bytes;
}
/// What a word that held `before` holds after a masked one was stored.
constexpr u64 store_masked(u64 before, u64 value, u64 bytes) {
  const u64 mask = mask_of_bytes(bytes);
  return (before & ~mask) | (value & mask);
}
// The words after kAllocate: first unit | units << 32; size class | type's tag << 32.

constexpr const char* kTransactionRoot = "perdura.transactions";
constexpr u32 kTransactionSlots = 256;

/// The root of a region with transactions. What it says is of the same version as all else.
struct TransactionState {
  u64 version;  ///< of this layout
  u64 reserved[7];
  struct alignas(64) Slot {
    u64 time;      ///< of the slot's last transaction that the region holds
    u64 sequence;  ///< of the same
  } slots[kTransactionSlots];
};
/// 1: records did not say on which version they rely; 2: they said its lowest 16 bits, and were not
/// bound to the session that wrote them; 3: they said stream and sequence themselves.
constexpr u64 kTransactionVersion = 4;
constexpr u64 kTransactionVersionMin = 2;  ///< that is taken over
static_assert(sizeof(TransactionState) == 64 + 64 * kTransactionSlots);
static_assert(offsetof(TransactionState, slots) == 64);

}  // namespace perdura::format
