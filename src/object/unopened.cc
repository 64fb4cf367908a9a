#include "object/unopened.hpp"

#include <algorithm>

#include "object/object_copies.hpp"
#include "object/object_log.hpp"

namespace perdura::object {

using format::ObjectHead;

namespace {

// Its resilient copy is all of it.
bool has_empty_log(media::LinearMedium& medium, const ObjectHead& head) {
  const LogPlace place{head.log_place, head.log_lines, head.identity, head.session};
  const auto log = ObjectLog::create(medium, place, head.checkpoint);
  return log && (*log)->recover(head.session) && (*log)->tail() == head.checkpoint;
}

}  // namespace

Result<bool> move_out(media::LinearMedium& medium, ObjectTable::Entry& entry,
                      OverflowStore& overflow, u64 place) {
  const ObjectHead& head = entry.head;
  if (head.history == format::ObjectHistory::kAll || !has_empty_log(medium, head)) return false;
  const u64 bytes = format::object_image_bytes(head);
  AlignedBuffer image(std::max<u64>(bytes, 1));
  ObjectCopies copies(medium, entry.place, head, entry.unclear, &overflow);
  if (!copies.load(image.span())) return false;
  Status moved = copies.move_out(place, image.first(bytes), head.checkpoint, head.session);
  if (!moved && !is_in_overflow(copies.head())) (void)copies.clear_next_head();
  entry.head = copies.head();
  entry.unclear = copies.unclear();
  if (!moved) return moved.failure();
  entry.older = {};
  return true;
}

}  // namespace perdura::object
