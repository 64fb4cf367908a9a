#include "object/object_log.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checksum.hpp"

namespace perdura::object {

using format::ObjectEntry;

Result<std::unique_ptr<ObjectLog>> ObjectLog::create(media::LinearMedium& medium,
                                                     const LogPlace& place, u64 from) {
  PERDURA_ASSERT(from >= kFirstIndex && std::has_single_bit(place.lines) &&
                 place.lines >= kLinesPerPage && place.lines <= format::kObjectLogLinesMax);
  PERDURA_ASSIGN(Mapping memory, Mapping::anonymous(place.lines * kLineBytes));
  return std::unique_ptr<ObjectLog>(new ObjectLog(medium, place, from, std::move(memory)));
}

ObjectLog::ObjectLog(media::LinearMedium& medium, const LogPlace& place, u64 from, Mapping memory)
    : medium_(medium),
      place_(place),
      write_lines_(medium.geometry().write_bytes / kLineBytes),
      memory_(std::move(memory)),
      context_(format::kObjectContextMax),
      pages_(write_lines_ == 1 ? 1 : place.lines * kLineBytes),
      tail_(from),
      done_(from),
      checkpoint_(from) {}

// Of all of it but its checksum, and of what is not in it.
u64 ObjectLog::checksum_of(u64 index, u64 session) const {
  constexpr u64 kOdd = 0x9e3779b97f4a7c15;
  const u64 lines = entry_at(index).lines;
  const u64 first = index & (place_.lines - 1);
  const u64 until_end = std::min(lines, place_.lines - first);
  u64 sum = checksum(line(index) + sizeof(u64), until_end * kLineBytes - sizeof(u64));
  if (until_end != lines) sum += kOdd * checksum(line(0), (lines - until_end) * kLineBytes);
  return sum + (place_.offset + place_.identity * kOdd) * kOdd + session * kOdd * kOdd * kOdd;
}

void ObjectLog::copy_in(u64 index, u64 at, std::span<const std::byte> bytes) const {
  const u64 ring = memory_.length();
  const u64 begin = (offset_of(index) + at) & (ring - 1);
  const u64 until_end = std::min<u64>(bytes.size(), ring - begin);
  if (until_end != 0) std::memcpy(memory_.as() + begin, bytes.data(), until_end);
  if (until_end != bytes.size())
    std::memcpy(memory_.as(), bytes.data() + until_end, bytes.size() - until_end);
}

void ObjectLog::publish(u64 index, const Call& call) {
  PERDURA_ASSERT(call.context.size() <= format::kObjectContextMax &&
                 has_room(index, call.context.size()));
  const u64 lines = format::object_entry_lines(call.context.size());
  // What is left of an earlier use must not be in the checksum of this one.
  const u64 kept = lines == 1 ? sizeof(ObjectEntry) : 0;  // the index may be looked at
  std::memset(line(index + lines - 1) + kept, 0, kLineBytes - kept);
  copy_in(index, sizeof(ObjectEntry), call.context);
  ObjectEntry& entry = entry_at(index);
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
u64 ObjectLog::published_end() const {
  const u64 end = tail();
  u64 index = done();
  while (index < end && published(index).load(std::memory_order_acquire) == index)
    index += entry_at(index).lines;
  return index;
}

// Contexts are the program's bytes: where a line of one becomes the beginning of an entry they must
// not look like one that is published.
void ObjectLog::note_checkpoint(u64 index) {
  PERDURA_ASSERT(index >= checkpoint() && index <= done());
  for (u64 each = checkpoint(); each != index;) {
    const u64 next = each + entry_at(each).lines;
    for (u64 inside = each + 1; inside != next; ++inside)
      published(inside).store(0, std::memory_order_relaxed);
    each = next;
  }
  checkpoint_.store(index, std::memory_order_release);
}

const std::byte* ObjectLog::context_of(u64 index) {
  const ObjectEntry& entry = entry_at(index);
  const u64 begin = offset_of(index) + sizeof(ObjectEntry);
  if (begin + entry.context_bytes <= memory_.length()) return memory_.as() + begin;
  const u64 until_end = memory_.length() - std::min<u64>(begin, memory_.length());
  std::memcpy(context_.data(), memory_.as() + begin, until_end);
  std::memcpy(context_.data() + until_end, memory_.as(), entry.context_bytes - until_end);
  return context_.data();
}

Status ObjectLog::make_durable(u64 last, u64 end) {
  const u64 begin = done();
  PERDURA_ASSERT(begin <= last && last < end && last + entry_at(last).lines == end);
  entry_at(last).group = static_cast<u32>(1 + (last - begin));
  for (u64 index = begin; index != end; index += entry_at(index).lines)
    entry_at(index).checksum = checksum_of(index, place_.session);
  PERDURA_TRY(write(begin, end));
  // Barrier: the entries are durable before any of them is executed, and before those that follow
  // are written.
  return medium_.barrier(PERDURA_SITE("object entries"));
}

// In at most two pieces: the circle ends in between.
Status ObjectLog::write(u64 begin, u64 end) {
  const u64 write_bytes = write_lines_ * kLineBytes;
  for (u64 at = begin; at != end;) {
    const u64 first = offset_of(at);
    const u64 here = std::min(end - at, place_.lines - first / kLineBytes);
    if (write_lines_ == 1) {
      PERDURA_TRY(medium_.write(place_.offset + first, {memory_.as() + first, here * kLineBytes},
                                PERDURA_SITE("object entries")));
    } else {
      const u64 page = round_down(first, write_bytes);
      const u64 length = first + here * kLineBytes - page;
      const u64 whole = round_up(length, write_bytes);
      std::memcpy(pages_.data() + (first - page), memory_.as() + first, here * kLineBytes);
      std::memset(pages_.data() + length, 0, whole - length);
      PERDURA_TRY(medium_.write(place_.offset + page, {pages_.data(), whole},
                                PERDURA_SITE("object entries")));
      // The next write begins with what this one ends with.
      const u64 last = round_down(length, write_bytes);
      if (last != length) std::memmove(pages_.data(), pages_.data() + last, length - last);
    }
    at += here;
  }
  return {};
}

bool ObjectLog::is_whole(u64 index, u64 session) const {
  const ObjectEntry& entry = entry_at(index);
  return entry.index == index && entry.lines != 0 && entry.lines <= place_.lines &&
         entry.context_bytes <= format::kObjectContextMax &&
         entry.lines == format::object_entry_lines(entry.context_bytes) &&
         entry.checksum == checksum_of(index, session);
}

Failure ObjectLog::lacks(u64 index, u64 later) const {
  return {Code::kCorrupt, "the log of an object of '" + medium_.name() +
                              "' is damaged: the entry at medium offset " +
                              std::to_string(place_.offset + offset_of(index)) +
                              " is not whole, and it was durable when the one at " +
                              std::to_string(place_.offset + offset_of(later)) +
                              " was written; restore the store from a copy"};
}

Status ObjectLog::recover(u64 session) {
  const u64 from = checkpoint();
  PERDURA_ASSERT(tail() == from);
  PERDURA_TRY(medium_.load_pages(place_.offset, {memory_.as(), memory_.length()}));
  u64 index = from;
  u64 end = from;
  while (index - from < place_.lines && is_whole(index, session)) {
    const u64 next = index + entry_at(index).lines;
    if (next - from > place_.lines) break;
    if (entry_at(index).group != 0) end = next;
    index = next;
  }
  // Behind the hole: a mark whose group begins later was written when what is missing was durable.
  for (u64 later = index + 1; later - from < place_.lines; ++later)
    if (is_whole(later, session) && entry_at(later).group != 0 &&
        later - (entry_at(later).group - 1) > index)
      return lacks(index, later);
  // What follows the last mark never was.
  for (u64 each = end; each - from < place_.lines; ++each) entry_at(each).index = 0;
  tail_ = end;
  if (write_lines_ != 1) {
    const u64 page = round_down(end, write_lines_);
    std::memcpy(pages_.data(), line(page), (end - page) * kLineBytes);
  }
  return {};
}

}  // namespace perdura::object
