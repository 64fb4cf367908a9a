// What a program is told of the objects of a store: which there are, how large they are, who has
// them, and which of its calls they have.
#include <algorithm>

#include "model/object/objects_runtime.hpp"
#include "object/function_name.hpp"
#include "object/object_owner.hpp"

namespace perdura::detail {

using object::ObjectTable;

Result<std::optional<u64>> ObjectsRuntime::state_bytes(std::string_view name) const {
  PERDURA_TRY(require_not_forked());
  std::lock_guard lock(mutex_);
  PERDURA_TRY(require_open());
  const ObjectTable::Entry* const found = table_->find(name);
  return found == nullptr ? std::optional<u64>() : found->head.bytes;
}

// Under the lock. Heads of objects that are open are newer than the table of them.
Result<format::ObjectOwner> ObjectsRuntime::owner_of(const ObjectTable::Entry& entry) const {
  if (memory_) {
    const std::optional<u32> block = memory_->find(region_, entry.place);
    if (!block) return entry.owner;
    PERDURA_ASSIGN(const object::ObjectMemory live, memory_->memory_of(*block));
    return live.control().head.copy().owner;
  }
  const auto open = open_.find(std::string_view(entry.head.name));
  return open == open_.end() ? entry.owner : open->second->core().newest().owner;
}

Result<std::vector<ObjectDescription>> ObjectsRuntime::list() {
  PERDURA_TRY(require_not_forked());
  const Turn turn(memory_);
  std::lock_guard lock(mutex_);
  if (closed_) return are_closed();
  PERDURA_TRY(catch_up());
  std::vector<ObjectDescription> found;
  for (const ObjectTable::Entry& each : table_->all()) {
    PERDURA_ASSIGN(const format::ObjectOwner owner, owner_of(each));
    found.push_back({.name = each.head.name,
                     .type = object::type_text(each.head.type),
                     .bytes = each.head.bytes,
                     .in_overflow = is_in_overflow(each.head),
                     .owner_pid = owner.pid,
                     .owner_lives = object::is_running(owner)});
  }
  std::ranges::sort(found, {}, &ObjectDescription::name);
  return found;
}

namespace {

ObjectsRuntime::Space space_of(const object::ObjectSpace& space) {
  ObjectsRuntime::Space found{};
  for (const format::Extent& each :
       space.volume().extents(format::ExtentKind::kObjects, space.region()))
    found.bytes += each.length;
  for (const auto& [place, bytes] : space.free()) found.free_bytes += bytes;
  return found;
}

}  // namespace

ObjectsRuntime::Space ObjectsRuntime::space() const {
  std::lock_guard lock(mutex_);
  return space_of(table_->space());
}

ObjectsRuntime::Space ObjectsRuntime::overflow_space() const {
  std::lock_guard lock(mutex_);
  return overflow_ ? space_of(overflow_->space()) : Space{};
}

Result<std::uint64_t> ObjectsRuntime::recorded(std::uint32_t potid) const {
  PERDURA_TRY(require_not_forked());
  std::map<std::string, std::shared_ptr<OpenObject>, std::less<>> all;
  {
    std::lock_guard lock(mutex_);
    PERDURA_TRY(require_open());
    all = open_;
  }
  u64 calls = 0;
  for (const auto& [name, open] : all)
    if (open->core().head().callers != 0) {
      PERDURA_ASSIGN(const format::ObjectCaller found, open->core().caller(potid));
      calls += found.calls;
    }
  return calls;
}

}  // namespace perdura::detail
