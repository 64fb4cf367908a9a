#include "object/object_log.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checksum.hpp"
#include "base/spin.hpp"

namespace perdura::object {

using format::ObjectEntry;

Result<std::unique_ptr<ObjectLog>> ObjectLog::create(media::LinearMedium& medium,
                                                     const LogPlace& place, u64 from,
                                                     LogMemory memory) {
  PERDURA_ASSERT(from >= kFirstIndex && std::has_single_bit(place.lines) &&
                 place.lines >= kLinesPerPage && place.lines <= format::kObjectLogLinesMax);
  Mapping own;
  if (memory.cursors == nullptr) {
    const u64 circle = place.lines * kLineBytes;
    PERDURA_ASSIGN(own, Mapping::anonymous(circle + round_up(sizeof(LogCursors), kPageBytes)));
    memory.circle = own.as();
    memory.cursors = new (own.as() + circle) LogCursors;
  }
  return std::unique_ptr<ObjectLog>(new ObjectLog(medium, place, from, memory, std::move(own)));
}

ObjectLog::ObjectLog(media::LinearMedium& medium, const LogPlace& place, u64 from, LogMemory memory,
                     Mapping own)
    : medium_(medium),
      place_(place),
      write_lines_(medium.geometry().write_bytes / kLineBytes),
      own_(std::move(own)),
      at_(*memory.cursors),
      circle_(memory.circle),
      context_(format::kObjectContextMax),
      pages_(write_lines_ == 1 ? 1 : circle_bytes()) {
  if (memory.is_new) at_.begin_at(from, room_end_from(from));
}

// Of all lines of a group, in the last entry of which it lies itself; and of what is not in them.
u64 ObjectLog::checksum_of(u64 begin, u64 last, u64 session) const {
  constexpr u64 kOdd = 0x9e3779b97f4a7c15;
  ObjectEntry& mark = entry_at(last);
  const u64 kept = std::exchange(mark.checksum, 0);
  const u64 lines = last + mark.lines - begin;
  const u64 until_end = std::min(lines, place_.lines - (begin & (place_.lines - 1)));
  u64 sum = checksum(line(begin), until_end * kLineBytes);
  if (until_end != lines) sum += kOdd * checksum(line(0), (lines - until_end) * kLineBytes);
  mark.checksum = kept;
  return sum + (place_.offset + place_.identity * kOdd) * kOdd + session * kOdd * kOdd * kOdd;
}

void ObjectLog::copy_long(u64 index, u64 lines, std::span<const std::byte> context) const {
  std::memset(line(index + lines - 1), 0, kLineBytes);
  const u64 circle = circle_bytes();
  const u64 begin = (offset_of(index) + sizeof(ObjectEntry)) & (circle - 1);
  const u64 until_end = std::min<u64>(context.size(), circle - begin);
  std::memcpy(circle_ + begin, context.data(), until_end);
  if (until_end != context.size())
    std::memcpy(circle_, context.data() + until_end, context.size() - until_end);
}

void ObjectLog::freeze(const Published& published) {
  const auto is_frozen_now = [&](u64 index) { entry_at(index).checksum = 0; };
  const auto each_mergeable = [&](auto&& then) {
    for (u64 index = published.first_mergeable; index != published.end;
         index += entry_at(index).lines)
      then(index);
  };
  if (at_.among_processes) {
    const Claiming claiming(*this);
    at_.frozen.store(published.end, std::memory_order_relaxed);
    each_mergeable(is_frozen_now);
  } else if (merging_) {
    at_.frozen.store(published.end, std::memory_order_seq_cst);
    if (published.first_mergeable == published.end) return;
    heavy_fence();
    each_mergeable([&](u64 index) {
      await_soon([&] { return !merging(index).load(std::memory_order_acquire); });
      is_frozen_now(index);
    });
  }
}

void ObjectLog::undo_merge() {
  const u64 index = at_.before.index.load(std::memory_order_acquire);
  if (index == 0) return;
  ObjectEntry& entry = entry_at(index);
  entry.calls = at_.before.calls;
  std::memcpy(line(index) + sizeof entry, at_.before.context, entry.context_bytes);
  at_.before.index.store(0, std::memory_order_release);
}

// A mark in the middle of what is written later would say that its group ends there. And there is
// room for what is free, which it may not have come to say.
void ObjectLog::mend() {
  const Claiming claiming(*this);
  for (u64 index = durable(); index != tail(); index += entry_at(index).lines) {
    ObjectEntry& entry = entry_at(index);
    if (entry.group != 0 || index < at_.frozen.load(std::memory_order_relaxed)) entry.checksum = 0;
    entry.group = 0;
  }
  at_.room_end.store(room_end_from(free_end()), std::memory_order_release);
}

// On no page before what is written next does anything count.
void ObjectLog::note_covered(u64 covered) {
  if (durable() < covered) at_.durable.store(covered, std::memory_order_release);
}

// Contexts are the program's bytes: where a line of one becomes the beginning of an entry they must
// not look like one that is published.
void ObjectLog::note_checkpoint(u64 unused, u64 covered) {
  PERDURA_ASSERT(unused >= free_end() && unused <= covered && covered <= done());
  for (u64 each = free_end(); each != unused && each < at_.long_end;) {
    const u64 next = each + entry_at(each).lines;
    for (u64 inside = each + 1; inside != next; ++inside)
      published(inside).store(0, std::memory_order_relaxed);
    each = next;
  }
  PERDURA_ASSERT(durable() >= covered || unused == covered);
  note_covered(covered);
  at_.free_end.store(unused, std::memory_order_release);
  at_.room_end.store(room_end_from(unused), std::memory_order_release);
}

bool ObjectLog::close() {
  PERDURA_ASSERT(!at_.among_processes && !is_closed_);
  const u64 tail = at_.tail.fetch_or(kClosed, std::memory_order_seq_cst);
  if (tail != done()) {
    at_.tail.store(tail, std::memory_order_release);
    return false;
  }
  is_closed_.store(true, std::memory_order_release);
  return true;
}

// Whoever sees that tail says so, and not here any more, sees that of the open log next.
void ObjectLog::open() {
  PERDURA_ASSERT(is_closed_);
  at_.tail.store(done(), std::memory_order_release);
  is_closed_.store(false, std::memory_order_release);
}

// Whoever is about to close it finds at once whether all is done, or opens it again.
u64 ObjectLog::tail_of_closed() const {
  u64 tail = at_.tail.load(std::memory_order_acquire);
  await_soon([&] {
    tail = is_closed_.load(std::memory_order_acquire) ? done()
                                                      : at_.tail.load(std::memory_order_acquire);
    return !is_none(tail);
  });
  return tail;
}

const std::byte* ObjectLog::copied_context_of(u64 index) {
  const u64 bytes = entry_at(index).context_bytes;
  const u64 begin = offset_of(index) + sizeof(ObjectEntry);
  const u64 until_end = circle_bytes() - std::min<u64>(begin, circle_bytes());
  std::memcpy(context_.data(), circle_ + begin, until_end);
  std::memcpy(context_.data() + until_end, circle_, bytes - until_end);
  return context_.data();
}

void ObjectLog::mark(u64 begin, u64 last) const {
  ObjectEntry& entry = entry_at(last);
  entry.group = static_cast<u32>(1 + (last - begin));
  entry.checksum = checksum_of(begin, last, place_.session);
}

Status ObjectLog::make_durable(u64 last, u64 end) {
  const u64 begin = durable();
  PERDURA_ASSERT(begin <= last && last < end && last + entry_at(last).lines == end);
  mark(begin, last);
  PERDURA_TRY(write(begin, end));
  // Barrier: the entries are durable before any call of them is answered, and before those that
  // follow are written.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object entries")));
  at_.durable.store(end, std::memory_order_release);
  return {};
}

Status ObjectLog::make_durable_in_two_steps(u64 last, u64 end) {
  const u64 begin = durable();
  PERDURA_ASSERT(begin <= last && last < end && last + entry_at(last).lines == end);
  if (begin != last) {
    PERDURA_TRY(write(begin, last));
    // Barrier: the entries are durable before their mark is written.
    PERDURA_TRY(medium_.barrier(PERDURA_SITE("object entries before their mark")));
  }
  mark(begin, last);
  PERDURA_TRY(write(last, end));
  // Barrier: as in one step.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object entries")));
  at_.durable.store(end, std::memory_order_release);
  return {};
}

// In at most two pieces: the circle ends in between. The page that the first line is on begins with
// what was written there before, which is in memory until all of the page is free.
Status ObjectLog::write(u64 begin, u64 end) {
  const u64 write_bytes = write_lines_ * kLineBytes;
  for (u64 at = begin; at != end;) {
    const u64 first = offset_of(at);
    const u64 here = std::min(end - at, place_.lines - first / kLineBytes);
    if (write_lines_ == 1) {
      PERDURA_TRY(medium_.write(place_.offset + first, {circle_ + first, here * kLineBytes},
                                PERDURA_SITE("object entries")));
    } else {
      const u64 page = round_down(first, write_bytes);
      const u64 length = first + here * kLineBytes - page;
      const u64 whole = round_up(length, write_bytes);
      std::memcpy(pages_.data(), circle_ + page, length);
      std::memset(pages_.data() + length, 0, whole - length);
      PERDURA_TRY(medium_.write(place_.offset + page, {pages_.data(), whole},
                                PERDURA_SITE("object entries")));
    }
    at += here;
  }
  return {};
}

// --- recovery -----------------------------------------------------------------------------------

// What it says of itself can be so; only the checksum of a group says that it is.
bool ObjectLog::is_possible(u64 index, u64 end) const {
  const ObjectEntry& entry = entry_at(index);
  return entry.index == index && entry.calls != 0 && entry.lines != 0 &&
         entry.lines <= end - index && entry.context_bytes <= format::kObjectContextMax &&
         entry.lines == format::object_entry_lines(entry.context_bytes);
}

// Each entry of it can be, so that none leads out of it.
bool ObjectLog::is_whole_group(u64 begin, u64 last, u64 session) const {
  u64 index = begin;
  while (index < last && is_possible(index, last)) index += entry_at(index).lines;
  return index == last && entry_at(last).group == 1 + (last - begin) &&
         entry_at(last).checksum == checksum_of(begin, last, session);
}

Failure ObjectLog::lacks(u64 index, u64 later) const {
  return {Code::kCorrupt, "the log of an object of '" + medium_.name() +
                              "' is damaged: the entry at medium offset " +
                              std::to_string(place_.offset + offset_of(index)) +
                              " is not whole, and it was durable when the one at " +
                              std::to_string(place_.offset + offset_of(later)) +
                              " was written; restore the store from a copy"};
}

Failure ObjectLog::ends_at(u64 index, u64 end) const {
  return {Code::kCorrupt, "the log of an object of '" + medium_.name() + "' (medium offset " +
                              std::to_string(place_.offset) + ") ends before entry " +
                              std::to_string(index) + ", and its head has all before " +
                              std::to_string(end) + "; restore the store from a copy"};
}

// Behind a hole: a group that begins later was written when what is missing was durable. Few marks
// are there that fit nothing: of another session, or of a group that a crash cut short.
Status ObjectLog::find_later_group(u64 hole, u64 end, u64 session) const {
  u64 looked_at = 0;
  for (u64 later = hole + 1; later < end; ++later) {
    const u64 group = entry_at(later).group;
    if (!is_possible(later, end) || group == 0 || group > later - hole) continue;
    looked_at += group;
    if (looked_at > 64 * place_.lines)
      return Failure{Code::kCorrupt,
                     "the log of an object of '" + medium_.name() + "' (medium offset " +
                         std::to_string(place_.offset) +
                         ") has more ends of groups than calls can have left there; restore the "
                         "store from a copy"};
    if (is_whole_group(later - (group - 1), later, session)) return lacks(hole, later);
  }
  return {};
}

// Whether `fits()` holds of so many bytes of the circle at `from`, as they lie in memory, where the
// medium may exchange them for others that it may have.
bool ObjectLog::is_whole(u64 from, u64 bytes, const std::function<bool()>& fits) const {
  std::byte* const here = circle_ + from;
  return medium_.whole(place_.offset + from, here, bytes, PERDURA_SITE("object entries"),
                       [&](const std::byte* at) {
                         if (at == here) return fits();
                         const std::vector<std::byte> kept(here, here + bytes);
                         std::memcpy(here, at, bytes);
                         const bool whole = fits();
                         std::memcpy(here, kept.data(), bytes);
                         return whole;
                       });
}

// Where the group that begins there has its mark, as far as that can be; else `limit`.
u64 ObjectLog::find_mark(u64 begin, u64 limit) const {
  for (u64 index = begin; index < limit && is_possible(index, limit);
       index += entry_at(index).lines)
    if (entry_at(index).group != 0) return index;
  return limit;
}

// Behind the group that begins there and is whole; `begin`: there is none. What of the medium is
// undecided may not show where it ends, so it is also looked for in all of the circle.
u64 ObjectLog::end_of_group(u64 begin, u64 limit, u64 session) const {
  const auto fits = [&] {
    const u64 last = find_mark(begin, limit);
    return last != limit && is_whole_group(begin, last, session);
  };
  const auto end = [&] {
    const u64 last = find_mark(begin, limit);
    return last == limit ? begin : last + entry_at(last).lines;
  };
  const u64 lines = end() - begin;
  const u64 first = std::min(lines, place_.lines - offset_of(begin) / kLineBytes);
  const bool found = lines != 0 && is_whole(offset_of(begin), first * kLineBytes, fits) &&
                     (first == lines || is_whole(0, (lines - first) * kLineBytes, fits));
  return found || is_whole(0, circle_bytes(), fits) ? end() : begin;
}

Status ObjectLog::recover(u64 session, u64 known_end) {
  const u64 from = free_end();
  PERDURA_ASSERT(tail() == from);
  PERDURA_TRY(medium_.load_pages(place_.offset, {circle_, circle_bytes()}));
  const u64 limit = from + place_.lines;
  u64 end = from;  // of the groups that are whole
  for (u64 next; (next = end_of_group(end, limit, session)) != end;) end = next;
  PERDURA_TRY(find_later_group(end, limit, session));
  if (known_end != 0 && end != known_end) return ends_at(end, known_end);
  // What follows the last mark never was.
  for (u64 each = end; each != limit; ++each) entry_at(each).index = 0;
  at_.tail = end;
  at_.durable = end;
  at_.long_end = end;
  return {};
}

void ObjectLog::adopt(const ObjectLog& other) {
  PERDURA_ASSERT(lines() == other.lines() && done() == other.done());
  std::memcpy(circle_, other.circle_, circle_bytes());
  at_.tail = other.tail();
  at_.durable = other.durable();
  at_.long_end = other.at_.long_end;
}

// All of the circle: nothing in it but what was recovered is an entry from here on. Marks are of
// the place that they are in.
Status ObjectLog::copy_to(media::LinearMedium& medium, u64 offset) {
  place_.offset = offset;
  u64 begin = done();
  for (u64 index = begin; index != tail(); index += entry_at(index).lines) {
    if (entry_at(index).group == 0) continue;
    mark(begin, index);
    begin = index + entry_at(index).lines;
  }
  PERDURA_ASSERT(begin == tail());
  return medium.write(offset, {circle_, circle_bytes()}, PERDURA_SITE("object entries elsewhere"));
}

}  // namespace perdura::object
