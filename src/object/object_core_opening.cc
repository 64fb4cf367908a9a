// How an object comes to be open: made, recovered from its copies and its log, or joined where
// another process has it open.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "object/object_build.hpp"
#include "object/object_core.hpp"

namespace perdura::object {

using format::ObjectCaller;
using format::ObjectEntry;
using format::ObjectHead;

namespace {

std::atomic<u64> next_core{1};

// An image that is new begins with zeros.
std::optional<CallHistory> have_history(const ObjectMemory& memory, std::span<std::byte> image,
                                        const ObjectHead& head) {
  if (memory.is_new()) std::memset(image.data(), 0, image.size());
  if (head.callers == 0) return std::nullopt;
  return std::optional<CallHistory>(std::in_place, callers_of(image, head), memory.admitted());
}

// Whether an older head is of the same object a checkpoint ago, so that its copy and the log make
// what the newest one names.
bool leads_to_same(const ObjectHead& older, const ObjectHead& newest) {
  return !is_in_overflow(newest) && older.identity == newest.identity &&
         older.session == newest.session && older.copy != newest.copy &&
         older.checkpoint <= newest.checkpoint && older.bytes == newest.bytes &&
         older.callers == newest.callers && older.history == newest.history &&
         older.archive_lines == newest.archive_lines &&
         (older.archive_lines == 0 || older.archive_place == newest.archive_place) &&
         older.log_place == newest.log_place && older.log_lines == newest.log_lines &&
         std::ranges::equal(older.copy_place, newest.copy_place);
}

}  // namespace

ObjectCore::ObjectCore(Parts&& parts, ObjectMemory&& memory, std::unique_ptr<ObjectLog> log)
    : name_(parts.head.name),
      id_(next_core.fetch_add(1)),
      options_(parts.options),
      session_(parts.session),
      build_(parts.build),
      is_nvm_(parts.medium->geometry().byte_addressable),
      memory_(std::move(memory)),
      control_(memory_.control()),
      peers_(parts.peers),
      copies_(*parts.medium, parts.head_place, parts.skipped, control_.head, parts.overflow),
      log_(std::move(log)),
      image_(memory_.pages().first(format::object_image_bytes(parts.head))),
      changes_(image_,
               parts.peers == nullptr && std::ranges::any_of(parts.functions, &Function::reports)),
      history_(have_history(memory_, image_, parts.head)),
      recording_(parts.head.history == format::ObjectHistory::kAll
                     ? std::make_unique<Recording>(*parts.medium, parts.head)
                     : nullptr),
      execution_(control_.execution),
      executor_({.log = log_.get(),
                 .history = history_ ? &*history_ : nullptr,
                 .answers = recording_ ? &recording_->answers : nullptr,
                 .execution = &execution_,
                 .changes = &changes_,
                 .state = image_.first(parts.head.bytes),
                 .waiters = memory_.waiters(),
                 .base = memory_.base(),
                 .servers = options_.servers,
                 .verifies = options_.verifies,
                 .name = &name_},
                std::move(parts.functions)),
      turns_(control_.turns),
      residence_(parts.residence),
      calls_since_checkpoint_(control_.calls_since_checkpoint) {
  for (const Function& each : executor_.functions()) {
    traits_.push_back({.context_bytes = each.context_bytes,
                       .is_plain = each.accepts == nullptr && !history_,
                       .commutes = each.commutes && options_.servers != 0,
                       .result_bytes = static_cast<u32>(each.result_bytes)});
    merges_ = merges_ || traits_.back().commutes;
  }
  if (merges_) log_->have_merging();
  copies_.set_free_places(parts.free_places);
  if (memory_.is_new()) {
    control_.head.set({parts.head, parts.owner, parts.wear, {}});
    control_.head.unclear = parts.unclear;
    control_.head.build = parts.build_found;
    control_.session = session_;
    control_.durability = static_cast<u8>(options_.durability);
    control_.each_its_own = options_.servers == 0;
    control_.same_build = options_.same_build;
  }
}

// Answers of all functions have room in a slot, and those that others bring if they are as long.
Result<std::unique_ptr<ObjectCore>> ObjectCore::make(Parts&& parts, u64 from) {
  ObjectMemory::Sizes sizes{.lines = parts.head.log_lines,
                            .callers = parts.head.callers,
                            .image_bytes = format::object_image_bytes(parts.head)};
  if (parts.memory) {
    sizes.answer_bytes = kLineBytes;
    for (const Function& each : parts.functions)
      sizes.answer_bytes = std::max(sizes.answer_bytes, round_up(each.result_bytes, kLineBytes));
  }
  PERDURA_ASSIGN(ObjectMemory memory,
                 parts.memory ? parts.memory(sizes) : ObjectMemory::of_process(sizes));
  const LogPlace place{parts.head.log_place, parts.head.log_lines, parts.head.identity,
                       parts.session};
  PERDURA_ASSIGN(auto log, ObjectLog::create(*parts.medium, place, from, memory.log()));
  if (memory.is_new()) memory.control().answer_bytes = sizes.answer_bytes;
  return std::unique_ptr<ObjectCore>(
      new ObjectCore(std::move(parts), std::move(memory), std::move(log)));
}

Result<std::unique_ptr<ObjectCore>> ObjectCore::create(Parts parts,
                                                       std::span<const std::byte> state) {
  parts.head.bytes = state.size();
  parts.head.checkpoint = ObjectLog::kFirstIndex;
  parts.head.copy = 1;  // the first one is the other
  parts.head.archive_used = 0;
  parts.head.archive_sum = parts.head.identity;
  bool* const is_written = parts.is_written;
  PERDURA_ASSIGN(auto core, make(std::move(parts), ObjectLog::kFirstIndex));
  std::memcpy(core->image_.data(), state.data(), state.size());
  if (is_written != nullptr) *is_written = true;
  core->copies_.set_build(core->build_);
  PERDURA_TRY(core->begin_session());
  if (core->peers_ != nullptr) core->tell_functions(core->peers_->life());
  return core;
}

Result<std::unique_ptr<ObjectCore>> ObjectCore::recover(Parts parts) {
  PERDURA_ASSERT(parts.session != parts.head.session);
  const bool functions_are_new = parts.functions_are_new;
  bool* const is_written = parts.is_written;
  PERDURA_TRY(complete_build(*parts.medium, parts.head_place, parts.head, parts.build_found));
  PERDURA_ASSIGN(auto core, load(parts));
  PERDURA_TRY(core->repeat());
  if (is_written != nullptr) *is_written = true;
  PERDURA_TRY(core->begin(functions_are_new));
  if (core->peers_ != nullptr) core->tell_functions(core->peers_->life());
  return core;
}

Result<std::unique_ptr<ObjectCore>> ObjectCore::join(Parts parts) {
  const bool is_left = parts.is_left;
  PERDURA_ASSIGN(auto core, make(std::move(parts), ObjectLog::kFirstIndex));
  if (is_left) PERDURA_TRY(core->choose_anew());
  PERDURA_TRY(core->check_choices());
  PERDURA_TRY(core->join_build());
  if (core->peers_ != nullptr) core->tell_functions(core->peers_->life());
  return core;
}

// The older copy, and what the log has since, are the same object.
Result<std::unique_ptr<ObjectCore>> ObjectCore::load(Parts& parts) {
  const ObjectHead newest = parts.head;
  const ObjectHead older = parts.older;
  const auto read = [&]() -> Result<std::unique_ptr<ObjectCore>> {
    const u64 session = parts.head.session;
    PERDURA_ASSIGN(auto core, make(Parts(parts), parts.head.checkpoint));
    PERDURA_TRY(core->copies_.load(core->memory_.pages()));
    core->repaired_ = core->copies_.is_from_stand_in();
    if (core->history_ && !core->history_->admit_recorded()) return core->damaged_history();
    if (is_in_overflow(parts.head)) {
      PERDURA_TRY(core->load_away(*parts.overflow));
      return core;
    }
    PERDURA_TRY(core->log_->recover(session));
    if (core->recording_) PERDURA_TRY(core->read_archive());
    return core;
  };
  Result<std::unique_ptr<ObjectCore>> core = read();
  if (core || core.failure().code != Code::kCorrupt || !leads_to_same(older, newest)) return core;
  // The next head takes the newest one's place: until then the older one and its copy stay.
  parts.head = older;
  format::set_stand_in(parts.head, 0);  // that has been another one's since, perhaps
  parts.head.sequence = newest.sequence + 1;
  parts.head.functions_place = newest.functions_place;
  parts.head.functions_bytes = newest.functions_bytes;
  parts.head.functions_checksum = newest.functions_checksum;
  Result<std::unique_ptr<ObjectCore>> other = read();
  if (!other || (*other)->log_->tail() < newest.checkpoint) return core;
  (*other)->repaired_ = true;
  return other;
}

// It stays in the overflow store. Where it has a log there that is done in memory, and in the copy
// when it comes home.
Status ObjectCore::load_away(OverflowStore& overflow) {
  stage_ = Stage::kAway;
  if (head().log_place == 0) return {};
  const LogPlace place{head().log_place, head().log_lines, head().identity, head().session};
  PERDURA_ASSIGN(const auto there, ObjectLog::create(overflow.medium(), place, head().checkpoint));
  PERDURA_TRY(there->recover(head().session, overflow_log_end(head())));
  log_->adopt(*there);
  return {};
}

// What the resilient copy lacks.
Status ObjectCore::repeat() {
  if (options_.same_build && log_->done() != log_->tail()) PERDURA_TRY(check_build());
  for (u64 index = log_->done(); index != log_->tail(); index += log_->entry(index).lines) {
    PERDURA_TRY(check_known(log_->entry(index), log_->context_of(index)));
    if (history_ && !history_->admit(log_->entry(index).potid)) return damaged_history();
  }
  return run(log_->tail());
}

// A checkpoint of what it is now comes before this session appends: its entries are told from those
// of earlier ones by the head's session. What is away has the entries and the build that it had.
Status ObjectCore::begin(bool functions_are_new) {
  if (!is_away()) {
    copies_.set_build(build_);
    return begin_session();
  }
  const bool is_closed = log_->close();
  PERDURA_ASSERT(is_closed);
  return functions_are_new ? copies_.write_heads() : Status{};
}

// What waits in the log was called for what the code of its build does.
Status ObjectCore::check_build() const {
  if (is_same(control_.head.build, build_)) return {};
  u64 entries = 0;
  for (u64 index = log_->done(); index != log_->tail(); index += log_->entry(index).lines)
    ++entries;
  return Failure{Code::kIncompatible,
                 "the log of object '" + name_ + "' has " + std::to_string(entries) +
                     (entries == 1 ? " entry" : " entries") + " of " +
                     build_text(control_.head.build) + ", and this program is " +
                     build_text(build_) +
                     ": open it with that one, and close it there; or without same_build, if the "
                     "methods do the same"};
}

// Both slots name the session before anything is appended: where the newer head is damaged later,
// the older one leads to the same entries, or to a gap before them.
Status ObjectCore::begin_session() {
  PERDURA_TRY(write_checkpoint());
  if (recording_) recording_->opening = false;
  return write_checkpoint();
}

bool ObjectCore::has_function_of(const ObjectEntry& entry) const {
  const auto& functions = executor_.functions();
  return entry.function < functions.size() && functions[entry.function].run != nullptr &&
         functions[entry.function].context_bytes == entry.context_bytes;
}

Status ObjectCore::check_known(const ObjectEntry& entry, const std::byte* context) const {
  if (!has_function_of(entry)) return lacks_functions();
  const Function& function = executor_.functions()[entry.function];
  if (function.accepts != nullptr && !function.accepts(context))
    return Failure{Code::kIncompatible,
                   "the log of object '" + name_ + "' calls function '" + function.name +
                       "' with " + std::to_string(entry.context_bytes) +
                       " bytes of arguments, which it does not accept in this program; open it "
                       "with the program that wrote it"};
  return {};
}

std::string ObjectCore::name_of(u16 function) const {
  const auto& functions = executor_.functions();
  return function < functions.size() ? "'" + functions[function].name + "'"
                                     : "number " + std::to_string(function);
}

// All of them, so that a program which was changed is mended at once.
Failure ObjectCore::lacks_functions() const {
  constexpr size_t kNamedMax = 8;
  std::map<std::pair<u16, u32>, u64> lacking;
  for (u64 index = log_->done(); index != log_->tail(); index += log_->entry(index).lines) {
    const ObjectEntry& entry = log_->entry(index);
    if (!has_function_of(entry)) ++lacking[{entry.function, entry.context_bytes}];
  }
  std::string calls;
  std::string formerly;
  for (size_t named = 0; const auto& [called, entries] : lacking) {
    if (++named > kNamedMax) break;
    calls += (named == 1 ? "function " : ", and function ") + name_of(called.first) + " with " +
             std::to_string(called.second) + " bytes of arguments in " + std::to_string(entries) +
             (entries == 1 ? " entry" : " entries");
    if (const auto here = bytes_here(called.first)) {
      calls += " (with " + std::to_string(*here) + " in this program)";
      continue;  // another name would not help
    }
    if (const std::string said = formerly_of(called.first); !formerly.ends_with(said))
      formerly += (formerly.empty() ? "" : ", ") + said;
  }
  if (lacking.size() > kNamedMax)
    calls += ", and " + std::to_string(lacking.size() - kNamedMax) + " more";
  return {Code::kIncompatible, "the log of object '" + name_ + "' calls " + calls +
                                   ", which this program does not have; " + remedy_by(formerly)};
}

std::string ObjectCore::remedy_by(const std::string& formerly) {
  const std::string remedy = "open it with the program that wrote it, or link that function";
  if (formerly.empty()) return remedy;
  return remedy + "; where it has another name or class now, say " + formerly + " of the method";
}

// Of its arguments, where this program has a function of the name.
std::optional<u64> ObjectCore::bytes_here(u16 function) const {
  const auto& functions = executor_.functions();
  if (function >= functions.size() || functions[function].run == nullptr) return std::nullopt;
  return functions[function].context_bytes;
}

std::string ObjectCore::formerly_of(u16 function) const {
  const auto& functions = executor_.functions();
  return function < functions.size() ? "formerly(\"" + functions[function].name + "\")" : "";
}

Failure ObjectCore::damaged_history() const {
  return {Code::kCorrupt, "the history of object '" + name_ +
                              "' has more callers than room for them, or one twice; restore the "
                              "store from a copy"};
}

}  // namespace perdura::object
