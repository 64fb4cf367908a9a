// Where objects lie: in the store, as long as there is space, and else in the overflow store, which
// those that were called longest ago go to, and come back from when they are called.
//
//   a call ── the object is away ── settle ── space for it ── home ── the call
//                                              └ others move out, until there is some
//
// All of it under the runtime's lock. Who waits for that has claimed no place in the log of an
// object that is at home; so whoever has the lock can wait for those that execute such objects.
#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "model/object/objects_runtime.hpp"
#include "object/unopened.hpp"

namespace perdura::detail {

using namespace std::chrono_literals;

using format::ObjectHead;
using object::ObjectCore;
using object::ObjectTable;

namespace {

/// So often all who could move are looked at again, where each was being called.
constexpr int kTriesMax = 2000;
constexpr std::chrono::microseconds kBetweenTries(500);

}  // namespace

// --- space ---------------------------------------------------------------------------------------

// Of the store's own.
Result<u64> ObjectsRuntime::allocate(u64 bytes, bool moves) {
  for (;;) {
    Result<u64> place = table_->space().allocate(bytes, moves);
    if (place || place.failure().code != Code::kNoSpace) return place;
    if (!overflow_)
      return Failure{Code::kNoSpace,
                     place.failure().message + ", or an overflow store (ObjectsOptions::overflow)"};
    PERDURA_ASSIGN(const bool moved, move_somebody_out());
    if (!moved)
      return Failure{Code::kNoSpace, place.failure().message +
                                         ". None of its objects can be moved to '" +
                                         overflow_->name() + "' now: " + why_nobody_moves()};
  }
}

// What has failed cannot be executed, nor be written elsewhere.
std::string ObjectsRuntime::why_nobody_moves() const {
  for (const auto& [name, open] : open_)
    if (const std::string why = open->core().why_failed(); !why.empty())
      return "object '" + name + "' has failed, and stays where it is: " + why;
  return "there are those that are called all the time, and that keep all their calls, or the "
         "names "
         "of functions, which stay, divide what is free; give the objects more space (bytes_max)";
}

// All or none.
Status ObjectsRuntime::allocate(std::span<const Part> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Result<u64> place = guarded([&] { return allocate(parts[i].bytes, parts[i].moves); });
    if (!place) {
      for (const Part& taken : parts.first(i)) table_->space().give_back(*taken.place, taken.bytes);
      return place.failure();
    }
    *parts[i].place = *place;
  }
  return {};
}

// For all of an object that is not the names of its functions.
Result<ObjectCore::Places> ObjectsRuntime::allocate_places(const ObjectHead& head) {
  ObjectCore::Places places{};
  const u64 image = format::object_image_bytes(head);
  const Part parts[] = {{&places.copy[0], image},
                        {&places.copy[1], image},
                        {&places.log, head.log_lines * kLineBytes}};
  PERDURA_TRY(allocate(parts));
  ObjectHead there = head;
  there.copy = 0;
  std::ranges::copy(places.copy, there.copy_place);
  there.log_place = places.log;
  places.wear = table_->wear().of(there);
  return places;
}

void ObjectsRuntime::give_back(const ObjectCore::Places& places, const ObjectHead& head) {
  for (const u64 copy : places.copy)
    table_->space().give_back(copy, format::object_image_bytes(head));
  table_->space().give_back(places.log, head.log_lines * kLineBytes);
}

// Those that can move, whom nobody has called for the longest time first. A call says nothing to
// anybody; so all that were called since the last look were so at this one.
std::vector<OpenObject*> ObjectsRuntime::by_last_call() {
  ++looks_;
  std::vector<OpenObject*> found;
  for (const auto& [name, open] : open_) {
    if (open->was_called()) open->set_last_look(looks_);
    const ObjectCore& core = open->core();
    if (open.get() != stays_ && !core.is_away() && !core.keeps_all_calls() && !core.has_failed())
      found.push_back(open.get());
  }
  std::ranges::sort(found, {}, [](OpenObject* each) {
    return std::pair(each->last_look(), std::string_view(each->core().name()));
  });
  return found;
}

// Whoever is being called is so no more in a moment, if it is not called all the time. Objects that
// nobody has open were called in an earlier session.
Result<bool> ObjectsRuntime::move_somebody_out() {
  Status full;
  PERDURA_ASSIGN(bool moved, move_unopened_out(full));
  bool may_move = true;
  for (int tries = 0; !moved && may_move && tries < kTriesMax; ++tries) {
    const std::vector<OpenObject*> all = by_last_call();
    may_move = false;
    if (tries != 0) std::this_thread::sleep_for(kBetweenTries);
    for (size_t i = 0; !moved && i < all.size(); ++i) {
      ObjectCore& core = all[i]->core();
      ObjectTable::Entry entry = *table_->find(core.name());
      entry.wear = core.newest().wear;
      core.try_set_free_places(worn_free_places(&entry.head));
      Result<bool> out = move_out(entry, 0, [&](u64 place, u64) {
        Result<bool> done = core.move_out(place);
        if (done && !*done) return done;  // whoever executes may take its time
        entry.head = core.settled_head();
        entry.unclear = core.unclear_heads();
        return done;
      });
      if (has_no_room_there(out, full)) continue;
      PERDURA_ASSIGN(moved, std::move(out));
      may_move = true;
    }
  }
  if (!moved && !full) return full.failure();
  return moved;
}

// There may be room for a smaller one. `full`: why there was none.
bool ObjectsRuntime::has_no_room_there(const Result<bool>& moved, Status& full) const {
  if (moved || moved.failure().code != Code::kNoSpace || heads_unknown_) return false;
  full = copy_of(moved.failure());
  return true;
}

Result<bool> ObjectsRuntime::move_unopened_out(Status& full) {
  for (const ObjectTable::Entry& each : table_->all()) {
    if (is_in_overflow(each.head) || open_.contains(std::string_view(each.head.name))) continue;
    ObjectTable::Entry entry = each;
    const u64 log_bytes = each.head.log_lines * kLineBytes;
    Result<bool> out = move_out(entry, log_bytes, [&](u64 place, u64 log_place) {
      return object::move_out(medium(), entry, *overflow_, place, log_place);
    });
    if (has_no_room_there(out, full)) continue;
    PERDURA_ASSIGN(const bool moved, std::move(out));
    if (moved) return true;
  }
  return false;
}

// `move`: to places there, after which `entry` is as it says; for a log that has to move too there
// is a second one. The table knows what it had before.
template <class Move>
Result<bool> ObjectsRuntime::move_out(ObjectTable::Entry& entry, u64 log_bytes, const Move& move) {
  object::ObjectSpace& there = overflow_->space();
  release_stand_ins();
  note_left({entry.head, entry.owner, entry.wear, {}});
  const u64 bytes = format::object_image_bytes(entry.head);
  PERDURA_ASSIGN(const u64 place, allocate_there(bytes));
  u64 log_place = 0;
  if (log_bytes != 0) {
    const Result<u64> found = guarded([&] { return allocate_there(log_bytes); });
    if (!found) {
      there.give_back(place, bytes);
      return found.failure();
    }
    log_place = *found;
  }
  // As it is by now: its own copy there may have given way for this.
  const ObjectHead before = table_->find(entry.head.name)->head;
  Result<bool> moved = guarded([&] { return move(place, log_place); });
  // Where a head may say so all the same neither space is anybody's.
  if (entry.unclear != 0) return noting_heads(std::move(moved));
  const bool is_out = is_in_overflow(entry.head);
  if (!is_out) there.give_back(place, bytes);
  if (log_place != 0 && !(is_out && entry.head.log_place == log_place))
    there.give_back(log_place, log_bytes);
  if (!is_out) return moved;
  table_->note_moved(before, entry);
  ++moves_.out;
  return moved;
}

// Where there is no room what stands in for copies here goes first: a checkpoint of its object does
// without it.
Result<u64> ObjectsRuntime::allocate_there(u64 bytes) {
  Result<u64> place = overflow_->space().allocate(bytes);
  if (place || place.failure().code != Code::kNoSpace) return place;
  bool gave_up = false;
  for (const auto& [name, open] : open_) {
    if (!open->has_stand_in()) continue;
    open->core().give_up_stand_in();
    gave_up = true;
  }
  if (!gave_up) return place;
  release_stand_ins();
  return overflow_->space().allocate(bytes);
}

// Of those whose newest head does without one: it is durable.
void ObjectsRuntime::release_stand_ins() {
  for (const auto& [name, open] : open_) {
    if (!open->has_stand_in() || format::stand_in_place(open->core().newest().head) != 0) continue;
    open->set_has_stand_in(false);
    ObjectTable::Entry entry = *table_->find(name);
    const ObjectHead before = entry.head;
    if (!is_in_overflow(before)) format::set_stand_in(entry.head, 0);
    table_->note_moved(before, entry);
  }
}

// Under the lock, before objects are closed: nothing of theirs waits then, also of those that moved
// out with their logs and were opened and not called. Where that cannot be it waits as before.
void ObjectsRuntime::empty_logs_there() {
  for (const auto& [name, open] : open_) {
    ObjectCore& core = open->core();
    if (!core.is_away() || core.has_failed() || core.head().log_place == 0) continue;
    ObjectTable::Entry entry = *table_->find(name);
    const ObjectHead before = entry.head;
    const u64 bytes = format::object_image_bytes(before);
    const Result<u64> place = guarded([&] { return allocate_there(bytes); });
    if (!place) continue;
    (void)core.write_again_there(*place);
    if (core.unclear_heads() != 0) continue;  // either may be there
    entry.head = core.settled_head();
    if (entry.head.log_place == 0) table_->note_moved(before, entry);
    else overflow_->space().give_back(*place, bytes);
  }
}

// Where that fails it stays away, unless its head is at home already: then it has failed.
Status ObjectsRuntime::bring_home(OpenObject& object) {
  ObjectCore& core = object.core();
  if (!core.is_away()) return {};
  ObjectTable::Entry entry = *table_->find(core.name());
  const ObjectHead before = entry.head;
  PERDURA_ASSIGN(const ObjectCore::Places places, allocate_places(before));
  Status home = core.move_home(places);
  if (!home && core.unclear_heads() != 0) return noting_heads(std::move(home));
  entry.head = core.newest().head;
  if (is_in_overflow(entry.head)) {
    give_back(places, before);
    return home;
  }
  object.set_has_stand_in(format::stand_in_place(entry.head) != 0);
  table_->note_moved(before, entry);
  object.set_last_look(looks_ + 1);
  if (home) ++moves_.home;
  return home;
}

Result<ObjectMoves> ObjectsRuntime::moves() const {
  PERDURA_TRY(require_not_forked());
  std::lock_guard lock(mutex_);
  return moves_;
}

// Whoever has the lock may wait for calls of objects, so who waits for the lock here looks whether
// somebody else has settled it.
Status ObjectsRuntime::settle(ObjectCore& core) {
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock()) {
    if (!core.is_away()) return {};
    std::this_thread::sleep_for(20us);
  }
  PERDURA_TRY(require_open());
  const auto open = open_.find(core.name());
  PERDURA_ASSERT(open != open_.end() && &open->second->core() == &core);
  return guarded([&] { return bring_home(*open->second); });
}

}  // namespace perdura::detail
