// Objects that keep all calls: each checkpoint puts those that it covers into the archive, and what
// an earlier run of the program has called is answered from there.
#include <fmt/format.h>

#include "object/object_core.hpp"

namespace perdura::object {

using format::ObjectEntry;

// What was called under a former name of a function is called by its present one in this run.
void ObjectCore::record(RecordedCall call, u64 times) {
  if (call.function != format::kObjectResized)
    call.function = executor_.functions()[call.function].present.value_or(call.function);
  recording_->record.add(call, times);
}

// After the log has been read, which goes on where the archive ends.
Status ObjectCore::read_archive() {
  return recording_->archive.read(executor_.functions().size(), [this](const ArchivedCalls& calls) {
    calls.each_run([this](const RecordedCall& call, u64 times) { record(call, times); });
  });
}

// The calls before `done` that no head covers yet, from where that says on: durable with the
// barrier that comes before the next head, which names them.
Status ObjectCore::archive(u64 done, const RecordedCall* resized) {
  PERDURA_TRY(copies_.clear_next_head());
  std::span<const std::byte> answers = recording_->answers;
  recording_->archive.begin(head().checkpoint);
  const auto keep = [this](const RecordedCall& call) {
    recording_->archive.add(call);
    if (recording_->opening) record(call, 1);
  };
  for (u64 index = head().checkpoint; index != done; index += log_->entry(index).lines) {
    const ObjectEntry& entry = log_->entry(index);
    const u64 answer_bytes = executor_.functions()[entry.function].result_bytes;
    keep({.potid = entry.potid,
          .domain = entry.domain,
          .function = entry.function,
          .context = {log_->context_of(index), entry.context_bytes},
          .answer = answers.first(answer_bytes)});
    answers = answers.subspan(answer_bytes);
  }
  PERDURA_ASSERT(answers.empty());
  if (resized != nullptr) keep(*resized);
  PERDURA_ASSIGN(const ObjectArchive::End end, recording_->archive.write());
  copies_.set_archive_end(end);
  return {};
}

// The newest head names it. Some room is kept, so that a resize never takes what calls count on
// that were claimed meanwhile.
void ObjectCore::note_archived() {
  constexpr u64 kKept = 2 * ObjectArchive::kResizedLines;
  recording_->archive.note_durable();
  recording_->answers.clear();
  const u64 free = recording_->archive.free_lines();
  recording_->claim_end.store(
      head().checkpoint + (free - std::min(free, kKept)) / ObjectArchive::lines_for(1),
      std::memory_order_release);
}

// --- a program that is run again ----------------------------------------------------------------

bool ObjectCore::answers_held(const Call& call, void* result) {
  return !InMethod::any() && is_usable() &&
         recording_->record.answer_held(call, traits_[call.function].result_bytes, result);
}

Status ObjectCore::defer_recorded(const Call& call) {
  PERDURA_ASSIGN(const bool recorded, is_recorded(call, nullptr));
  return recorded ? Status{} : defer_new(call);
}

Status ObjectCore::call_recorded(const Call& call, void* result) {
  PERDURA_ASSIGN(const bool recorded, is_recorded(call, result));
  return recorded ? Status{} : call_new(call, result);
}

Result<bool> ObjectCore::is_recorded(const Call& call, void* result) {
  if (!recording_->record.is_pending()) return false;
  if (InMethod::any() || !is_usable()) PERDURA_TRY(check_call(call));
  return guarded([&]() -> Result<bool> {
    const u64 result_bytes = function_of(call).result_bytes;
    const CallRecord::Found found = recording_->record.answer(call, result_bytes, result);
    if (found == CallRecord::Found::kAnother) {
      PERDURA_TRY(check_call(call));  // what is refused was so before, and is not recorded
      return another_call(call);
    }
    return found == CallRecord::Found::kRecorded;
  });
}

Result<bool> ObjectCore::is_resize_recorded(u32 potid, u64 bytes) {
  if (!is_answering()) return false;
  PERDURA_TRY(require_usable());
  const CallRecord::Found found = recording_->record.answer_resize(potid, bytes);
  if (found == CallRecord::Found::kAnother)
    return another_call({.function = format::kObjectResized,
                         .potid = potid,
                         .context = std::as_bytes(std::span(&bytes, 1))});
  return found == CallRecord::Found::kRecorded;
}

std::string ObjectCore::text_of(u16 function, u64 sum) const {
  if (function == format::kObjectResized) return fmt::format("a resize to {} bytes", sum);
  return fmt::format("{} with arguments of sum {:#x}", executor_.functions()[function].name, sum);
}

Failure ObjectCore::another_call(const Call& call) const {
  const CallRecord::Next next = recording_->record.next(call.potid);
  return {Code::kMisuse,
          fmt::format("call {} of caller {} of object '{}' is recorded as {}, and now is {}: this "
                      "program does something else than the one that was run before; run that one, "
                      "or remove the object",
                      next.number, call.potid, name_, text_of(next.function, next.sum),
                      text_of(call.function, CallRecord::sum_of(call.context)))};
}

// --- room ---------------------------------------------------------------------------------------

Failure ObjectCore::full_archive() const {
  return {Code::kNoSpace,
          fmt::format("the archive of object '{}' is full, all {} bytes of it, and no call is "
                      "logged that it has no room for; make another object with more "
                      "archive_bytes, and copy the state of this one",
                      name_, head().archive_lines * kLineBytes)};
}

// For a call at which more must be looked.
Status ObjectCore::claim_checked(const Call& call, u64& index) {
  PERDURA_TRY(check_call(call));
  if (recording_) return claim_recorded(call.context.size(), index);
  index = log_->claim(call.context.size());
  return {};
}

// A place for a call that has room in the archive, whatever that and those before it come to. They
// come to less when they are there: so a checkpoint makes room.
Status ObjectCore::claim_recorded(u64 context_bytes, u64& index) {
  const auto claim = [&] {
    return log_->claim_before(recording_->claim_end.load(std::memory_order_acquire), context_bytes);
  };
  std::optional<u64> claimed = claim();
  if (!claimed) {
    PERDURA_TRY(checkpoint());
    claimed = claim();
  }
  if (!claimed) return full_archive();
  index = *claimed;
  return {};
}

// The same for whoever executes, and claims next.
Status ObjectCore::have_archive_room_alone(u64 context_bytes) {
  const auto has_room = [&] {
    return log_->tail() + format::object_entry_lines(context_bytes) <= recording_->claim_end.load();
  };
  if (!has_room() && log_->done() != head().checkpoint) PERDURA_TRY(write_checkpoint());
  return has_room() ? Status{} : full_archive();
}

Status ObjectCore::have_resize_room_alone() {
  if (!recording_) return {};
  const auto has_room = [&] {
    return recording_->archive.free_lines() >=
           ObjectArchive::lines_for(log_->done() - head().checkpoint) +
               ObjectArchive::kResizedLines;
  };
  if (!has_room()) PERDURA_TRY(write_checkpoint());
  return has_room() ? Status{} : full_archive();
}

}  // namespace perdura::object
