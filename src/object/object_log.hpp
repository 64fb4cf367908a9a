// The log of an object: a circle of entries in memory, in the order in which calls claimed their
// places, which is the order in which they are done; and on the medium, to which whoever executes
// copies them.
//
//   index   0 ... checkpoint ............ done ............ published ......... tail
//                 |<-- the copy lacks them, in memory and on the medium -->|  claimed
//                 the next round begins at done, which is also where what is durable ends
//
// Invariants:
//  - checkpoint <= done <= tail, and each only grows.
//  - The place of an entry in the circle is written by the thread that claimed it until that has
//    published it, and from then on by whoever executes, alone.
//  - Nothing from the checkpoint on is overwritten, neither in memory nor on the medium; there a
//    page with a line of it is written again as it was, with more behind it.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
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

  // --- any thread

  /// A place in the order of execution, for a call with a context of so many bytes. It is to be
  /// published, once there is room for it.
  u64 claim(u64 context_bytes) {
    return tail_.fetch_add(format::object_entry_lines(context_bytes), std::memory_order_relaxed);
  }
  /// Whether an entry of so many context bytes may be written at `index`: what was there before is
  /// in a checkpoint.
  bool has_room(u64 index, u64 context_bytes) const {
    const u64 begin = round_down(checkpoint_.load(std::memory_order_acquire), write_lines_);
    return index + format::object_entry_lines(context_bytes) - begin <= place_.lines;
  }
  /// Somebody who has claimed a place waits for room.
  bool is_full() const { return !has_room(tail(), 0); }
  void publish(u64 index, const Call& call);
  u64 tail() const { return tail_.load(std::memory_order_acquire); }
  u64 done() const { return done_.load(std::memory_order_acquire); }
  u64 checkpoint() const { return checkpoint_.load(std::memory_order_acquire); }
  u64 lines() const { return place_.lines; }

  // --- whoever executes, one thread at a time

  /// The end of the entries from done() on that are published, without a gap.
  u64 published_end() const;
  /// All entries from done() to `end`, the last of which is the mark, are durable: one write, one
  /// barrier. `last` is where that begins.
  Status make_durable(u64 last, u64 end);
  /// The entry at an index, whose context is read by context_of().
  const format::ObjectEntry& entry(u64 index) const {
    return *reinterpret_cast<const format::ObjectEntry*>(line(index));
  }
  /// The context of an entry, in one piece: where it lies, or in memory of this log's that the next
  /// call overwrites.
  const std::byte* context_of(u64 index);
  void note_done(u64 index) {
    PERDURA_ASSERT(index >= done() && index <= tail());
    done_.store(index, std::memory_order_release);
  }
  /// A checkpoint has all entries before `index`: their lines are free.
  void note_checkpoint(u64 index);

  // --- recovery

  /// Reads what the medium has of `session` from checkpoint() on: up to the last mark before which
  /// nothing is missing. It is published, not done. kCorrupt where an entry is missing that was
  /// durable.
  Status recover(u64 session);

 private:
  ObjectLog(media::LinearMedium& medium, const LogPlace& place, u64 from, Mapping memory);

  /// Of a line, from the beginning of the circle, bytes.
  u64 offset_of(u64 index) const { return (index & (place_.lines - 1)) * kLineBytes; }
  std::byte* line(u64 index) const { return memory_.as() + offset_of(index); }
  format::ObjectEntry& entry_at(u64 index) const {
    return *reinterpret_cast<format::ObjectEntry*>(line(index));
  }
  std::atomic_ref<u64> published(u64 index) const { return std::atomic_ref(entry_at(index).index); }
  u64 checksum_of(u64 index, u64 session) const;
  void copy_in(u64 index, u64 at, std::span<const std::byte> bytes) const;
  Status write(u64 begin, u64 end);
  bool is_whole(u64 index, u64 session) const;
  Failure lacks(u64 index, u64 later) const;

  media::LinearMedium& medium_;
  const LogPlace place_;
  const u64 write_lines_;
  const Mapping memory_;
  AlignedBuffer context_;
  AlignedBuffer pages_;  ///< block media: what is written, and between writes the last page of it
  alignas(64) std::atomic<u64> tail_;
  alignas(64) std::atomic<u64> done_;
  std::atomic<u64> checkpoint_;
};

}  // namespace perdura::object
