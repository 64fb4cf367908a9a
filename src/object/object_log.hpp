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
//  - Nothing from free_end on is overwritten, neither in memory nor on the medium; there a
//    page with a line of it is written again as it was, with more behind it.
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
#include "format/object_format.hpp"
#include "media/medium.hpp"

namespace perdura::object {

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

class ObjectLog {
 public:
  /// `medium` outlives it. `from`: where the first entry will be, not before kFirstIndex.
  static Result<std::unique_ptr<ObjectLog>> create(media::LinearMedium& medium,
                                                   const LogPlace& place, u64 from);

  /// Memory begins as zeros, which are to be no entry.
  static constexpr u64 kFirstIndex = kLinesPerPage;

  /// Before anything is appended: entries may be merged with later calls.
  void have_merging() { merging_ = std::make_unique<std::atomic<bool>[]>(place_.lines); }

  // --- any thread

  /// A place in the order of execution, for a call with a context of so many bytes. It is to be
  /// published, once there is room for it.
  u64 claim(u64 context_bytes) {
    return tail_.fetch_add(format::object_entry_lines(context_bytes), std::memory_order_relaxed);
  }
  /// The same, where only whoever executes claims.
  u64 claim_alone(u64 context_bytes) {
    const u64 index = tail_.load(std::memory_order_relaxed);
    tail_.store(index + format::object_entry_lines(context_bytes), std::memory_order_relaxed);
    return index;
  }
  /// The same, if that and all before it lie before `end`; else nothing.
  std::optional<u64> claim_before(u64 end, u64 context_bytes) {
    const u64 lines = format::object_entry_lines(context_bytes);
    u64 index = tail_.load(std::memory_order_relaxed);
    while (index + lines <= end)
      if (tail_.compare_exchange_weak(index, index + lines, std::memory_order_relaxed))
        return index;
    return std::nullopt;
  }
  /// Whether an entry of so many context bytes may be written at `index`: what was there before is
  /// free.
  bool has_room(u64 index, u64 context_bytes) const {
    return index + format::object_entry_lines(context_bytes) <=
           room_end_.load(std::memory_order_acquire);
  }
  /// Somebody who has claimed a place waits for room.
  bool is_full() const { return !has_room(tail(), 0); }
  /// `mergeable`: further calls may be merged into it, by this thread.
  void publish(u64 index, const Call& call, bool mergeable = false);
  /// Whoever has published the entry at `index` has its context changed by `change`, which says
  /// whether that stands for another call as well. Nothing happens where it is frozen.
  template <class Change>
  bool merge(u64 index, Change&& change);
  u64 tail() const { return tail_.load(std::memory_order_acquire); }
  u64 done() const { return done_.load(std::memory_order_acquire); }
  u64 durable() const { return durable_.load(std::memory_order_acquire); }
  u64 free_end() const { return free_end_.load(std::memory_order_acquire); }
  u64 lines() const { return place_.lines; }

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
           memory_.length();
  }
  bool fits_in_one_piece(u64 index, const Call& call) const {
    return offset_of(index) + sizeof(format::ObjectEntry) + call.context.size() <= memory_.length();
  }
  void note_done(u64 index) {
    PERDURA_ASSERT(index >= done() && index <= tail());
    done_.store(index, std::memory_order_release);
  }
  /// The newest checkpoint has all entries before `covered`, and none needs those before `unused`
  /// any more: their lines are free.
  void note_checkpoint(u64 unused, u64 covered);

  // --- recovery

  /// Reads what the medium has of `session` from where it was created on: up to the last mark
  /// before which nothing is missing. It is published, not done. kCorrupt where an entry is missing
  /// that was durable.
  Status recover(u64 session);

 private:
  /// In the place of the checksum of an entry in memory, which only a mark has.
  static constexpr u64 kMergeable = 1;
  static constexpr u64 kAhead = 12;  ///< lines

  ObjectLog(media::LinearMedium& medium, const LogPlace& place, u64 from, Mapping memory);

  /// Of a line, from the beginning of the circle, bytes.
  u64 offset_of(u64 index) const { return (index & (place_.lines - 1)) * kLineBytes; }
  std::byte* line(u64 index) const { return memory_.as() + offset_of(index); }
  format::ObjectEntry& entry_at(u64 index) const {
    return *reinterpret_cast<format::ObjectEntry*>(line(index));
  }
  std::atomic_ref<u64> published(u64 index) const { return std::atomic_ref(entry_at(index).index); }
  std::atomic<bool>& merging(u64 index) const { return merging_[index & (place_.lines - 1)]; }
  const std::byte* copied_context_of(u64 index);
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

  media::LinearMedium& medium_;
  const LogPlace place_;
  const u64 write_lines_;
  const Mapping memory_;
  AlignedBuffer context_;
  AlignedBuffer pages_;  ///< block media: what is written, and between writes the last page of it
  std::unique_ptr<std::atomic<bool>[]> merging_;  ///< by line: its thread is changing the entry
  u64 long_end_ = 0;  ///< behind the last entry seen that has several lines
  alignas(64) std::atomic<u64> tail_;
  alignas(64) std::atomic<u64> done_;
  std::atomic<u64> durable_;
  std::atomic<u64> free_end_;
  std::atomic<u64> room_end_;  ///< no entry may lie behind it
  std::atomic<u64> frozen_{0};
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
    if (entry.lines != 1) long_end_ = found.end;
  }
  found.first_mergeable = std::min(found.first_mergeable, found.end);
  return found;
}

// Who freezes sees that it is being changed, or this thread that it is frozen.
template <class Change>
bool ObjectLog::merge(u64 index, Change&& change) {
  std::atomic<bool>& now = merging(index);
  now.store(true, std::memory_order_relaxed);
  light_fence();
  bool merged = false;
  if (frozen_.load(std::memory_order_acquire) <= index) {
    format::ObjectEntry& entry = entry_at(index);
    merged = entry.calls != ~u32{0} && change(line(index) + sizeof(format::ObjectEntry));
    if (merged) ++entry.calls;
  }
  now.store(false, std::memory_order_release);
  return merged;
}

}  // namespace perdura::object
