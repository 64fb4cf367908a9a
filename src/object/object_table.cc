#include "object/object_table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "object/object_build.hpp"
#include "object/object_copies.hpp"
#include "object/object_owner.hpp"

namespace perdura::object {

using format::ExtentKind;
using format::ObjectHead;

namespace {

constexpr u64 kHeadsBytes = 16 * format::kObjectHeadsBytes;  // of so many objects at a time

bool ends(const char (&text)[format::kObjectNameMax + 1]) {
  return text[format::kObjectNameMax] == '\0';
}

// Heads that follow this one must fit as well.
bool counts_on(const ObjectHead& head) {
  return std::max({head.sequence, head.identity, head.checkpoint}) <= format::kCounterMax / 2;
}

std::vector<format::ObjectFreePlace> free_places_behind(const ObjectHead& head,
                                                        const std::byte* slots) {
  const std::byte* const slot = slots + head.sequence % 2 * format::kObjectHeadBytes;
  return free_places_found(
      head, *reinterpret_cast<const format::ObjectFreePlaces*>(slot + sizeof(format::ObjectSlot)));
}

// How often heads had been written at the place with this one.
u64 writes_with(const ObjectHead& head, u64 place, const std::byte* slots, u64 otherwise) {
  for (const format::ObjectFreePlace& each : free_places_behind(head, slots))
    if (each.place == place && each.writes <= head.sequence) return each.writes;
  return otherwise;
}

bool is_zeros(const std::byte* at, u64 length) {
  return std::all_of(at, at + length, [](std::byte each) { return each == std::byte{0}; });
}

// What is said behind the newest head may be torn: it was written once more than the other one, or
// is the first one there.
u64 skipped_at(const ObjectTable::Entry& entry, const std::byte* slots) {
  const u64 other = (entry.head.sequence + 1) % 2 * format::kObjectHeadBytes;
  u64 writes = entry.head.sequence;
  if (entry.older.magic != 0)
    writes = writes_with(entry.older, entry.place, slots, entry.older.sequence) + 1;
  else if (entry.head.magic != 0 && is_zeros(slots + other, sizeof(ObjectHead))) writes = 1;
  if (entry.head.magic != 0) writes = writes_with(entry.head, entry.place, slots, writes);
  return entry.head.sequence - writes;
}

}  // namespace

u64 head_checksum(const ObjectHead& head) {
  return checksum(&head.magic, sizeof head - sizeof head.checksum);
}

// The checksum says that we wrote it; the bounds, that whoever reads it may rely on it.
bool head_fits(const ObjectHead& head, u64 slot) {
  if (head.magic != format::kObjectMagic || head.checksum != head_checksum(head) ||
      head.sequence % 2 != slot || head.sequence > format::kCounterMax || !ends(head.name) ||
      !ends(head.type) || head.identity > format::kCounterMax)
    return false;
  if (head.log_lines == 0) return true;
  const bool has_history = head.history != format::ObjectHistory::kNone;
  const bool has_archive = head.history == format::ObjectHistory::kAll;
  if (is_in_overflow(head) && has_archive) return false;
  const u64 second = is_in_overflow(head) ? 0 : head.copy_place[1];
  return head.copy <= format::kObjectInOverflow && head.history <= format::ObjectHistory::kAll &&
         has_history == (head.callers != 0) && has_archive == (head.archive_lines != 0) &&
         head.archive_lines <= format::kObjectArchiveLinesMax &&
         head.archive_used <= head.archive_lines &&
         (head.callers == 0 || std::has_single_bit(head.callers)) &&
         head.callers <= format::kObjectCallersMax && head.bytes <= format::kObjectBytesMax &&
         head.name[0] != '\0' && std::has_single_bit(head.log_lines) &&
         head.log_lines >= kLinesPerPage && head.log_lines <= format::kObjectLogLinesMax &&
         head.checkpoint >= kLinesPerPage && head.checkpoint <= format::kCounterMax &&
         head.functions_bytes <= format::kObjectFunctionsBytesMax &&
         (head.copy_place[0] | second | head.log_place | head.functions_place |
          head.archive_place) %
                 kPageBytes ==
             0;
}

// In the region itself.
ObjectTable::Ranges ObjectTable::ranges_of(const ObjectHead& head) {
  Ranges ranges;
  if (head.log_lines == 0) return ranges;
  ranges.add(head.functions_place, head.functions_bytes);
  if (is_in_overflow(head)) return ranges;
  for (const u64 place : head.copy_place) ranges.add(place, format::object_image_bytes(head));
  ranges.add(head.log_place, head.log_lines * kLineBytes);
  if (head.archive_lines != 0) ranges.add(head.archive_place, head.archive_lines * kLineBytes);
  return ranges;
}

// In the overflow store, if it is this one.
ObjectTable::Ranges ObjectTable::overflow_ranges_of(const ObjectHead& head) const {
  Ranges ranges;
  if (head.log_lines == 0 || overflow_ == nullptr) return ranges;
  const u64 copy = format::object_image_bytes(head);
  if (const u64 stand_in = format::stand_in_place(head); stand_in != 0) ranges.add(stand_in, copy);
  if (!is_in_overflow(head) || head.copy_place[1] != overflow_->id()) return ranges;
  ranges.add(head.copy_place[0], copy);
  if (head.log_place != 0) ranges.add(head.log_place, head.log_lines * kLineBytes);
  return ranges;
}

ObjectTable::Entry ObjectTable::entry_of(media::Medium& medium, u64 place, std::byte* slots) {
  Entry entry{.place = place};
  for (u64 slot = 0; slot < 2; ++slot) {
    const u64 offset = slot * format::kObjectHeadBytes;
    const bool whole =
        medium.whole(place + offset, slots + offset, sizeof(ObjectHead),
                     PERDURA_SITE("object head"), [&](const std::byte* head) {
                       return head_fits(*reinterpret_cast<const ObjectHead*>(head), slot);
                     });
    if (!whole) {
      entry.unclear = static_cast<u8>(entry.unclear | 1 << slot);
      continue;
    }
    const auto& found = *reinterpret_cast<const format::ObjectSlot*>(slots + offset);
    entry.older = found.head;
    if (entry.head.sequence >= entry.older.sequence) continue;
    std::swap(entry.head, entry.older);
    entry.owner = owner_found(found.head, found.owner);
    entry.wear = wear_found(found.head, found.wear);
  }
  entry.build = build_found(medium, place, slots, entry.head, entry.older);
  entry.skipped = skipped_at(entry, slots);
  return entry;
}

Status ObjectTable::read(const FindLive& find_live) {
  space_.read();
  std::vector<Entry> found;
  for (const format::Extent& extent : volume_.extents(ExtentKind::kObjectHeads, region_)) {
    AlignedBuffer bytes(extent.length);
    PERDURA_TRY(volume_.medium().load_pages(extent.medium_offset, bytes.first(extent.length)));
    for (u64 at = 0; at < extent.length; at += format::kObjectHeadsBytes) {
      const u64 place = extent.medium_offset + at;
      const std::optional<Live> live = find_live ? find_live(place) : std::nullopt;
      Entry entry = entry_of(volume_.medium(), place, bytes.data() + at);
      if (live)
        entry = {.place = place,
                 .head = live->slot.head,
                 .owner = live->slot.owner,
                 .wear = live->slot.wear,
                 .skipped = entry.skipped};
      const Range kept = live ? live->kept : Range{};
      if (kept.bytes != 0 && !space_.take(kept.place, kept.bytes))
        return damaged(place, "keeps space that is not free");
      if (!counts_on(entry.head)) return damaged(entry.place, "counts further than a store does");
      note_wear(entry, bytes.data() + at);
      next_identity_ = std::max(next_identity_, entry.head.identity + 1);
      if (entry.head.log_lines == 0) add_unused(entry);
      else found.push_back(entry);
    }
  }
  PERDURA_TRY(claim_all(found));
  reserve();
  return {};
}

// Of an object whose head was moving that with the higher sequence is the later one: the other one
// did not change any more when it was written.
Status ObjectTable::claim_all(const std::vector<Entry>& found) {
  std::map<u64, const Entry*> newest;
  for (const Entry& each : found) {
    const Entry*& counts = newest[each.head.identity];
    if (counts == nullptr || counts->head.sequence < each.head.sequence) counts = &each;
  }
  for (const Entry& each : found) {
    const ObjectHead& counts = newest[each.head.identity]->head;
    if (&counts == &each.head) PERDURA_TRY(claim(each));
    else if (counts.sequence != each.head.sequence &&
             std::ranges::equal(counts.name, each.head.name))
      stale_.push_back(each);
    else return damaged(each.place, "has another one's identity");
  }
  return {};
}

// The head that counts may be one that a process wrote which was killed before its barrier: it is
// durable in both slots before the other place says that there is no object.
Status ObjectTable::remove_stale() {
  for (; !stale_.empty(); stale_.pop_back()) {
    const Entry& stale = stale_.back();
    const auto counts = std::ranges::find(objects_, stale.head.identity,
                                          [](const Entry& each) { return each.head.identity; });
    PERDURA_TRY(complete_build(volume_.linear(), counts->place, counts->head, counts->build));
    ObjectCopies copies(volume_.linear(), *counts);
    PERDURA_TRY(copies.write_heads());
    counts->head = copies.head();
    counts->older = {};
    counts->unclear = 0;
    counts->owner = owner_of(counts->head);
    ObjectCopies left(volume_.linear(), stale);
    PERDURA_TRY(left.remove());
    add_unused(left.entry());
  }
  reserve();
  return {};
}

Status ObjectTable::have_overflow(OverflowStore& overflow) {
  overflow_ = &overflow;
  overflow.space().read();
  for (const Entry& each : objects_)
    if (is_in_overflow(each.head))
      for (const Range& range : overflow_ranges_of(each.head))
        if (!overflow.space().take(range.place, range.bytes))
          return damaged(each.place, "names space of the overflow store that is not free");
  claim_stand_ins();
  return {};
}

// Nothing is recovered from it: what a crash has torn off is not known, and the place counts as one
// that was written less often.
void ObjectTable::note_wear(const Entry& entry, const std::byte* slots) {
  wear_.note(entry.head, entry.wear);
  for (const ObjectHead* const head : {&entry.head, &entry.older}) {
    if (head->magic != format::kObjectMagic) continue;
    for (const format::ObjectFreePlace& each : free_places_behind(*head, slots))
      wear_.note(each.place, each.bytes, each.writes);
  }
}

Status ObjectTable::claim(const Entry& entry) {
  if (find(entry.head.name) != nullptr) return damaged(entry.place, "has another one's name");
  for (const Range& range : ranges_of(entry.head))
    if (!space_.take(range.place, range.bytes))
      return damaged(entry.place, "names space that is not free");
  objects_.push_back(entry);
  return {};
}

void ObjectTable::claim_stand_ins() {
  for (Entry& each : objects_) {
    const u64 stand_in = format::stand_in_place(each.head);
    if (stand_in == 0) continue;
    if (!overflow_->space().take(stand_in, format::object_image_bytes(each.head)))
      format::set_stand_in(each.head, 0);
  }
}

Failure ObjectTable::damaged(u64 place, const char* what) const {
  return {Code::kCorrupt, "the head of an object of '" + volume_.name() + "' (medium offset " +
                              std::to_string(place) + ") " + what +
                              "; restore the store from a copy"};
}

const ObjectTable::Entry* ObjectTable::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      objects_, [name](const Entry& each) { return std::string_view(each.head.name) == name; });
  return found == objects_.end() ? nullptr : &*found;
}

// What is noted of a new one, and that it is not made, needs no memory later.
void ObjectTable::reserve() {
  if (objects_.size() == objects_.capacity()) objects_.reserve(2 * objects_.size() + 16);
  const u64 all = objects_.size() + unused_.size() + 1;
  if (unused_.capacity() < all) unused_.reserve(2 * all);
}

Result<ObjectTable::Entry> ObjectTable::new_entry() {
  if (unused_.empty()) {
    PERDURA_ASSIGN(const format::Extent made,
                   volume_.allocate_objects(region_, ExtentKind::kObjectHeads, kHeadsBytes));
    for (u64 at = 0; at != made.length; at += format::kObjectHeadsBytes)
      unused_.push_back({.place = made.medium_offset + at});
  }
  reserve();
  Entry entry = take(std::ranges::min_element(unused_, {}, &Entry::head_writes));
  entry.head.magic = format::kObjectMagic;
  entry.head.identity = next_identity_++;
  return entry;
}

std::optional<ObjectTable::Entry> ObjectTable::take_unused(u64 writes_max) {
  const auto is_newest = [this](const Entry& each) {
    return each.head.identity + 1 == next_identity_;
  };
  const auto newest =
      std::ranges::count_if(objects_, is_newest) + std::ranges::count_if(unused_, is_newest);
  const auto measure = [&](const Entry& each) {
    return std::pair(newest == 1 && is_newest(each), each.head_writes());
  };
  const auto least = std::ranges::min_element(unused_, {}, measure);
  if (least == unused_.end() || measure(*least) > std::pair(false, writes_max)) return std::nullopt;
  return take(least);
}

ObjectTable::Entry ObjectTable::take(std::vector<Entry>::iterator unused) {
  const Entry taken = *unused;
  unused_.erase(unused);
  return taken;
}

std::vector<ObjectTable::Gone> ObjectTable::gone() const {
  std::set<u64> are_there;
  for (const Entry& each : objects_) are_there.insert(each.head.identity);
  std::vector<Gone> gone;
  for (const Entry& each : unused_)
    if (each.head.identity != 0 && !are_there.contains(each.head.identity))
      gone.push_back({each.place, each.head.identity, each.head.sequence});
  return gone;
}

void ObjectTable::give_up(const Entry& entry) noexcept {
  for (const Range& range : ranges_of(entry.head)) space_.give_back(range.place, range.bytes);
  add_unused(entry);
}

// Of the last head there nothing else counts any more.
void ObjectTable::add_unused(const Entry& last) {
  Entry unused{.place = last.place, .unclear = last.unclear, .skipped = last.skipped};
  unused.head.sequence = last.head.sequence;
  unused.head.identity = last.head.identity;
  unused_.push_back(unused);
}

void ObjectTable::note(const Entry& entry) noexcept {
  const auto found =
      std::ranges::find_if(objects_, [&](const Entry& each) { return each.place == entry.place; });
  if (found == objects_.end()) objects_.push_back(entry);
  else *found = entry;
}

void ObjectTable::note_moved(const ObjectHead& before, const Entry& entry) noexcept {
  note(entry);
  const auto give_back = [](ObjectSpace& space, const Ranges& had, const Ranges& has) {
    for (const Range& each : had)
      if (std::ranges::find(has, each.place, &Range::place) == has.end())
        space.give_back(each.place, each.bytes);
  };
  give_back(space_, ranges_of(before), ranges_of(entry.head));
  if (overflow_ != nullptr)
    give_back(overflow_->space(), overflow_ranges_of(before), overflow_ranges_of(entry.head));
}

void ObjectTable::note_head_moved(const ObjectHead& before, const Entry& entry,
                                  const Entry& left) noexcept {
  std::ranges::find(objects_, left.place, &Entry::place)->place = entry.place;
  add_unused(left);
  note_moved(before, entry);
}

void ObjectTable::note_removed(const Entry& entry, const Entry& left) noexcept {
  for (const Range& each : ranges_of(entry.head)) space_.give_back(each.place, each.bytes);
  for (const Range& each : overflow_ranges_of(entry.head))
    overflow_->space().give_back(each.place, each.bytes);
  std::erase_if(objects_, [&](const Entry& each) { return each.place == entry.place; });
  add_unused(left);
}

}  // namespace perdura::object
