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
#include "region/engine_rules.hpp"

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

// --- two stores ----------------------------------------------------------------------------------

// As its region's heads say, before there is a table of them.
Result<bool> ObjectsRuntime::has_objects_away(const format::RegionRecord& record) const {
  if ((region::engine_rules(record).feature & format::kFeatureOverflow) == 0) return false;
  ObjectTable known(shared_->volume(), record.region);
  PERDURA_TRY(known.read());
  return std::ranges::any_of(
      known.all(), [](const ObjectTable::Entry& each) { return is_in_overflow(each.head); });
}

// `record`: of the region whose objects go there.
Status ObjectsRuntime::open_overflow(const format::RegionRecord& record,
                                     const ObjectsOptions& options, const OpenMedium& open_medium) {
  ObjectsOptions how = options;
  PERDURA_ASSIGN(const bool are_away, has_objects_away(record));
  how.create = options.create && !are_away;  // or another one would be there from now on
  Result<std::unique_ptr<store::SharedVolume>> opened =
      open_store(options.overflow, how, open_medium);
  if (!opened && opened.failure().code == Code::kNotFound && how.create != options.create)
    return Failure{Code::kMisuse, "objects of '" + shared_->volume().name() +
                                      "' lie in another overflow store than '" + options.overflow +
                                      "', which is not there or empty; open the objects with "
                                      "that one"};
  PERDURA_ASSIGN(overflow_volume_, std::move(opened));
  region::Volume& volume = overflow_volume_->volume();
  PERDURA_ASSIGN(store::SharedVolume::Claim claim,
                 overflow_volume_->claim(options.region, how.create));
  if (claim.is_new) {
    claim.record.engine = format::EngineId::kOverflow;
    PERDURA_TRY(add_region(volume, claim.record));
  } else if (!region::engine_rules(claim.record).is_overflow) {
    return Failure{Code::kInvalidArgument, "region '" + options.region +
                                               "' of the overflow store '" + volume.name() +
                                               "' holds something else; choose a store of its own"};
  }
  overflow_ = std::make_unique<object::OverflowStore>(volume, claim.record.region);
  PERDURA_TRY(overflow_->bind(shared_->volume().superblock(), record.region));
  if ((region::engine_rules(record).feature & format::kFeatureOverflow) != 0) return {};
  return shared_->volume().set_region_engine(record.region, format::EngineId::kObjectsOverflowing);
}

// None of its objects is half a store.
Status ObjectsRuntime::check_overflow() const {
  u64 elsewhere = 0;
  for (const ObjectTable::Entry& each : table_->all())
    if (is_in_overflow(each.head) && !(overflow_ && each.head.copy_place[1] == overflow_->id()))
      ++elsewhere;
  if (elsewhere == 0) return {};
  const std::string are = std::to_string(elsewhere) +
                          (elsewhere == 1 ? " object of '" : " objects of '") +
                          shared_->volume().name() + "' ";
  return Failure{Code::kMisuse,
                 overflow_ ? are + "lie in another overflow store than '" + overflow_->name() +
                                 "'; open the objects with that one"
                 : memory_ ? are +
                                 "lie in an overflow store, which processes cannot share; open "
                                 "the objects in one process, with ObjectsOptions::overflow"
                           : are +
                                 "lie in an overflow store; open the objects with its URI as "
                                 "ObjectsOptions::overflow"};
}

// --- space ---------------------------------------------------------------------------------------

// Of the store's own.
Result<u64> ObjectsRuntime::allocate(u64 bytes) {
  for (;;) {
    Result<u64> place = table_->space().allocate(bytes);
    if (place || place.failure().code != Code::kNoSpace) return place;
    if (!overflow_)
      return Failure{Code::kNoSpace,
                     place.failure().message + ", or an overflow store (ObjectsOptions::overflow)"};
    PERDURA_ASSIGN(const bool moved, move_somebody_out());
    if (!moved)
      return Failure{Code::kNoSpace, place.failure().message +
                                         ". None of its objects can be moved to '" +
                                         overflow_->name() +
                                         "' now: there are those that are called all the time, and "
                                         "that keep all their calls"};
  }
}

// For all of an object that is not the names of its functions.
Result<ObjectCore::Places> ObjectsRuntime::allocate_places(const ObjectHead& head) {
  ObjectCore::Places places{};
  const u64 image = format::object_image_bytes(head);
  const std::pair<u64&, u64> parts[] = {
      {places.copy[0], image}, {places.copy[1], image}, {places.log, head.log_lines * kLineBytes}};
  for (size_t i = 0; i < std::size(parts); ++i) {
    const Result<u64> place = allocate(parts[i].second);
    if (!place) {
      for (size_t taken = 0; taken < i; ++taken)
        table_->space().give_back(parts[taken].first, parts[taken].second);
      return place.failure();
    }
    parts[i].first = *place;
  }
  ObjectHead there = head;
  there.copy = 0;
  std::ranges::copy(places.copy, there.copy_place);
  there.log_place = places.log;
  places.wear = table_->wear().of(there);
  return places;
}

// Those that can move, whom nobody has called for the longest time first. A call says nothing to
// anybody; so all that were called since the last look were so at this one.
std::vector<OpenObject*> ObjectsRuntime::by_last_call() {
  ++looks_;
  std::vector<OpenObject*> found;
  for (const auto& [name, open] : open_) {
    if (open->was_called()) open->set_last_look(looks_);
    const bool may_move = !open->core().is_away() && !open->core().keeps_all_calls();
    if (may_move && open.get() != stays_) found.push_back(open.get());
  }
  std::ranges::sort(found, {}, [](OpenObject* each) {
    return std::pair(each->last_look(), std::string_view(each->core().head().name));
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
      ObjectTable::Entry entry = *table_->find(core.head().name);
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
  const ObjectHead before = entry.head;
  note_left({before, entry.owner, entry.wear, {}});
  const u64 bytes = format::object_image_bytes(before);
  PERDURA_ASSIGN(const u64 place, there.allocate(bytes));
  u64 log_place = 0;
  if (log_bytes != 0) {
    const Result<u64> found = there.allocate(log_bytes);
    if (!found) {
      there.give_back(place, bytes);
      return found.failure();
    }
    log_place = *found;
  }
  Result<bool> moved = move(place, log_place);
  // Where a head may say so all the same neither space is anybody's.
  if (entry.unclear != 0) return noting_heads(std::move(moved));
  const bool is_out = is_in_overflow(entry.head);
  if (!is_out) there.give_back(place, bytes);
  if (log_place != 0 && !(is_out && entry.head.log_place == log_place))
    there.give_back(log_place, log_bytes);
  if (!is_out) return moved;
  note_moved(before, entry);
  ++moves_.out;
  return moved;
}

// What it had elsewhere is nobody's any more. The names of its functions are where they were, and
// never free in between: who gives space back may get no memory for that, and then the space is
// nobody's until the next opening.
void ObjectsRuntime::note_moved(const ObjectHead& before, const ObjectTable::Entry& entry) {
  table_->note(entry);
  table_->give_back_moved(before);
}

Status ObjectsRuntime::bring_home(OpenObject& object) {
  ObjectCore& core = object.core();
  if (!core.is_away()) return {};
  ObjectTable::Entry entry = *table_->find(core.head().name);
  PERDURA_ASSIGN(const ObjectCore::Places places, allocate_places(entry.head));
  PERDURA_TRY(noting_heads(core.move_home(places)));
  const ObjectHead before = entry.head;
  entry.head = core.settled_head();
  note_moved(before, entry);
  object.set_last_look(looks_ + 1);
  ++moves_.home;
  return {};
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
  const auto open = open_.find(std::string_view(core.head().name));
  PERDURA_ASSERT(open != open_.end() && &open->second->core() == &core);
  return guarded([&] { return bring_home(*open->second); });
}

}  // namespace perdura::detail
