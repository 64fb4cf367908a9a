// Places of the store wear: an object that has been written often in one moves to free space where
// less was written. How often each was is with the heads, and costs no barrier.
//
//   a checkpoint ── its place is worn ── whoever called ── the least worn places ── move
//
// It is the step that resizing and swapping take: a crash leaves the object in its old places or in
// the new ones.
#include <algorithm>

#include "model/object/objects_runtime.hpp"
#include "object/place_wear.hpp"

namespace perdura::detail {

using format::ObjectHead;
using format::ObjectSlot;
using object::ObjectCore;
using object::ObjectTable;

void RuntimeLink::level(OpenObject& object) {
  if (forked_since(generation_)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && runtime_ != nullptr) runtime_->level(object);
}

// Who else has the lock makes or moves some object now, and who executes this one may take his
// time: the next call looks again. What a failure leaves undone is undone; what it leaves unsure
// the object's next call says.
void ObjectsRuntime::level(OpenObject& object) {
  if (wear_moves_ == 0 || memory_) return;
  const NotCancelled not_cancelled;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !require_open()) return;
  (void)guarded([&]() -> Status {
    ObjectCore& core = object.core();
    if (!core.is_idle()) return {};
    if (!core.is_away() && !core.keeps_all_calls())
      if (Result<bool> moved = move_to_least_worn(object); moved && *moved) ++moves_.worn;
    if (!core.is_away() && !core.has_failed())
      if (Result<bool> moved = move_head_to_least_worn(object); moved && *moved) ++moves_.heads;
    core.say_when_worn(core.most_writes() + wear_moves_);
    return {};
  });
}

// Under the lock. To where it is worth it.
Result<bool> ObjectsRuntime::move_to_least_worn(OpenObject& object) {
  ObjectCore& core = object.core();
  PERDURA_TRY(core.sync());
  const ObjectSlot before = core.newest();
  note_left(before);
  const std::vector<format::ObjectFreePlace> free_places = worn_free_places(&before.head);
  const std::optional<ObjectCore::Places> places = least_worn_places(before.head);
  if (!places) return false;
  ObjectHead next = before.head;
  std::ranges::copy(places->copy, next.copy_place);
  next.log_place = places->log;
  const auto give_back_new = [&] { give_back(*places, next); };
  const u64 there = object::most_writes(next, places->wear);
  if (there + wear_moves_ > object::most_writes(before.head, before.wear)) {
    give_back_new();
    return false;
  }
  core.set_free_places(free_places);
  Status moved = guarded([&] { return core.move(*places); });
  if (!moved && !core.has_failed()) {
    give_back_new();
    return moved.failure();
  }
  PERDURA_TRY(noting_heads(std::move(moved)));
  ObjectTable::Entry entry = *table_->find(before.head.name);
  const ObjectHead known = entry.head;  // as long as it says so, a copy in the overflow store too
  entry.head = core.settled_head();
  table_->note_moved(known, entry);
  return true;
}

// The same, in the table.
Result<bool> ObjectsRuntime::move_head_to_least_worn(OpenObject& object) {
  ObjectCore& core = object.core();
  const u64 writes = core.head_writes();
  if (writes < wear_moves_) return false;
  const std::optional<ObjectTable::Entry> to = table_->take_unused(writes - wear_moves_);
  if (!to) return false;
  Result<ObjectTable::Entry> moved = guarded([&] { return core.move_head(*to); });
  if (!moved && !core.has_failed()) {
    table_->give_up(*to);
    return moved.failure();
  }
  PERDURA_ASSIGN(const ObjectTable::Entry left, noting_heads(std::move(moved)));
  const ObjectHead known = table_->find(core.name())->head;
  table_->note_head_moved(known, core.settled_entry(), left);
  return true;
}

// Taken; nothing: the region has not so much free space, and gets no more for this.
std::optional<ObjectCore::Places> ObjectsRuntime::least_worn_places(const ObjectHead& head) {
  object::ObjectSpace& space = table_->space();
  ObjectHead there = head;
  const std::pair<u64&, u64> parts[] = {{there.copy_place[0], format::object_image_bytes(head)},
                                        {there.copy_place[1], format::object_image_bytes(head)},
                                        {there.log_place, head.log_lines * kLineBytes}};
  for (size_t i = 0; i < std::size(parts); ++i) {
    const std::optional<u64> found = table_->wear().least_worn(space.free(), parts[i].second);
    const Result<bool> taken_too =
        guarded([&]() -> Result<bool> { return found && space.take(*found, parts[i].second); });
    if (!taken_too || !*taken_too) {
      for (size_t taken = 0; taken < i; ++taken)
        space.give_back(parts[taken].first, parts[taken].second);
      return std::nullopt;
    }
    parts[i].first = *found;
  }
  return ObjectCore::Places{.copy = {there.copy_place[0], there.copy_place[1]},
                            .log = there.log_place,
                            .wear = table_->wear().of(there)};
}

// An object leaves its places: they are worn as it left them.
void ObjectsRuntime::note_left(const ObjectSlot& before) {
  table_->wear().note(before.head, before.wear);
}

// What heads say that are written now, of space that is free or `leaving` leaves. Nothing where
// wear is not levelled.
std::vector<format::ObjectFreePlace> ObjectsRuntime::worn_free_places(const ObjectHead* leaving) {
  if (wear_moves_ == 0) return {};
  object::FreeSpace free = table_->space().free();
  if (leaving != nullptr && !is_in_overflow(*leaving)) {
    const u64 image = object::pages_bytes(format::object_image_bytes(*leaving));
    for (const u64 place : leaving->copy_place) free.emplace(place, image);
    free.emplace(leaving->log_place, object::pages_bytes(leaving->log_lines * kLineBytes));
  }
  return table_->wear().worn(free);
}

}  // namespace perdura::detail
