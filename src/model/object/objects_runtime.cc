#include "model/object/objects_runtime.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "base/checksum.hpp"
#include "base/futex.hpp"
#include "base/threads.hpp"
#include "model/object/object_opening.hpp"
#include "object/function_name.hpp"
#include "object/object_look.hpp"

namespace perdura::detail {
namespace {

using namespace std::chrono_literals;

using format::ObjectHead;
using object::ObjectCore;
using object::ObjectTable;

constexpr u64 kLogBytesMin = kPageBytes;

Failure invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

bool can_be_kept(std::string_view name) {
  return !name.empty() && name.size() <= format::kObjectNameMax &&
         name.find('\0') == std::string_view::npos;
}

Status check_name(std::string_view name, const std::string& store) {
  if (can_be_kept(name)) return {};
  std::string shown(name);
  std::ranges::replace(shown, '\0', '?');  // a message ends there
  return invalid("the name '" + shown + "' of an object of '" + store + "' has " +
                 std::to_string(name.size()) + " bytes; it has 1 to " +
                 std::to_string(format::kObjectNameMax) + ", none of them zero");
}

// Of a new object.
Status check_bytes(const ObjectType& type, u64 bytes) {
  if (bytes == 0 || bytes == type.bytes) return {};
  if (type.is_flexible && bytes >= type.bytes && bytes <= format::kObjectBytesMax) return {};
  return invalid(
      "objects of " + object::type_text(type.name) + " have " + std::to_string(type.bytes) +
      (type.is_flexible
           ? " to " + std::to_string(format::kObjectBytesMax) + " bytes, not "
           : " bytes, since their state is not flexible (perdura::FlexibleState), not ") +
      std::to_string(bytes));
}

Status check_type(const ObjectType& type) {
  const std::string_view name = type.name;
  if (!can_be_kept(name))
    return invalid("the name of the type " + object::type_text(name) + " has " +
                   std::to_string(name.size()) + " bytes as compilers write it; it has 1 to " +
                   std::to_string(format::kObjectNameMax) + ", so choose a shorter one");
  return check_names(type);
}

Status check_options(const ObjectOptions& options) {
  if (!std::has_single_bit(options.log_bytes) || options.log_bytes < kLogBytesMin ||
      options.log_bytes > format::kObjectLogLinesMax * kLineBytes)
    return invalid("log_bytes is a power of two from " + std::to_string(kLogBytesMin) + " to " +
                   std::to_string(format::kObjectLogLinesMax * kLineBytes) + ", not " +
                   std::to_string(options.log_bytes));
  if (options.history > ObjectHistory::kAll)
    return invalid("history " + std::to_string(static_cast<int>(options.history)) +
                   " is none of ObjectHistory");
  if (options.history != ObjectHistory::kNone &&
      (!std::has_single_bit(options.callers) || options.callers > format::kObjectCallersMax))
    return invalid("callers is a power of two from 1 to " +
                   std::to_string(format::kObjectCallersMax) + ", not " +
                   std::to_string(options.callers));
  constexpr u64 kArchiveBytesMax = format::kObjectArchiveLinesMax * kLineBytes;
  if (options.history == ObjectHistory::kAll &&
      (options.archive_bytes == 0 || options.archive_bytes > kArchiveBytesMax))
    return invalid("archive_bytes is 1 to " + std::to_string(kArchiveBytesMax) + ", not " +
                   std::to_string(options.archive_bytes));
  if (options.durability > ObjectDurability::kRelaxed)
    return invalid("durability " + std::to_string(static_cast<int>(options.durability)) +
                   " is none of ObjectDurability");
  if (options.pending_lines == 0)
    return invalid(
        "pending_lines is at least 1, not 0; to run each call at once, set servers to 0");
  return {};
}

// A record has so much for the last answer.
Status check_answers(const ObjectType& type, bool has_history) {
  if (!has_history) return {};
  for (const ObjectMethod& method : type.methods)
    if (method.result_bytes > sizeof format::ObjectCaller::answer)
      return invalid("method " + object::function_text(method.name) + " answers with " +
                     std::to_string(method.result_bytes) + " bytes; a history of callers has " +
                     std::to_string(sizeof format::ObjectCaller::answer) +
                     " for them, so let it answer less, or keep none");
  return {};
}

}  // namespace

std::shared_ptr<OpenObject> about_to_open(const std::vector<std::string>& names,
                                          const ObjectType& type, const ObjectOptions& options,
                                          const std::shared_ptr<RuntimeLink>& runtime) {
  return std::make_shared<OpenObject>(numbers_of(names, type),
                                      std::chrono::milliseconds(options.pending_ms), runtime);
}

u64 bytes_of(const std::vector<std::string>& names) {
  u64 bytes = 0;
  for (const std::string& each : names) bytes += each.size() + 1;
  return bytes;
}

object::CoreOptions core_options(const ObjectOptions& options, const ObjectHead& head) {
  static_assert(static_cast<u8>(ObjectDurability::kRelaxed) ==
                    static_cast<u8>(object::Durability::kRelaxed) &&
                static_cast<u8>(ObjectDurability::kEach) ==
                    static_cast<u8>(object::Durability::kEach));
  return {.checkpoint_calls = options.checkpoint_calls,
          .pending_lines = std::min<u64>(head.log_lines / 4, options.pending_lines),
          .servers = std::min(options.servers, std::max(1u, std::thread::hardware_concurrency())),
          .durability = static_cast<object::Durability>(options.durability),
          .verifies = options.verify_replay,
          .same_build = options.same_build};
}

Status check_function_names(const std::vector<std::string>& names, const ObjectHead& head) {
  const u64 bytes = bytes_of(names);
  if (bytes <= format::kObjectFunctionsBytesMax && names.size() <= format::kObjectFunctionsMax)
    return {};
  return Failure{Code::kUnsupported,
                 "the names of the methods that object '" + std::string(head.name) +
                     "' has or ever had are " + std::to_string(names.size()) + " with " +
                     std::to_string(bytes) + " bytes; " +
                     std::to_string(format::kObjectFunctionsMax) + " with " +
                     std::to_string(format::kObjectFunctionsBytesMax) + " are possible"};
}

namespace {

// A call waits until its entry fits behind the checkpoint, or behind the beginning of the page that
// has it: so long as that cannot be, for ever.
Status check_room(const ObjectType& type, u64 log_lines, u64 write_bytes) {
  for (const ObjectMethod& method : type.methods) {
    const std::string takes = "method " + object::function_text(method.name) + " takes " +
                              std::to_string(method.context_bytes) + " bytes of arguments; ";
    if (method.context_bytes > format::kObjectContextMax)
      return invalid(takes + std::to_string(format::kObjectContextMax) +
                     " can be logged, so give it less, in several calls");
    const u64 needed =
        format::object_entry_lines(method.context_bytes) + write_bytes / kLineBytes - 1;
    if (needed > log_lines)
      return invalid(takes + "that needs log_bytes of " +
                     std::to_string(std::bit_ceil(needed) * kLineBytes) +
                     " when the object is made, not " + std::to_string(log_lines * kLineBytes));
  }
  return {};
}

}  // namespace

// A forked child has no such thread.
ObjectsRuntime::~ObjectsRuntime() {
  if (forked_since(generation_)) (void)looker_.release();
  (void)close();
}

Status ObjectsRuntime::require_not_forked() const {
  if (!forked_since(generation_)) return {};
  return Failure{Code::kForked, "the objects of '" + name_ +
                                    "' were opened by the parent process; open them again where "
                                    "that has closed them"};
}

Failure ObjectsRuntime::are_closed() const {
  return {Code::kMisuse, "the objects of '" + name_ + "' are closed; open them again"};
}

Status ObjectsRuntime::require_open() const {
  PERDURA_TRY(require_not_forked());
  if (closed_) return are_closed();
  if (heads_unknown_)
    return Failure{Code::kIo, "an object of '" + shared_->volume().name() +
                                  "' could not be made, opened or removed earlier, so it may be "
                                  "there or not; open the objects again"};
  return {};
}

Result<std::shared_ptr<OpenObject>> ObjectsRuntime::object(std::string_view name,
                                                           const ObjectType& type,
                                                           const ObjectOptions& options) {
  PERDURA_TRY(check_name(name, name_));
  PERDURA_TRY(naming(name, name_, check_type(type)));
  PERDURA_TRY(naming(name, name_, check_options(options)));
  PERDURA_TRY(require_not_forked());
  const NotCancelled not_cancelled;
  const Turn turn(memory_);
  std::lock_guard lock(mutex_);
  PERDURA_TRY(require_open());
  PERDURA_TRY(catch_up());
  const ObjectTable::Entry* const found = table_->find(name);
  if (found != nullptr && !is_of_type(found->head, type))
    return other_type(found->head, type, shared_->volume().name());
  if (const auto open = open_.find(name); open != open_.end()) return open->second;
  PERDURA_TRY(naming(name, name_, check_build(program_.of(type), options)));
  if (memory_) (void)memory_->note_change();  // whatever comes of it
  decltype(open_) opening;  // what is on the medium is known here, also where memory is short
  opening.emplace(name, nullptr);
  PERDURA_ASSIGN(auto made, found == nullptr ? create(name, type, options)
                                             : open_found(*found, type, options));
  opening.begin()->second = made;
  open_.merge(opening);
  note_change();
  if (wear_moves_ != 0 && !memory_) made->core().say_when_worn(wear_moves_);
  look_after(*made);
  return made;
}

// Under the lock. Without a thread calls wait until somebody needs them, and what another process
// cannot do waits for this one.
void ObjectsRuntime::look_after(const OpenObject& object) {
  if (object.pending().count() == 0 && !memory_) return;
  if (looker_) return ring();
  const NoSignals no_signals;
  looker_ = std::make_unique<std::thread>([this] { sync_what_waits(); });
  ::pthread_setname_np(looker_->native_handle(), "perdura-objects");
}

void ObjectsRuntime::ring() {
  futex_wake_all(bell(), memory_ ? Waiters::kOfAll : Waiters::kOfProcess);
}

// What waits when it looks has waited for half of the time at most when it looked before. A failure
// is told to who calls next.
void ObjectsRuntime::sync_what_waits() {
  for (;;) {
    const u32 seen = bell().load(std::memory_order_acquire);
    std::chrono::milliseconds wait = std::chrono::hours(1);
    bool asked = false;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      for (const auto& [name, open] : open_) {
        const std::chrono::milliseconds pending = open->pending();
        if (pending.count() != 0 || memory_)
          (void)guarded([&] { return open->core().sync_soon(); });
        if (pending.count() != 0) wait = std::min(wait, std::max(pending / 2, 1ms));
        asked = asked || (memory_ && memory_->is_asked_for(open->block()));
      }
    }
    if (asked) answer_who_removes();
    futex_wait(bell(), seen, wait, memory_ ? Waiters::kOfAll : Waiters::kOfProcess);
  }
}

namespace {

/// The place and the space of an object that is about to be made: given back, unless it may be on
/// the medium.
class NewPlaces {
 public:
  NewPlaces(ObjectTable& table, const ObjectTable::Entry& entry) : table_(table), entry_(entry) {}
  ~NewPlaces() {
    if (!is_kept_) table_.give_up(entry_);
  }
  NewPlaces(const NewPlaces&) = delete;
  void keep() { is_kept_ = true; }

 private:
  ObjectTable& table_;
  const ObjectTable::Entry& entry_;
  bool is_kept_ = false;
};

}  // namespace

// All of it or nothing: who is refused a large object may still have a small one.
Status ObjectsRuntime::allocate(ObjectTable::Entry& entry, u64 bytes, u64 log_bytes,
                                u64 names_bytes) {
  ObjectHead& head = entry.head;
  head.bytes = bytes;
  head.functions_bytes = names_bytes;
  const u64 image = format::object_image_bytes(head);
  const bool moves = head.archive_lines == 0;
  const Part parts[] = {{&head.copy_place[0], image, moves},
                        {&head.copy_place[1], image, moves},
                        {&head.log_place, log_bytes, moves},
                        {&head.functions_place, names_bytes, false},
                        {&head.archive_place, head.archive_lines * kLineBytes, false}};
  PERDURA_TRY(allocate(std::span(parts).first(head.archive_lines != 0 ? 5 : 4)));
  head.log_lines = log_bytes / kLineBytes;
  return {};
}

Status ObjectsRuntime::check_new(const ObjectType& type, const ObjectOptions& options) const {
  PERDURA_TRY(check_room(type, options.log_bytes / kLineBytes, medium().geometry().write_bytes));
  PERDURA_TRY(check_bytes(type, options.bytes));
  return check_answers(type, options.history != ObjectHistory::kNone);
}

Result<std::shared_ptr<OpenObject>> ObjectsRuntime::create(std::string_view name,
                                                           const ObjectType& type,
                                                           const ObjectOptions& options) {
  PERDURA_TRY(naming(name, name_, check_new(type, options)));
  const bool has_history = options.history != ObjectHistory::kNone;
  std::vector<std::string> names;
  for (const ObjectMethod& method : type.methods) names.emplace_back(method.name);
  if (memory_)
    PERDURA_TRY(
        naming(name, name_, check_shared(type, names, options.history == ObjectHistory::kAll)));
  PERDURA_ASSIGN(const u64 session, session_of_opening());
  PERDURA_ASSIGN(ObjectTable::Entry entry, table_->new_entry());
  NewPlaces places(*table_, entry);
  entry.head.history = static_cast<format::ObjectHistory>(options.history);
  if (has_history) entry.head.callers = options.callers;
  if (options.history == ObjectHistory::kAll)
    entry.head.archive_lines = object::pages_bytes(options.archive_bytes) / kLineBytes;
  name.copy(entry.head.name, format::kObjectNameMax);
  std::string_view(type.name).copy(entry.head.type, format::kObjectNameMax);
  entry.head.session = session;
  PERDURA_TRY(check_function_names(names, entry.head));
  const u64 bytes = std::max(options.bytes, type.bytes);
  PERDURA_TRY(allocate(entry, bytes, options.log_bytes, bytes_of(names)));
  std::vector<std::byte> state(bytes);  // now that the medium has as much
  std::memcpy(state.data(), type.initial, type.bytes);
  PERDURA_TRY(write_names(names, entry.head));
  PERDURA_ASSIGN(std::vector<object::Function> functions, functions_of(names, type));
  const auto made = about_to_open(names, type, options, link_);
  entry.wear = table_->wear().of(entry.head);
  const std::vector<format::ObjectFreePlace> free_places = worn_free_places();
  NewBlock block(memory_, region_, entry.place);
  bool is_written = false;
  ObjectCore::Parts parts{.medium = &medium(),
                          .head_place = entry.place,
                          .skipped = entry.skipped,
                          .head = entry.head,
                          .wear = entry.wear,
                          .free_places = free_places,
                          .unclear = entry.unclear,
                          .session = session,
                          .build = program_.of(type),
                          .functions = std::move(functions),
                          .options = core_options(options, entry.head),
                          .residence = memory_ ? nullptr : this,
                          .overflow = overflow_.get(),
                          .is_written = &is_written};
  block.add_to(parts);
  auto created = guarded([&] { return ObjectCore::create(std::move(parts), state); });
  if (is_written) {
    places.keep();
    created = noting_heads(std::move(created));
  }
  PERDURA_ASSIGN(auto core, std::move(created));
  entry.head = core->head();
  entry.unclear = 0;
  table_->note(entry);
  made->begin(std::move(core), block.publish());
  return made;
}

Result<std::shared_ptr<OpenObject>> ObjectsRuntime::open_found(const ObjectTable::Entry& entry,
                                                               const ObjectType& type,
                                                               const ObjectOptions& options) {
  const std::string_view name = entry.head.name;
  PERDURA_TRY(
      naming(name, name_, check_room(type, entry.head.log_lines, medium().geometry().write_bytes)));
  PERDURA_TRY(naming(name, name_, check_answers(type, entry.head.callers != 0)));
  const std::optional<u32> block =
      memory_ ? memory_->find(region_, entry.place) : std::optional<u32>();
  return block ? join(*block, entry, type, options) : recover(entry, type, options);
}

namespace {

/// A place for the names of an object's functions, once there is one: given back, unless a head may
/// say so.
class NewNames {
 public:
  NewNames(object::ObjectSpace& space, const ObjectHead& head) : space_(space), head_(head) {}
  ~NewNames() {
    if (has_) space_.give_back(head_.functions_place, head_.functions_bytes);
  }
  NewNames(const NewNames&) = delete;
  void have() { has_ = true; }
  void keep() { has_ = false; }

 private:
  object::ObjectSpace& space_;
  const ObjectHead& head_;
  bool has_ = false;
};

Status check_session(const ObjectTable::Entry& entry, u64 session) {
  if (entry.head.session < session) return {};
  return Failure{Code::kCorrupt, "the head of object '" + std::string(entry.head.name) +
                                     "' (medium offset " + std::to_string(entry.place) +
                                     ") is of a session that has not been; restore the store from "
                                     "a copy"};
}

}  // namespace

Result<std::shared_ptr<OpenObject>> ObjectsRuntime::recover(const ObjectTable::Entry& entry,
                                                            const ObjectType& type,
                                                            const ObjectOptions& options) {
  PERDURA_ASSIGN(const u64 session, session_of_opening());
  PERDURA_TRY(check_session(entry, session));
  ObjectTable::Entry now = entry;
  PERDURA_ASSIGN(std::vector<std::string> names, object::function_names(medium(), now.head));
  const size_t before = names.size();
  names = with_methods(std::move(names), type);
  const std::string_view name = entry.head.name;
  if (memory_)
    PERDURA_TRY(naming(name, name_,
                       check_shared(type, names, now.head.history == format::ObjectHistory::kAll)));
  PERDURA_ASSIGN(std::vector<object::Function> functions,
                 naming(name, name_, functions_of(names, type)));
  const bool named_anew = names.size() != before;
  NewNames new_names(table_->space(), now.head);
  if (named_anew) {
    PERDURA_TRY(write_more_names(names, entry, now));
    new_names.have();
  }
  const auto made = about_to_open(names, type, options, link_);
  const std::vector<format::ObjectFreePlace> free_places = worn_free_places();
  NewBlock block(memory_, region_, now.place);
  bool is_written = false;
  ObjectCore::Parts parts{.medium = &medium(),
                          .head_place = now.place,
                          .skipped = now.skipped,
                          .head = now.head,
                          .older = now.older,
                          .owner = now.owner,
                          .wear = now.wear,
                          .free_places = free_places,
                          .unclear = now.unclear,
                          .session = session,
                          .build_found = now.build,
                          .build = program_.of(type),
                          .functions = std::move(functions),
                          .functions_are_new = named_anew,
                          .options = core_options(options, now.head),
                          .residence = memory_ ? nullptr : this,
                          .overflow = overflow_.get(),
                          .is_written = &is_written};
  block.add_to(parts);
  auto recovered = guarded([&] { return ObjectCore::recover(std::move(parts)); });
  if (is_written) {
    new_names.keep();  // a head may name them already
    recovered = noting_heads(std::move(recovered));
  }
  PERDURA_ASSIGN(auto core, std::move(recovered));
  const ObjectHead known = table_->find(now.head.name)->head;
  now.head = core->head();
  now.unclear = 0;
  table_->note_moved(known, now);
  made->begin(std::move(core), block.publish());
  return made;
}

// To a place that no head names yet: `now` says what `entry` does, but for that.
Status ObjectsRuntime::write_more_names(const std::vector<std::string>& names,
                                        const ObjectTable::Entry& entry, ObjectTable::Entry& now) {
  PERDURA_TRY(check_function_names(names, entry.head));
  const u64 bytes = bytes_of(names);
  PERDURA_ASSIGN(const u64 place, allocate(bytes, false));
  now = entry;  // for that it may have moved out itself, where nobody has it open
  now.head.functions_place = place;
  Status written = guarded([&] { return write_names(names, now.head); });
  if (!written) table_->space().give_back(place, bytes);
  return written;
}

Status ObjectsRuntime::write_names(const std::vector<std::string>& names, ObjectHead& head) {
  std::string all;
  for (const std::string& name : names) all.append(name).push_back('\0');
  AlignedBuffer bytes(std::max<size_t>(all.size(), 1));
  std::memset(bytes.data(), 0, bytes.size());
  std::memcpy(bytes.data(), all.data(), all.size());
  head.functions_bytes = all.size();
  head.functions_checksum = checksum(all.data(), all.size());
  // The barrier behind the copy comes before the head that names them.
  return medium().write_pages(head.functions_place, bytes.span(), PERDURA_SITE("object functions"));
}

Status ObjectsRuntime::remove(std::string_view name) {
  PERDURA_TRY(require_not_forked());
  const NotCancelled not_cancelled;
  PERDURA_TRY(have_others_let_go(name));
  const Turn turn(memory_);
  std::lock_guard lock(mutex_);
  PERDURA_TRY(require_open());
  PERDURA_TRY(catch_up());
  const ObjectTable::Entry* const found = table_->find(name);
  if (found == nullptr)
    return Failure{Code::kNotFound, "'" + name_ + "' has no object '" + std::string(name) +
                                        "'; Objects::list() names those that it has"};
  ObjectTable::Entry entry = *found;
  PERDURA_TRY(close_for_removal(entry));
  entry.older = {};
  table_->note(entry);  // it may have no memory for what follows
  if (memory_) (void)memory_->note_change();
  note_left({entry.head, entry.owner, entry.wear, {}});
  object::ObjectCopies copies(medium(), entry);
  copies.set_free_places(worn_free_places(&entry.head));
  PERDURA_TRY(noting_heads(copies.remove()));
  table_->note_removed(entry, copies.entry());
  note_change();
  return {};
}

// Each of them, also where another one fails.
Status ObjectsRuntime::close() {
  if (forked_since(generation_)) return {};
  const NotCancelled not_cancelled;
  link_->cut();
  {
    std::lock_guard lock(mutex_);
    if (closed_.exchange(true) || !table_) return {};
    ring();
  }
  if (looker_) looker_->join();
  Status status;
  const auto also = [&](const auto& step) {
    if (Status done = guarded(step); !done && status) status = std::move(done);
  };
  if (overflow_) {
    std::lock_guard lock(mutex_);
    also([&]() -> Status {
      empty_logs_there();
      return {};
    });
  }
  for (auto& [name, open] : open_) also([&] { return open->core().close(); });
  {
    const Turn turn(memory_);
    std::lock_guard lock(mutex_);
    if (memory_)
      for (auto& [name, open] : open_) memory_->let_go(open->block());
    if (!open_.empty()) note_change();  // heads on the medium count again
    open_.clear();
  }
  if (status && overflow_volume_) also([&] { return overflow_volume_->end_session(); });
  if (status) also([&] { return shared_->end_session(); });
  overflow_.reset();
  overflow_volume_.reset();
  shared_.reset();
  return status;
}

void ObjectsRuntime::abandon() {
  link_->cut();
  {
    std::lock_guard lock(mutex_);
    if (closed_.exchange(true) || !table_) return;
    ring();
  }
  if (looker_) looker_->join();
  open_.clear();
  overflow_.reset();
  overflow_volume_.reset();
  shared_.reset();
}

}  // namespace perdura::detail
