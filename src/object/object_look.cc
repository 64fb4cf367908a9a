#include "object/object_look.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "object/object_copies.hpp"
#include "object/object_log.hpp"

namespace perdura::object {

using format::ObjectCaller;
using format::ObjectHead;

Result<std::vector<std::string>> function_names(media::LinearMedium& medium,
                                                const ObjectHead& head) {
  AlignedBuffer bytes(std::max<u64>(head.functions_bytes, 1));
  PERDURA_TRY(medium.load_pages(head.functions_place, bytes.span()));
  const bool whole =
      medium.whole(head.functions_place, bytes.data(), head.functions_bytes,
                   PERDURA_SITE("object functions"), [&](const std::byte* at) {
                     return checksum(at, head.functions_bytes) == head.functions_checksum;
                   });
  if (!whole)
    return Failure{Code::kCorrupt,
                   "the functions of object '" + std::string(head.name) + "' (medium offset " +
                       std::to_string(head.functions_place) +
                       ") do not fit their checksum; restore the store from a copy"};
  std::vector<std::string> names;
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), head.functions_bytes);
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\0', at), all.size());
    names.emplace_back(all.substr(at, end - at));
    at = end + 1;
  }
  if (names.size() > format::kObjectFunctionsMax)
    return Failure{Code::kCorrupt, "object '" + std::string(head.name) + "' has " +
                                       std::to_string(names.size()) +
                                       " functions, more than entries can tell apart; restore the "
                                       "store from a copy"};
  return names;
}

namespace {

// Of the resilient copy; what stands in for the other one is verified beside it.
Result<std::vector<ObjectCaller>> callers_in(ObjectCopies copies) {
  const ObjectHead& head = copies.head();
  AlignedBuffer image(std::max<u64>(format::object_image_bytes(head), 1));
  PERDURA_TRY(copies.load(image.span()));
  if (copies.is_from_stand_in())
    return Failure{Code::kCorrupt, "the resilient copy of object '" + std::string(head.name) +
                                       "' (medium offset " + std::to_string(resilient_place(head)) +
                                       ") does not fit its checksum; opening it makes it anew from "
                                       "the one in the overflow store"};
  PERDURA_TRY(copies.check_stand_in());
  std::vector<ObjectCaller> found;
  const auto* const records = reinterpret_cast<const ObjectCaller*>(
      image.data() + (head.callers == 0 ? 0 : round_up(head.bytes, kLineBytes)));
  std::copy_if(records, records + head.callers, std::back_inserter(found),
               [](const ObjectCaller& each) { return each.calls != 0; });
  std::ranges::sort(found, {}, &ObjectCaller::potid);
  return found;
}

// From the older head's checkpoint on, where the log has that still.
Status look_at_log(media::LinearMedium& medium, const ObjectTable::Entry& entry, ObjectLook& look) {
  const ObjectHead& head = entry.head;
  const bool has_older = entry.older.identity == head.identity &&
                         entry.older.session == head.session && entry.older.log_lines != 0;
  look.kept_from = has_older ? std::min(entry.older.checkpoint, head.checkpoint) : head.checkpoint;
  look.tail = head.checkpoint;
  if (is_in_overflow(head) && head.log_place == 0) return {};
  const LogPlace place{head.log_place, head.log_lines, head.identity, head.session};
  PERDURA_ASSIGN(auto log, ObjectLog::create(medium, place, head.checkpoint));
  PERDURA_TRY(log->recover(head.session, overflow_log_end(head)));
  look.tail = log->tail();
  for (u64 index = head.checkpoint; index != look.tail; index += log->entry(index).lines)
    ++look.pending_entries;
  if (look.kept_from == head.checkpoint) return {};
  PERDURA_ASSIGN(log, ObjectLog::create(medium, place, look.kept_from));
  if (!log->recover(head.session) || log->tail() < head.checkpoint) {
    look.kept_from = head.checkpoint;  // a relaxed object's calls were not in the log
    return {};
  }
  for (u64 index = look.kept_from; index < head.checkpoint; index += log->entry(index).lines)
    ++look.resilient_entries;
  return {};
}

}  // namespace

Result<ObjectLook> look_at(media::LinearMedium& medium, const ObjectTable::Entry& entry,
                           OverflowStore* overflow) {
  const ObjectHead& head = entry.head;
  ObjectLook look;
  PERDURA_ASSIGN(look.functions, function_names(medium, head));
  if (is_in_overflow(head) && overflow == nullptr) return look;
  PERDURA_ASSIGN(look.callers, callers_in(ObjectCopies(medium, entry, overflow)));
  PERDURA_TRY(look_at_log(is_in_overflow(head) ? overflow->medium() : medium, entry, look));
  if (head.history != format::ObjectHistory::kAll) return look;
  PERDURA_TRY(
      ObjectArchive(medium, head).read(look.functions.size(), [&](const ArchivedCalls& calls) {
        calls.each_run([&](const RecordedCall& call, u64 times) {
          look.archived_calls += call.function != format::kObjectResized ? times : 0;
        });
      }));
  return look;
}

}  // namespace perdura::object
