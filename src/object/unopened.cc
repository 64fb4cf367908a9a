#include "object/unopened.hpp"

#include <algorithm>

#include "object/object_build.hpp"
#include "object/object_copies.hpp"
#include "object/object_log.hpp"
#include "object/object_owner.hpp"

namespace perdura::object {

using format::ObjectHead;

Result<bool> move_out(media::LinearMedium& medium, ObjectTable::Entry& entry,
                      OverflowStore& overflow, u64 place, u64 log_place) {
  const ObjectHead& head = entry.head;
  if (head.history == format::ObjectHistory::kAll) return false;
  const u64 bytes = format::object_image_bytes(head);
  AlignedBuffer image(std::max<u64>(bytes, 1));
  ObjectCopies copies(medium, entry, &overflow);
  PERDURA_TRY(complete_build(medium, entry.place, head, entry.build));
  const LogPlace from{head.log_place, head.log_lines, head.identity, head.session};
  PERDURA_ASSIGN(const auto log, ObjectLog::create(medium, from, head.checkpoint));
  if (!copies.load(image.span()) || !log->recover(head.session)) return false;
  if (log->tail() == head.checkpoint) log_place = 0;
  // Durable with the barrier behind the copy.
  if (log_place != 0) PERDURA_TRY(log->copy_to(overflow.medium(), log_place));
  Status moved = copies.move_out(place, {log_place, log->tail()}, image.first(bytes),
                                 head.checkpoint, head.session);
  if (!moved && !is_in_overflow(copies.head())) (void)copies.clear_next_head();
  entry.head = copies.head();
  entry.unclear = copies.unclear();
  if (!moved) return moved.failure();
  entry.older = {};
  entry.owner = owner_of(entry.head);
  entry.wear = {};
  return true;
}

}  // namespace perdura::object
