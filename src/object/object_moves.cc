// An object comes to other places: for another size, to the overflow store, home from there, or to
// where less was written. It is one step each time: the whole of it is written there, a barrier,
// the head that names it, a barrier; then what it had is free. A crash leaves it in one of the two.
// Its head comes to another place in the table in two: it is written there, a barrier; a head of no
// object where it was, a barrier. Of what a crash leaves in between the later one counts.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "object/object_core.hpp"
#include "object/object_executing.hpp"
#include "object/place_wear.hpp"

namespace perdura::object {

using format::ObjectHead;

Status ObjectCore::be_home() {
  if (!is_away()) [[likely]]
    return {};
  return guarded([this]() -> Status {
    if (residence_ != nullptr) return residence_->settle(*this);
    return Failure{
        Code::kUnsupported,
        "object '" + name_ + "' is in an overflow store; open the objects with that to call it"};
  });
}

// At new places, of an object whose calls are all done and durable. The log goes on there with the
// next call. Both heads name the new copies before anything is appended: what the older one lacks,
// the log has. What stands in for a copy is needed no more.
Status ObjectCore::write_elsewhere(ObjectHead next, const format::ObjectWear& wear,
                                   std::span<const std::byte> image, const RecordedCall* resized) {
  const u64 done = log_->done();
  format::set_stand_in(next, 0);
  PERDURA_TRY(or_fail([&]() -> Status {
    changes_.note_all();
    if (recording_) PERDURA_TRY(archive(done, resized));
    PERDURA_TRY(copies_.move(next, wear, image, done, session_));
    if (recording_) note_archived();
    return copies_.write(image, changes_, done, session_);
  }));
  note_elsewhere(next, done);
  ++counts_.checkpoints;
  return {};
}

void ObjectCore::note_elsewhere(const ObjectHead& next, u64 done) {
  changes_.clear();
  log_->note_checkpoint(done, done);
  log_->move_to(next.log_place);
  note_wear();
  calls_since_checkpoint_ = 0;
  ++counts_.checkpoints;
}

namespace {

Failure is_shared(const ObjectHead& head, const char* keeps) {
  return {Code::kUnsupported, "object '" + std::string(head.name) +
                                  "' is shared by processes, and keeps its " + keeps +
                                  " meanwhile; open the objects in one process to change it"};
}

}  // namespace

Status ObjectCore::resize(u64 bytes, const u64 (&copy_place)[2], u32 potid,
                          const u64 (&writes)[2]) {
  if (InMethod::any())
    return Failure{Code::kMisuse, "a method of an object resizes object '" + name_ +
                                      "'; do that when the method has returned"};
  if (peers_ != nullptr) return is_shared(head(), "size");
  return execute_alone(true, [&]() -> Status {
    const NotCancelled not_cancelled;
    PERDURA_TRY(have_resize_room_alone());
    ObjectHead next = head();
    const u64 kept = std::min(next.bytes, bytes);
    next.bytes = bytes;
    std::ranges::copy(copy_place, next.copy_place);
    AlignedBuffer memory(std::max<u64>(format::object_image_bytes(next), 1));
    const auto image = memory.first(format::object_image_bytes(next));
    std::memset(image.data(), 0, image.size());
    std::memcpy(image.data(), image_.data(), kept);
    // Whatever needs memory comes before what cannot be undone.
    LineSet lines = changes_.lines_for(image.size());
    ObjectExecutor::Twins twins = executor_.twins_for(bytes);
    if (history_) std::ranges::copy(callers_of(image_, head()), callers_of(image, next).begin());
    const RecordedCall resized{.potid = potid,
                               .function = format::kObjectResized,
                               .context = std::as_bytes(std::span(&bytes, 1))};
    format::ObjectWear wear = newest().wear;
    std::ranges::copy(writes, wear.copy_writes);
    PERDURA_TRY(write_elsewhere(next, wear, image, &resized));
    memory_.exchange_image(std::move(memory));
    image_ = image;
    changes_.move_to(image_, std::move(lines));
    if (history_) history_->move_to(callers_of(image_, next));
    executor_.move_to(image_.first(bytes), std::move(twins));
    return {};
  });
}

// By whoever executes, when a head has been written.
void ObjectCore::note_wear() {
  if (most_writes_of(control_.head.slot()) >= worn_from_.load(std::memory_order_relaxed))
    is_worn_.store(true, std::memory_order_relaxed);
}

u64 ObjectCore::most_writes_of(const format::ObjectSlot& slot) const {
  return std::max(object::most_writes(slot.head, slot.wear),
                  slot.head.sequence - copies_.skipped());
}

void ObjectCore::say_when_worn(u64 writes) {
  const Executing executing(*this);
  worn_from_.store(writes, std::memory_order_relaxed);
  is_worn_.store(false, std::memory_order_relaxed);
  note_wear();
}

void ObjectCore::set_free_places(std::span<const format::ObjectFreePlace> places) {
  const Executing executing(*this);
  copies_.set_free_places(places);
}

void ObjectCore::try_set_free_places(std::span<const format::ObjectFreePlace> places) {
  if (const Executing executing(*this, std::try_to_lock); executing)
    copies_.set_free_places(places);
}

bool ObjectCore::is_idle() {
  const Executing executing(*this, std::try_to_lock);
  return static_cast<bool>(executing);
}

Status ObjectCore::move(const Places& to) {
  if (peers_ != nullptr) return is_shared(head(), "place");
  return execute_alone(true, [&]() -> Status {
    const NotCancelled not_cancelled;
    ObjectHead next = head();
    std::ranges::copy(to.copy, next.copy_place);
    next.log_place = to.log;
    return write_elsewhere(next, to.wear, image_, nullptr);
  });
}

// The second checkpoint writes over the copy that the head names which is left, so that has gone
// before.
Result<ObjectTable::Entry> ObjectCore::move_head(const ObjectTable::Entry& to) {
  if (peers_ != nullptr) return is_shared(head(), "place");
  ObjectTable::Entry left_there;
  PERDURA_TRY(execute_alone(true, [&]() -> Status {
    const NotCancelled not_cancelled;
    // One that could not be written and is there all the same has the sequence of the first there.
    PERDURA_TRY(copies_.clear_next_head());
    ObjectCopies left = copies_.move_head(to);
    PERDURA_TRY(or_fail([&]() -> Status {
      PERDURA_TRY(write_checkpoint());
      PERDURA_TRY(left.remove());
      return write_checkpoint();
    }));
    left_there = left.entry();
    return {};
  }));
  return left_there;
}

// One copy, which both heads name before anything is appended: until the next checkpoint what lies
// in the overflow store is the other one. Where that lacks what a log there has two are written.
Status ObjectCore::move_home(const Places& to) {
  const NotCancelled not_cancelled;
  const Executing executing(*this);
  PERDURA_TRY(require_usable());
  PERDURA_ASSERT(is_away());
  const u64 done = log_->done();
  ObjectHead next = head();
  std::ranges::copy(to.copy, next.copy_place);
  next.log_place = to.log;
  if (head().log_place == 0) format::set_stand_in(next, head().copy_place[0]);
  const format::ObjectBuild build_there = copies_.build();
  copies_.set_build(build_);  // its log begins anew
  changes_.note_all();
  Status moved = guarded([&] { return copies_.move(next, to.wear, image_, done, session_); });
  if (is_in_overflow(head())) {
    copies_.set_build(build_there);
    return stays_where_it_is(std::move(moved));
  }
  PERDURA_TRY(or_fail([&]() -> Status {
    PERDURA_TRY(std::move(moved));
    if (format::stand_in_place(head()) != 0) return copies_.repeat_head();
    ++counts_.checkpoints;
    return copies_.write(image_, changes_, done, session_);
  }));
  note_elsewhere(next, done);
  stage_.store(Stage::kHome, std::memory_order_release);
  log_->open();
  return {};
}

// A head that may be on the medium all the same is cleared before what it would name is written
// again, and before anything is logged behind it.
Failure ObjectCore::stays_where_it_is(Status moved) {
  if (!copies_.clear_next_head()) moved = fail(std::move(moved));
  return std::move(moved).failure();
}

// Nobody claims a place from when the log is closed: who calls then brings it home first. What is
// done and not durable is so with the copy.
Result<bool> ObjectCore::move_out(u64 place) {
  PERDURA_ASSERT(peers_ == nullptr && !recording_);
  const NotCancelled not_cancelled;
  const Executing executing(*this, std::try_to_lock);
  if (!executing || !is_callable() || !round() || !is_between_groups() || !log_->close())
    return false;
  const u64 done = log_->done();
  Status moved = guarded([&] { return copies_.move_out(place, {}, image_, done, session_); });
  if (!is_in_overflow(head())) {
    Failure why = stays_where_it_is(std::move(moved));
    log_->open();
    return why;
  }
  log_->note_checkpoint(done, done);
  calls_since_checkpoint_ = 0;
  ++counts_.checkpoints;
  changes_.note_all();
  stage_.store(Stage::kAway, std::memory_order_release);
  if (!moved) return fail(std::move(moved)).failure();
  return true;
}

Status ObjectCore::write_again_there(u64 place) {
  const NotCancelled not_cancelled;
  const Executing executing(*this);
  PERDURA_TRY(require_usable());
  PERDURA_ASSERT(is_away() && head().log_place != 0);
  const u64 done = log_->done();
  Status written = guarded([&] { return copies_.move_out(place, {}, image_, done, session_); });
  if (head().log_place != 0) return stays_where_it_is(std::move(written));
  log_->note_checkpoint(done, done);
  ++counts_.checkpoints;
  return written ? Status{} : fail(std::move(written));
}

void ObjectCore::give_up_stand_in() {
  const NotCancelled not_cancelled;
  const Executing executing(*this, std::try_to_lock);
  if (executing && is_callable() && round() && is_between_groups()) (void)write_checkpoint();
}

}  // namespace perdura::object
