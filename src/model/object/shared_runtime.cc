// Objects that several processes have open: what each of them finds that others have made, and how
// it joins them.
#include <algorithm>

#include "base/futex.hpp"
#include "model/object/object_opening.hpp"
#include "model/object/objects_runtime.hpp"
#include "object/function_name.hpp"
#include "object/object_look.hpp"

namespace perdura::detail {

using namespace std::chrono_literals;

using object::ObjectCore;
using object::ObjectTable;

namespace {

/// Who waits for others' answers looks so often whether one has died: nobody rings then.
constexpr std::chrono::milliseconds kLookAgain = 20ms;

}  // namespace

std::vector<std::string> with_methods(std::vector<std::string> names, const ObjectType& type) {
  for (const ObjectMethod& method : type.methods)
    if (std::ranges::find(names, method.name) == names.end()) names.emplace_back(method.name);
  return names;
}

// What waits for its own thread cannot be done by another process.
Status check_shared(const ObjectType& type, const std::vector<std::string>& names,
                    bool keeps_all_calls) {
  if (keeps_all_calls)
    return Failure{Code::kUnsupported,
                   "it keeps all calls (ObjectHistory::kAll), and so is that of one program, and "
                   "cannot be shared by processes; open it in one process, or make one that "
                   "keeps the last answers"};
  for (const ObjectMethod& method : type.methods)
    if (method.own_thread)
      return Failure{Code::kUnsupported, "method " + object::function_text(method.name) +
                                             " is done by the thread that calls it alone, so its "
                                             "object cannot be shared by processes; open it in "
                                             "one process"};
  if (names.size() <= object::kSharedFunctionsMax) return {};
  return Failure{Code::kUnsupported, "one that processes share has at most " +
                                         std::to_string(object::kSharedFunctionsMax) +
                                         " methods, not " + std::to_string(names.size()) +
                                         "; open it in one process"};
}

// With the turn. What other processes have made or removed; and objects that any of them has open
// are as their memory says, for their heads on the medium are being written.
Status ObjectsRuntime::catch_up() {
  if (!memory_) return {};
  PERDURA_ASSIGN(const u64 changes, memory_->catch_up());
  PERDURA_TRY(memory_->require_sound());
  if (table_ && table_is_of_ == changes) return {};
  table_ = std::make_unique<ObjectTable>(shared_->volume(), region_, bytes_max_);
  PERDURA_TRY(table_->read([this](u64 place) -> std::optional<ObjectTable::Live> {
    const std::optional<u32> block = memory_->find(region_, place);
    if (!block) return std::nullopt;
    const object::ObjectMemory live = value_or_throw(memory_->memory_of(*block));
    return ObjectTable::Live{live.control().head.copy(), memory_->kept(*block)};
  }));
  PERDURA_TRY(table_->remove_stale());
  table_is_of_ = changes;
  return check_away();
}

void ObjectsRuntime::note_change() {
  if (memory_) table_is_of_ = memory_->note_change();
}

// Of an object whose log begins anew: where processes share it, it may have been open before in the
// same session of the store.
Result<u64> ObjectsRuntime::session_of_opening() {
  return memory_ ? memory_->count_session() : Result<u64>(session_);
}

// An object that another process has open, or had when it died: nothing of it is read from the
// medium but the names of its functions. Where there are more of these from now on, they are
// written before anybody is told: who cannot have them leaves the others as they are.
Result<std::shared_ptr<OpenObject>> ObjectsRuntime::join(u32 block, const ObjectTable::Entry& entry,
                                                         const ObjectType& type,
                                                         const ObjectOptions& options) {
  ObjectTable::Entry now = entry;
  PERDURA_ASSIGN(const std::vector<std::string> names, object::function_names(medium(), now.head));
  const std::vector<std::string> all = with_methods(names, type);
  PERDURA_TRY(naming(entry.head.name, name_, check_shared(type, all, false)));
  const bool named_anew = all.size() != names.size();
  if (named_anew) PERDURA_TRY(write_more_names(all, entry, now));
  auto joined = guarded([&] { return join_named(block, entry, all, type, options); });
  if (!named_anew) return joined;
  if (joined) PERDURA_TRY(noting_heads(name_more(block, entry.head, now, (*joined)->core())));
  else table_->space().give_back(now.head.functions_place, now.head.functions_bytes);
  return joined;
}

Result<std::shared_ptr<OpenObject>> ObjectsRuntime::join_named(
    u32 block, const ObjectTable::Entry& entry, const std::vector<std::string>& names,
    const ObjectType& type, const ObjectOptions& options) {
  PERDURA_ASSIGN(std::vector<object::Function> functions,
                 naming(entry.head.name, name_, functions_of(names, type)));
  PERDURA_ASSIGN(const object::ObjectMemory seen, memory_->memory_of(block));
  PERDURA_ASSIGN(auto core,
                 ObjectCore::join({.medium = &medium(),
                                   .head_place = entry.place,
                                   .skipped = entry.skipped,
                                   .head = entry.head,
                                   .session = seen.control().session,
                                   .build = program_.of(type),
                                   .functions = std::move(functions),
                                   .options = core_options(options, entry.head),
                                   .memory = [&](const auto&) { return memory_->memory_of(block); },
                                   .peers = memory_.get(),
                                   .is_left = memory_->other_user(block).empty()}));
  const auto joined = about_to_open(names, type, options, link_);
  memory_->use(block);
  joined->begin(std::move(core), block);
  return joined;
}

// `entry`: with the names that are written. Where this process dies in between, the object keeps
// both places until nobody has it open.
Status ObjectsRuntime::name_more(u32 block, const format::ObjectHead& head,
                                 const ObjectTable::Entry& entry, ObjectCore& core) {
  const ObjectTable::Range before{head.functions_place, head.functions_bytes};
  memory_->keep(block, before);
  PERDURA_TRY(core.rename_functions(entry.head.functions_place, entry.head.functions_bytes,
                                    entry.head.functions_checksum));
  memory_->keep(block, {});
  table_->space().give_back(before.place, before.bytes);
  table_->note(entry);
  return {};
}

// Before an object is removed: other processes that have it open, and no Object of it any more, are
// asked to close it, and this waits until each has done so, or has kept it, or has died. Their
// threads that look after what waits answer, which takes the turn: so nobody has it who waits here.
Status ObjectsRuntime::have_others_let_go(std::string_view name) {
  if (!memory_) return {};
  for (bool has_asked = false;; has_asked = true) {
    const u32 seen = bell().load(std::memory_order_acquire);
    {
      const Turn turn(memory_);
      std::lock_guard lock(mutex_);
      PERDURA_TRY(require_open());
      PERDURA_TRY(catch_up());
      const ObjectTable::Entry* const found = table_->find(name);
      const auto open = open_.find(name);
      if (found == nullptr || (open != open_.end() && open->second.use_count() != 1)) return {};
      const std::optional<u32> block = memory_->find(region_, found->place);
      if (!block) return {};
      if (!has_asked) memory_->ask_for(*block);
      if (memory_->is_answered(*block)) return {};
    }
    futex_wait(bell(), seen, kLookAgain, Waiters::kOfAll);
  }
}

// By the thread that looks after what waits, when another process has asked for objects
// (have_others_let_go). Those that this process has an Object of it keeps.
void ObjectsRuntime::answer_who_removes() {
  {
    const Turn turn(memory_);
    std::lock_guard lock(mutex_);
    if (closed_) return;
    for (auto next = open_.begin(); next != open_.end();) {
      const auto each = next++;
      const u32 block = each->second->block();
      if (!memory_->is_asked_for(block)) continue;
      if (each->second.use_count() != 1) {
        memory_->keep_open(block);
        continue;
      }
      (void)guarded([&] { return each->second->core().close(); });
      memory_->let_go(block);
      open_.erase(each);
      (void)memory_->note_change();  // its head on the medium counts again, here as well
    }
  }
  ring();
}

// Nobody has it open any more, and `entry` is as it was left.
Status ObjectsRuntime::close_for_removal(ObjectTable::Entry& entry) {
  const std::string name = entry.head.name;
  const auto in_use = [&](const std::string& where) {
    return Failure{Code::kMisuse, "object '" + name + "' is in use" + where +
                                      "; let go of it before it is removed"};
  };
  const auto open = open_.find(name);
  if (open != open_.end() && open->second.use_count() != 1) return in_use("");
  const std::optional<u32> block =
      memory_ ? memory_->find(region_, entry.place) : std::optional<u32>();
  if (block)
    if (const std::string other = memory_->other_user(*block); !other.empty())
      return in_use(" in " + other);
  if (open != open_.end()) {
    // Its own as long as the table says so.
    const u64 stand_in = format::stand_in_place(entry.head);
    entry.head = open->second->core().settled_head();
    if (!is_in_overflow(entry.head)) format::set_stand_in(entry.head, stand_in);
    entry.wear = open->second->core().newest().wear;
    entry.unclear = open->second->core().unclear_heads();
    open_.erase(open);
  } else if (block) {
    PERDURA_ASSIGN(const object::ObjectMemory left, memory_->memory_of(*block));
    entry.head = left.control().head.get();
    entry.unclear = left.control().head.unclear;
  }
  if (block) memory_->free(*block);
  return {};
}

}  // namespace perdura::detail
