// The log of an object: a circle of entries in memory, in the order in which calls claimed their
// places, which is the order in which they are done; and on the medium, to which whoever executes
// copies them.
//
//   index   0 ... free_end .. checkpoint .. done, durable .......... published ......... tail
//                 |<- a copy lacks them, in memory and on the medium ->|  claimed
//
// Groups are durable before they are done, or after it: which of the two says who executes.
//
// Invariants:
//  - free_end <= done, durable <= tail, and each only grows.
//  - The place of an entry in the circle is written by the thread that claimed it until that has
//    published it, and from then on by whoever executes, alone. Where calls are merged the thread
//    may change its entry until it is frozen.
//  - In a log that is closed no place is claimed: whoever tries is told, and whoever closes it
//    learns whether somebody had claimed one before. Both change tail, so one of them comes first.
//  - Where processes share the log a place is claimed and published in one step, under a lock that
//    is the next one's when its owner dies: so before tail() all is published, and a claim of who
//    died is none.
//  - Nothing from free_end on is overwritten, neither in memory nor on the medium; there a page
//    with a line of it is written again as it was, with more behind it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "base/asymmetric_fence.hpp"
#include "base/mapping.hpp"
#include "base/robust_mutex.hpp"
#include "format/object_format.hpp"
#include "media/medium.hpp"

namespace perdura::object {

constexpr u64 kMergedContextMax = 256;  ///< of a method whose calls are merged

/// Where an object's log is, and whose entries count there.
struct LogPlace {
  u64 offset = 0;    ///< on the medium; a page
  u64 lines = 0;     ///< a power of two, at least a page of them
  u64 identity = 0;  ///< of the object
  u64 session = 0;   ///< of those that are appended
};

/// What a call logs.
struct Call {
  u16 function = 0;
  std::uint32_t potid = 0;
  std::int32_t domain = format::kDomainAll;
  std::span<const std::byte> context{};
};

/// How far a log is. Lies in memory that processes may share.
struct LogCursors {
  void begin_at(u64 from, u64 room) {
    for (std::atomic<u64>* each : {&tail, &done, &durable, &free_end}) *each = from;
    room_end = room;
  }

  alignas(64) std::atomic<u64> tail{0};
  alignas(64) std::atomic<u64> done{0};
  std::atomic<u64> durable{0};
  std::atomic<u64> free_end{0};
  std::atomic<u64> room_end{0};  ///< no entry may lie behind it
  std::atomic<u64> frozen{0};
  u64 long_end = 0;  ///< behind the last entry seen that has several lines

  // --- where processes share it
  bool among_processes = false;
  alignas(64) RobustMutex claims;  ///< of whoever claims or merges
  /// An entry as it was before it is merged with, while that is under way.
  struct {
    std::atomic<u64> index;  ///< 0: none is
    u32 calls;
    std::byte context[kMergedContextMax];
  } before{};
};

/// Where a log is in memory: cursors that count already, or shall begin, and a circle of its lines.
struct LogMemory {
  LogCursors* cursors = nullptr;  ///< nullptr: it has its own
  std::byte* circle = nullptr;
  bool is_new = true;
};

class ObjectLog {
 public:
  /// `medium` and `memory` outlive it. `from`: where the first entry will be, not before
  /// kFirstIndex.
  static Result<std::unique_ptr<ObjectLog>> create(media::LinearMedium& medium,
                                                   const LogPlace& place, u64 from,
                                                   LogMemory memory = {});

  /// Memory begins as zeros, which are to be no entry.
  static constexpr u64 kFirstIndex = kLinesPerPage;

  /// Before anything is appended: entries may be merged with later calls.
  void have_merging() {
    if (!at_.among_processes) merging_ = std::make_unique<std::atomic<bool>[]>(place_.lines);
  }

  // --- any thread

  /// A place in the order of execution, for a call with a context of so many bytes. It is to be
  /// published, once there is room for it; or it is none, since the log is closed, for which there
  /// is never room.
  u64 claim(u64 context_bytes) {
    return at_.tail.fetch_add(format::object_entry_lines(context_bytes), std::memory_order_relaxed);
  }
  static bool is_none(u64 index) { return index >= kClosed; }
  /// While it lives nobody else claims a place, or changes an entry: where processes share the log.
  class Claiming {
   public:
    explicit Claiming(ObjectLog& log) : log_(log) {
      if (log_.at_.claims.lock() == Locked::kOwnerDied) log_.undo_merge();
    }
    ~Claiming() { log_.at_.claims.unlock(); }
    Claiming(const Claiming&) = delete;

   private:
    ObjectLog& log_;
  };
  /// The place at tail() is that of an entry that has been published there. Where nobody else
  /// claims.
  void claim_published(u64 context_bytes) {
    const u64 index = at_.tail.load(std::memory_order_relaxed);
    at_.tail.store(index + format::object_entry_lines(context_bytes), std::memory_order_release);
  }
  /// As claim(), if that place and all before it lie before `end`; else nothing.
  std::optional<u64> claim_before(u64 end, u64 context_bytes) {
    const u64 lines = format::object_entry_lines(context_bytes);
    u64 index = at_.tail.load(std::memory_order_relaxed);
    while (index + lines <= end)
      if (at_.tail.compare_exchange_weak(index, index + lines, std::memory_order_relaxed))
        return index;
    return std::nullopt;
  }
  /// Whether an entry of so many context bytes may be written at `index`: what was there before is
  /// free.
  bool has_room(u64 index, u64 context_bytes) const {
    return index + format::object_entry_lines(context_bytes) <=
           at_.room_end.load(std::memory_order_acquire);
  }
  /// Somebody who has claimed a place waits for room.
  bool is_full() const { return !has_room(tail(), 0); }
  /// `mergeable`: further calls may be merged into it, by this thread.
  void publish(u64 index, const Call& call, bool mergeable = false);
  /// Whoever has published the entry at `index` has its context changed by `change`, which says
  /// whether that stands for another call as well. Nothing happens where it is frozen.
  template <class Change>
  bool merge(u64 index, Change&& change);
  u64 tail() const {
    const u64 tail = at_.tail.load(std::memory_order_acquire);
    return is_none(tail) ? tail_of_closed() : tail;
  }
  u64 done() const { return at_.done.load(std::memory_order_acquire); }
  u64 durable() const { return at_.durable.load(std::memory_order_acquire); }
  u64 free_end() const { return at_.free_end.load(std::memory_order_acquire); }
  u64 lines() const { return place_.lines; }
  bool is_among_processes() const { return at_.among_processes; }

  // --- whoever executes, one thread at a time

  /// The entries from done() on that are published, without a gap.
  struct Published {
    u64 last;             ///< where the last of them begins
    u64 end;              ///< done(), where there are none
    u64 first_mergeable;  ///< the first one that its thread may change; `end`: none
  };
  Published published_from_done();
  /// None of these is merged with any more.
  void freeze(const Published& published);
  /// All entries from durable() to `end` are durable: one write, one barrier. `last` is where the
  /// last one begins, which becomes their mark.
  Status make_durable(u64 last, u64 end);
  /// The same in the paper's steps: what precedes the mark is durable before that is written.
  Status make_durable_in_two_steps(u64 last, u64 end);
  /// The entry at an index, whose context is read by context_of().
  const format::ObjectEntry& entry(u64 index) const {
    return *reinterpret_cast<const format::ObjectEntry*>(line(index));
  }
  /// The context of an entry, in one piece: where it lies, or in memory of this log's that the next
  /// call overwrites.
  const std::byte* context_of(u64 index) {
    if (is_in_one_piece(index)) [[likely]]
      return line(index) + sizeof(format::ObjectEntry);
    return copied_context_of(index);
  }
  /// Whether context_of() needs no memory for it.
  bool is_in_one_piece(u64 index) const {
    return offset_of(index) + sizeof(format::ObjectEntry) + entry(index).context_bytes <=
           circle_bytes();
  }
  bool fits_in_one_piece(u64 index, const Call& call) const {
    return offset_of(index) + sizeof(format::ObjectEntry) + call.context.size() <= circle_bytes();
  }
  void note_done(u64 index) {
    PERDURA_ASSERT(index >= done() && index <= tail());
    at_.done.store(index, std::memory_order_release);
  }
  /// Who executed has died: what it was about to write is to be written, and none of it is a group.
  void mend();
  /// The newest head's copy has all entries before `covered`: what of them is not durable yet is so
  /// with that. It is not written any more, and a group begins behind it: recovery goes on there.
  void note_covered(u64 covered);
  /// The newest checkpoint has all entries before `covered`, and none needs those before `unused`
  /// any more: their lines are free.
  void note_checkpoint(u64 unused, u64 covered);
  /// From now on nobody claims a place, until open(). False, and it is open: somebody had claimed
  /// one whose entry is not done. Not where processes share it.
  bool close();
  void open();
  /// What is written next goes to another place of the medium, where a log of the same size was
  /// given to the object; no head needs what is on the medium already.
  void move_to(u64 offset) {
    PERDURA_ASSERT(durable() == done() && free_end() == done());
    place_.offset = offset;
  }

  // --- recovery

  /// Reads what the medium has of `session` from where it was created on: up to the last mark
  /// before which nothing is missing. It is published, not done. kCorrupt where an entry is missing
  /// that was durable. Where `known_end` is not 0 it ends there, or that is kCorrupt as well.
  Status recover(u64 session, u64 known_end = 0);
  /// What was recovered is that of another log, of as many lines.
  void adopt(const ObjectLog& other);
  /// What was recovered, of the session that it was created with, is written as a log at another
  /// place of another medium; durable with the next barrier there.
  Status copy_to(media::LinearMedium& medium, u64 offset);

 private:
  /// In the place of the checksum of an entry in memory, which only a mark has.
  static constexpr u64 kMergeable = 1;
  static constexpr u64 kAhead = 12;  ///< lines
  /// In tail: the log is closed. No index comes that far, and what is added to it is forgotten.
  static constexpr u64 kClosed = u64{1} << 62;

  ObjectLog(media::LinearMedium& medium, const LogPlace& place, u64 from, LogMemory memory,
            Mapping own);

  /// Of a line, from the beginning of the circle, bytes.
  u64 offset_of(u64 index) const { return (index & (place_.lines - 1)) * kLineBytes; }
  u64 circle_bytes() const { return place_.lines * kLineBytes; }
  std::byte* line(u64 index) const { return circle_ + offset_of(index); }
  format::ObjectEntry& entry_at(u64 index) const {
    return *reinterpret_cast<format::ObjectEntry*>(line(index));
  }
  std::atomic_ref<u64> published(u64 index) const { return std::atomic_ref(entry_at(index).index); }
  std::atomic<bool>& merging(u64 index) const { return merging_[index & (place_.lines - 1)]; }
  u64 tail_of_closed() const;
  const std::byte* copied_context_of(u64 index);
  template <class Change>
  bool merge_among_processes(u64 index, Change&& change);
  void undo_merge();
  static void copy_short(std::byte* to, std::span<const std::byte> context);
  void copy_long(u64 index, u64 lines, std::span<const std::byte> context) const;
  u64 checksum_of(u64 begin, u64 last, u64 session) const;
  u64 room_end_from(u64 free_end) const {
    return round_down(free_end, write_lines_) + place_.lines;
  }
  void mark(u64 begin, u64 last) const;
  Status write(u64 begin, u64 end);
  bool is_possible(u64 index, u64 end) const;
  bool is_whole_group(u64 begin, u64 last, u64 session) const;
  bool is_whole(u64 from, u64 bytes, const std::function<bool()>& fits) const;
  u64 find_mark(u64 begin, u64 limit) const;
  u64 end_of_group(u64 begin, u64 limit, u64 session) const;
  Status find_later_group(u64 hole, u64 end, u64 session) const;
  Failure lacks(u64 index, u64 later) const;
  Failure ends_at(u64 index, u64 end) const;

  media::LinearMedium& medium_;
  LogPlace place_;
  std::atomic<bool> is_closed_{false};  ///< and all that was claimed is done
  const u64 write_lines_;
  const Mapping own_;  ///< where the memory is nobody else's
  LogCursors& at_;
  std::byte* const circle_;
  AlignedBuffer context_;
  AlignedBuffer pages_;                           ///< block media: what is written
  std::unique_ptr<std::atomic<bool>[]> merging_;  ///< by line: its thread is changing the entry
};

// Most contexts are words, and a copy of a known length is no call.
inline void ObjectLog::copy_short(std::byte* to, std::span<const std::byte> context) {
  std::byte rest[kLineBytes - sizeof(format::ObjectEntry)]{};
  switch (context.size()) {
    case 0:
      break;
    case sizeof(u32):
      std::memcpy(rest, context.data(), sizeof(u32));
      break;
    case sizeof(u64):
      std::memcpy(rest, context.data(), sizeof(u64));
      break;
    case 2 * sizeof(u64):
      std::memcpy(rest, context.data(), 2 * sizeof(u64));
      break;
    default:
      std::memcpy(rest, context.data(), context.size());
  }
  std::memcpy(to, rest, sizeof rest);
}

// The index may be looked at meanwhile by whoever executes. What is left of an earlier use must not
// be in the checksum of this one.
inline void ObjectLog::publish(u64 index, const Call& call, bool mergeable) {
  const u64 lines = format::object_entry_lines(call.context.size());
  format::ObjectEntry& entry = entry_at(index);
  if (lines == 1) [[likely]] {
    copy_short(line(index) + sizeof(format::ObjectEntry), call.context);
  } else {
    copy_long(index, lines, call.context);
  }
  entry.checksum = mergeable ? kMergeable : 0;
  entry.potid = call.potid;
  entry.domain = call.domain;
  entry.calls = 1;
  entry.function = call.function;
  entry.lines = static_cast<u16>(lines);
  entry.group = 0;
  entry.context_bytes = static_cast<u32>(call.context.size());
  published(index).store(index, std::memory_order_release);
}

// A line that begins an entry says its index only when that is published: what was there before was
// the beginning of an entry of an earlier round, or has been cleared (note_checkpoint).
inline ObjectLog::Published ObjectLog::published_from_done() {
  const u64 end = tail();
  Published found{done(), done(), ~u64{0}};
  while (found.end < end && published(found.end).load(std::memory_order_acquire) == found.end) {
    const format::ObjectEntry& entry = entry_at(found.end);
    __builtin_prefetch(line(found.end + kAhead));  // another thread's caches may have it
    if (entry.checksum == kMergeable && found.first_mergeable == ~u64{0}) [[unlikely]]
      found.first_mergeable = found.end;
    found.last = found.end;
    found.end += entry.lines;
    if (entry.lines != 1) at_.long_end = found.end;
  }
  found.first_mergeable = std::min(found.first_mergeable, found.end);
  return found;
}

// Who freezes sees that it is being changed, or this thread that it is frozen.
template <class Change>
bool ObjectLog::merge(u64 index, Change&& change) {
  if (at_.among_processes) [[unlikely]]
    return merge_among_processes(index, change);
  std::atomic<bool>& now = merging(index);
  now.store(true, std::memory_order_relaxed);
  light_fence();
  bool merged = false;
  if (at_.frozen.load(std::memory_order_acquire) <= index) {
    format::ObjectEntry& entry = entry_at(index);
    merged = entry.calls != ~u32{0} && change(line(index) + sizeof(format::ObjectEntry));
    if (merged) ++entry.calls;
  }
  now.store(false, std::memory_order_release);
  return merged;
}

// Whoever is killed in the middle leaves the entry as it was.
template <class Change>
bool ObjectLog::merge_among_processes(u64 index, Change&& change) {
  const Claiming claiming(*this);
  format::ObjectEntry& entry = entry_at(index);
  if (at_.frozen.load(std::memory_order_relaxed) > index || entry.calls == ~u32{0}) return false;
  std::byte* const context = line(index) + sizeof(format::ObjectEntry);
  PERDURA_ASSERT(entry.context_bytes <= sizeof at_.before.context);
  at_.before.calls = entry.calls;
  std::memcpy(at_.before.context, context, entry.context_bytes);
  at_.before.index.store(index, std::memory_order_release);
  const bool merged = change(context);
  if (merged) ++entry.calls;
  at_.before.index.store(0, std::memory_order_release);
  return merged;
}

}  // namespace perdura::object
