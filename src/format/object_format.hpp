// Objects: what is done to them in a log, what they were at their last checkpoint in two copies
// (docs/format/object.md).
//
//   object   [head slot 0][head slot 1]  [copy 0]  [copy 1]  [log]  [archive]
//   slot     the head, and behind it who has the object, how often its places were written, and
//            which build of the program wrote it
//   copy     the state, and of objects with callers behind whole lines of it a record of each
//   log      [entry][entry] ... a circle of lines
//   archive  [block][block] ... of objects that keep all their calls
//
// An object that another one needed the space of has one copy in an overflow store. It has a log
// there only where it was moved by who could not run what was in that; else it has none until it
// comes home. The first copy at home is then the only one that is written: that in the overflow
// store, which is the same, stands in for the second one until the next checkpoint writes that.
//
// An object is the state that its resilient copy holds, and the entries of the log from the
// checkpoint on, up to the last mark, done one after the other. The archive has all calls before
// the checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/format.hpp"

namespace perdura::format {

constexpr u64 kObjectMagic = 0x7463656a624f6450;  // "PdObject"
constexpr u64 kObjectHeadBytes = 4096;            ///< distance of the two slots, written in turn
constexpr u64 kObjectHeadsBytes = 2 * kObjectHeadBytes;  ///< of a place in the table
constexpr u64 kObjectLogLinesMax = u64{1} << 24;
constexpr u64 kObjectBytesMax = u64{1} << 40;

constexpr u64 kObjectNameMax = 127;
constexpr u64 kObjectFunctionsBytesMax = kMiB;  ///< of their names
constexpr u64 kObjectFunctionsMax = 0xffff;     ///< entries have two bytes for their numbers

/// What is kept of an object's calls.
enum class ObjectHistory : u64 {
  kNone = 0,
  kLast = 1,  ///< of each caller how many, and the last answer
  kAll = 2,   ///< the same, and all calls with their answers, in an archive
};

/// A place in a region's table of objects is two slots: the whole one with the higher sequence
/// counts. Sequences go on from object to object of a place, so what an earlier one left never
/// counts again. A head that comes from another place goes on with the higher one of both; where a
/// crash leaves it in both places that with the higher sequence counts.
struct ObjectHead {
  u64 checksum;  ///< of the rest
  u64 magic;
  u64 sequence;       ///< more than the other slot's; its lowest bit says the slot
  u64 identity;       ///< no two objects of a region ever have the same
  u64 session;        ///< whose entries follow
  u64 bytes;          ///< of the state
  u64 checkpoint;     ///< LogCkpt: the index of the first line that the copy does not have
  u64 copy;           ///< the resilient one, 0 or 1; kObjectInOverflow: there is one, elsewhere
  u64 copy_checksum;  ///< of the array of checksums of its pages, the last one less than a page
  u64 copy_place[2];  ///< medium offsets; each of whole pages. In an overflow store: the one there,
                      ///< and that store's id
  u64 log_place;      ///< of one in an overflow store: there; 0: it has none
  u64 log_lines;      ///< a power of two; 0: the object was removed, and its space is free
  u64 functions_place;  ///< names of what entries may call, one behind the other, each with a zero
  u64 functions_bytes;
  u64 functions_checksum;
  u64 callers;            ///< records behind the state: a power of two, or none
  ObjectHistory history;  ///< none: no callers
  u64 archive_place;      ///< of whole pages; where there is no archive, the stand-in (below)
  u64 archive_lines;      ///< that it has room for; 0: there is none
  u64 archive_used;       ///< lines, from its beginning on: all calls before the checkpoint
  u64 archive_sum;        ///< the checksum of the last block; of none the identity. Where there is
                          ///< no archive, what ends a log in an overflow store (below)
  char name[kObjectNameMax + 1];  ///< unlike those of the region's others
  char type[kObjectNameMax + 1];  ///< of the state, as its program names it
};
static_assert(sizeof(ObjectHead) == 432);
static_assert(offsetof(ObjectHead, identity) == 24 && offsetof(ObjectHead, copy) == 56);
static_assert(offsetof(ObjectHead, log_place) == 88 && offsetof(ObjectHead, callers) == 128);
static_assert(offsetof(ObjectHead, archive_sum) == 168 && offsetof(ObjectHead, name) == 176);

/// Who has an object, or had it last: the process that wrote the head, which it follows in the same
/// write. Nothing is recovered from it. It counts where it is whole and of this head: of an object
/// that was removed it is empty, and a head that an earlier library has written has none.
struct ObjectOwner {
  u64 checksum;    ///< of the rest
  u64 sequence;    ///< of its head
  u64 pid;         ///< 0: nobody
  u64 start_time;  ///< of the process: field 22 of /proc/PID/stat
  u8 boot_id[16];  ///< of the start of the system in which there is that process
};
static_assert(sizeof(ObjectOwner) == 48);

/// How often an object's places were written, by it and by those that had them before; behind its
/// owner, and the same holds. The slots themselves were written as often as the sequence says,
/// where free places (below) do not say otherwise.
struct ObjectWear {
  u64 checksum;        ///< of the rest, and of the sequence of its head
  u64 copy_writes[2];  ///< checkpoints that were written at each copy's place
  u64 log_lines;       ///< lines of the log that were written at its place
};
static_assert(sizeof(ObjectWear) == 32);

constexpr u64 kObjectBuildTextMax = 103;
/// Which build of a program the entries of a head's session are of: behind the head in its slot, in
/// the same write. It counts where it is whole and of this head; where it is not, the other slot's
/// does, if that head is of the same session. A head that an earlier library has written has none.
struct ObjectBuild {
  u64 checksum;  ///< of the rest
  u64 sequence;  ///< of its head
  u64 sum;  ///< of the build ids of what the methods are in; 0: several builds, or none is known
  char text[kObjectBuildTextMax + 1];  ///< the same for people
};
static_assert(sizeof(ObjectBuild) == 128);

/// What a slot holds; free places, if it says any, and zeros.
struct ObjectSlot {
  ObjectHead head;
  ObjectOwner owner;
  ObjectWear wear;
  ObjectBuild build;
};
static_assert(offsetof(ObjectSlot, owner) == sizeof(ObjectHead));
static_assert(offsetof(ObjectSlot, build) == 512 && sizeof(ObjectSlot) == 640);
constexpr u64 kObjectBuildOffset = offsetof(ObjectSlot, build);

/// Space that was free when the head was written, or became so with it, and how often it was
/// written: that which was so most. It is no news where an object has it: then the higher number
/// counts. Or the head's own place in the table, and how often heads were written there, where the
/// sequence does not say so: a head that comes to another place goes on with its own sequence.
struct ObjectFreePlace {
  u64 place;  ///< medium offset
  u64 bytes;
  u64 writes;
};
constexpr u64 kObjectFreePlacesMax = 16;
/// Behind what a slot holds, where wear is levelled, or a head has come to its place; as many as
/// there are.
struct ObjectFreePlaces {
  u64 checksum;  ///< of the rest, and of the sequence of its head
  u64 count;     ///< not 0
  ObjectFreePlace places[kObjectFreePlacesMax];
};
static_assert(sizeof(ObjectFreePlaces) == 400);
static_assert(sizeof(ObjectSlot) + sizeof(ObjectFreePlaces) <= kObjectHeadBytes);

constexpr u64 kObjectInOverflow = 2;
constexpr bool is_in_overflow(const ObjectHead& head) { return head.copy == kObjectInOverflow; }
/// Of its copy_place, where the resilient copy lies.
constexpr u64 resilient_place(const ObjectHead& head) { return head.copy_place[head.copy & 1]; }

/// Where in the overflow store the copy lies that it came home from, and that is the same as the
/// resilient one: copy_place names a second one that is not written yet. 0: there is none, or the
/// object has an archive, and never goes there. Only the newest head's counts: when another one is
/// durable the place is free, and it may be another one's where a head still says so.
constexpr u64 stand_in_place(const ObjectHead& head) {
  const bool may_have = head.log_lines != 0 && head.archive_lines == 0 && !is_in_overflow(head);
  return may_have ? head.archive_place : 0;
}
constexpr void set_stand_in(ObjectHead& head, u64 place) {
  if (head.archive_lines == 0) head.archive_place = place;
}

/// Of an object whose log is in an overflow store as well: the index behind its last entry. Nothing
/// is appended there. 0: nobody knows, since an earlier library has written the head.
constexpr u64 overflow_log_end(const ObjectHead& head) {
  const bool has_log = is_in_overflow(head) && head.log_place != 0;
  return has_log && head.archive_sum != head.identity ? head.archive_sum : 0;
}
constexpr void set_overflow_log(ObjectHead& head, u64 place, u64 end) {
  head.log_place = place;
  head.archive_sum = place == 0 ? head.identity : end;
}

constexpr u64 kOverflowMagic = 0x6c667265764f6450;  // "PdOverfl"

/// At the beginning of the heads of an overflow store's region: the region whose objects it has
/// copies of. Written once, before there are any.
struct OverflowRecord {
  u64 checksum;  ///< of the rest
  u64 magic;
  u8 uuid[16];  ///< of the store that has their heads
  u64 region;   ///< there
};
static_assert(sizeof(OverflowRecord) == 40);

/// What a caller has called so far.
struct ObjectCaller {
  u32 potid;  ///< the program's name for it
  u32 answer_bytes;
  u64 calls;             ///< 0: the record is nobody's
  std::byte answer[48];  ///< to the last one
};
static_assert(sizeof(ObjectCaller) == kLineBytes);
static_assert(offsetof(ObjectCaller, calls) == 8 && offsetof(ObjectCaller, answer) == 16);
constexpr u64 kObjectCallersMax = u64{1} << 20;

/// Of a copy: the state, and what follows it.
constexpr u64 object_image_bytes(const ObjectHead& head) {
  if (head.callers == 0) return head.bytes;
  return round_up(head.bytes, kLineBytes) + head.callers * sizeof(ObjectCaller);
}

/// A call that is logged: this, its context, padding to whole lines.
struct ObjectEntry {
  u64 checksum;         ///< of a mark: of all lines of the group, and of where, of which object
                        ///< and in which session they are; else 0
  u64 index;            ///< of its first line, counted since the object was made
  u32 potid;            ///< the thread that called, as the program names it
  std::int32_t domain;  ///< what it works on; kDomainAll: all of the object
  u32 calls;            ///< how many this one stands for
  u16 function;         ///< in the object's table
  u16 lines;            ///< of it
  u32 group;            ///< 0: not a mark; else one more than the lines before it with its barrier
  u32 context_bytes;
};
static_assert(sizeof(ObjectEntry) == 40);
static_assert(offsetof(ObjectEntry, potid) == 16 && offsetof(ObjectEntry, calls) == 24);
static_assert(offsetof(ObjectEntry, function) == 28 && offsetof(ObjectEntry, group) == 32);
constexpr u64 kObjectContextMax = kMiB;
static_assert(kObjectContextMax / kLineBytes < 0xffff, "the lines of an entry");
constexpr std::int32_t kDomainAll = -1;

constexpr u64 object_entry_lines(u64 context_bytes) {
  return (sizeof(ObjectEntry) + context_bytes + kLineBytes - 1) / kLineBytes;
}

/// Calls that a checkpoint has, in their order. Behind this the columns, as they are or compressed
/// by zstd, and zeros to the end of the last line:
///
///   potid        u32 each   function      u16 each    contexts   one behind the other
///   domain       i32 each   answer_bytes  u16 each    answers    one behind the other
///   context_bytes  u32 each
///
/// Which lines of the log a call had follows from the sizes of the contexts before it.
struct ObjectArchiveBlock {
  u64 checksum;      ///< of the rest of the block's lines
  u64 previous;      ///< the checksum of the block before; of the first one the object's identity
  u64 begin;         ///< indices of lines of the log: the calls are those from here on
  u64 end;           ///< and before this
  u32 calls;         ///< not 0
  u32 raw_bytes;     ///< of the columns
  u32 stored_bytes;  ///< as many: they are not compressed
  u32 lines;         ///< of the block, with this
};
static_assert(sizeof(ObjectArchiveBlock) == 48);
static_assert(offsetof(ObjectArchiveBlock, end) == 24 && offsetof(ObjectArchiveBlock, lines) == 44);
constexpr u64 kObjectArchiveCallsMax = 16384;  ///< of a block
constexpr u64 kObjectArchiveRawMax = 4 * kMiB;
constexpr u64 kObjectArchiveLinesMax = u64{1} << 32;
constexpr u64 kObjectArchiveCallBytes = 16;  ///< of a call, beside its context and answer
/// In the place of a function: the object got another size, its context. It was never in the log.
constexpr u16 kObjectResized = 0xffff;

}  // namespace perdura::format
