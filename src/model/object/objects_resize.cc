// An object gets another size: two new copies, of which its head knows when they are written; then
// the old ones are nobody's. A crash leaves it in one size or the other, as a whole.
#include <utility>

#include "model/object/objects_runtime.hpp"

namespace perdura::detail {

using format::ObjectHead;
using object::ObjectCore;
using object::ObjectTable;

namespace {

/// While it lives an object does not move out for others.
class Staying {
 public:
  Staying(const OpenObject*& stays, const OpenObject& object) : stays_(stays) { stays = &object; }
  ~Staying() { stays_ = nullptr; }
  Staying(const Staying&) = delete;

 private:
  const OpenObject*& stays_;
};

}  // namespace

// Who resizes has the mutex to the end, so that objects are not closed under him; who closes waits.
Status RuntimeLink::resize(OpenObject& object, u64 bytes) {
  if (forked_since(generation_))
    return Failure{Code::kForked, "object '" + object.core().name() +
                                      "' was opened by the parent process; open the objects again "
                                      "where that has closed them"};
  std::lock_guard lock(mutex_);
  if (runtime_ == nullptr)
    return Failure{Code::kMisuse, "object '" + object.core().name() + "' is closed; open it again"};
  return runtime_->resize(object.core().name(), bytes);
}

void RuntimeLink::cut() {
  std::lock_guard lock(mutex_);
  runtime_ = nullptr;
}

Status ObjectsRuntime::resize(std::string_view name, u64 bytes) {
  PERDURA_TRY(require_not_forked());
  if (bytes > format::kObjectBytesMax)
    return Failure{Code::kInvalidArgument, "object '" + std::string(name) + "' of '" + name_ +
                                               "' can have at most " +
                                               std::to_string(format::kObjectBytesMax) +
                                               " bytes, not " + std::to_string(bytes)};
  if (memory_)
    return Failure{Code::kUnsupported,
                   "object '" + std::string(name) +
                       "' is shared by processes, and keeps its size meanwhile; open the objects "
                       "in one process, without ObjectsOptions::shared, to change it"};
  const NotCancelled not_cancelled;
  std::lock_guard lock(mutex_);
  PERDURA_TRY(require_open());
  const auto open = open_.find(name);
  if (open == open_.end())
    return Failure{Code::kNotFound, "no object '" + std::string(name) + "' of '" + name_ +
                                        "' is open; open it before it gets another size"};
  const Staying staying(stays_, *open->second);
  return resize_open(*open->second, bytes);
}

// Under the lock. What is in between when it fails may be either on the medium, and both places are
// left alone. While there is made space its copy in the overflow store may be given up: what the
// table says that it has, it has until then.
Status ObjectsRuntime::resize_open(OpenObject& object, u64 bytes) {
  ObjectCore& core = object.core();
  PERDURA_ASSIGN(const bool recorded, core.is_resize_recorded(current_caller, bytes));
  if (recorded) return {};
  PERDURA_TRY(bring_home(object));
  PERDURA_TRY(core.sync());
  PERDURA_TRY(core.have_room_to_resize());
  const format::ObjectSlot slot = core.newest();
  note_left(slot);
  const std::vector<format::ObjectFreePlace> free_places = worn_free_places(&slot.head);
  ObjectHead next = slot.head;
  next.bytes = bytes;
  const u64 image = format::object_image_bytes(next);
  u64 places[2];
  const bool moves = next.archive_lines == 0;
  const Part parts[] = {{&places[0], image, moves}, {&places[1], image, moves}};
  PERDURA_TRY(allocate(parts));
  const u64 writes[] = {table_->wear().of(places[0], image), table_->wear().of(places[1], image)};
  core.set_free_places(free_places);
  Status resized = guarded([&] { return core.resize(bytes, places, current_caller, writes); });
  if (!resized && !core.has_failed()) {
    for (const u64 place : places) table_->space().give_back(place, image);
    return resized;
  }
  PERDURA_TRY(noting_heads(std::move(resized)));
  ObjectTable::Entry entry = *table_->find(next.name);
  const ObjectHead before = entry.head;
  entry.head = core.settled_head();
  table_->note_moved(before, entry);
  return {};
}

}  // namespace perdura::detail
