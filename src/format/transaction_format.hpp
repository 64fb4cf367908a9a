// Transactions in a region's log (docs/format/transaction.md).
//
//   segment   [log block: kLogTransactions][record][record] ... [stale or zero ...]
//
// A segment that a thread fills with records begins with a log block of no version that spans all
// of it, so that whoever reads the log for versions steps over it.
#pragma once

#include "format/format.hpp"

namespace perdura::format {

/// LogBlockHeader::flags: records follow it, of which the first has its ticket as sequence.
constexpr u32 kLogTransactions = 2;

/// One transaction: this, its entries, padding to the medium's write unit.
struct TransactionRecord {
  u64 checksum;  ///< of the rest, and of where and in which use of the segment it lies
  u64 time;      ///< of its commit; no two of a region's have the same
  u16 slot;      ///< which stream of records (TransactionState)
  u16 behind;    ///< so many records before it were perhaps not durable when it was written
  u32 bytes;     ///< with entries, without padding
  u64 number;    ///< transaction_number: which of the slot's, and on what version it relies
};
static_assert(sizeof(TransactionRecord) == 32);

/// Of the slot's records, from 1, the sequence; of the version that was durable when the record was
/// made, the low 16 bits. An older one cannot be recovered with it, unless the log is damaged.
constexpr unsigned kVersionShift = 48;
constexpr u64 transaction_number(u64 sequence, u64 durable_version) {
  return durable_version << kVersionShift | sequence;
}
constexpr u64 transaction_sequence(u64 number) { return number & ((u64{1} << kVersionShift) - 1); }
constexpr bool relies_on_later(u64 number, u64 recovered_version) {
  return static_cast<std::int16_t>(
             static_cast<u16>((number >> kVersionShift) - recovered_version)) > 0;
}

// Entries are words: the first has a kind, a count and a place.
enum class EntryKind : u64 {
  kWords = 1,     ///< `count` words to be stored at a place, in words; they follow
  kAllocate = 2,  ///< a block at a place, in units of 16 bytes; two words follow
  kFree = 3,      ///< a block at a place, in units of 16 bytes
};
constexpr u64 kEntryCountMax = (u64{1} << 16) - 1;
constexpr u64 make_entry(EntryKind kind, u64 count, u64 place) {
  return static_cast<u64>(kind) << 60 | count << 44 | place;
}
constexpr EntryKind entry_kind(u64 word) { return static_cast<EntryKind>(word >> 60); }
constexpr u64 entry_count(u64 word) { return word >> 44 & kEntryCountMax; }
constexpr u64 entry_place(u64 word) { return word & ((u64{1} << 44) - 1); }
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
constexpr u64 kTransactionVersion = 2;  ///< 1: records did not say on which version they rely
static_assert(sizeof(TransactionState) == 64 + 64 * kTransactionSlots);

}  // namespace perdura::format
