// Named roots: a list of blocks in the heap.
#include <algorithm>
#include <cstring>

#include "base/mutant.hpp"
#include "heap/heap.hpp"

namespace perdura::heap {
namespace {

using format::RootNode;

constexpr u64 kRootNameMax = 255;

std::string_view name_of(const RootNode& node) {
  return {reinterpret_cast<const char*>(&node + 1), node.name_length};
}

}  // namespace

// What is wrong with the list; counts its nodes. A list that is longer than the header says may
// have no end.
std::string Heap::check_roots(u64& count) const {
  const format::HeapHeader& header = units_.header();
  count = 0;
  for (u64 at = header.roots; at != 0;) {
    const auto broken = [at] {
      return "the list of roots is broken at region offset " + std::to_string(at);
    };
    const u64 bytes = allocated_at(at);
    if (count == header.root_count || bytes < sizeof(RootNode)) return broken();
    const RootNode& node = root_node(at);
    if (node.name_length > std::min<u64>(kRootNameMax, bytes - sizeof node)) return broken();
    if (units_.unit_of(region_.base() + std::min(node.object, region_.limit())) == ~u64{0})
      return "the root '" + std::string(name_of(node)) + "' leads out of the heap";
    ++count;
    at = node.next;
  }
  return count == header.root_count ? "" : "the number of roots is wrong";
}

// Of a list that is whole. What a root leads to may have been given back: that is the program's
// mistake, which a proof finds, while opening bears it.
std::string Heap::check_objects_of_roots() const {
  for (u64 at = units_.header().roots; at != 0; at = root_node(at).next)
    if (!is_allocated(root_node(at).object))
      return "the root '" + std::string(name_of(root_node(at))) + "' leads to region offset " +
             std::to_string(root_node(at).object) + ", where no block is allocated";
  return {};
}

// Once after opening.
Status Heap::load_roots() const {
  if (roots_loaded_) return {};
  u64 count = 0;
  if (const std::string problem = check_roots(count); !problem.empty()) return damaged(problem);
  roots_.clear();
  u64 before = 0;
  for (u64 at = units_.header().roots; at != 0;) {
    const RootNode& node = root_node(at);
    if (!roots_.try_emplace(std::string(name_of(node)), RootPlace{at, before}).second)
      return damaged("two roots are called '" + std::string(name_of(node)) + "'");
    before = at;
    at = node.next;
  }
  roots_loaded_ = true;
  return {};
}

// Also without memory for the index: who is told that there is no root makes another.
const RootNode* Heap::find_root(std::string_view name) const {
  if (roots_loaded_) {
    const auto found = roots_.find(name);
    return found != roots_.end() ? &root_node(found->second.node) : nullptr;
  }
  const format::HeapHeader& header = units_.header();
  u64 left = header.root_count;
  for (u64 at = header.roots; at != 0 && left != 0; --left) {
    const RootNode& node = root_node(at);
    if (name_of(node) == name) return &node;
    at = node.next;
  }
  return nullptr;
}

Result<void*> Heap::get_root(std::string_view name, u64 fingerprint) const {
  std::lock_guard lock(roots_mutex_);
  return look_up_root(name, fingerprint);
}

Result<void*> Heap::get_root(detail::Mutator& mutator, std::string_view name, u64 fingerprint,
                             u64 earlier) {
  std::lock_guard lock(roots_mutex_);
  Result<void*> found = look_up_root(name, fingerprint);
  if (found || found.failure().code != Code::kTypeMismatch) return found;
  found = look_up_root(name, earlier);
  if (!found || *found == nullptr) return found;
  PERDURA_TRY(guarded([&] { return put_root(mutator, name, *found, fingerprint); }));
  return found;
}

Result<void*> Heap::look_up_root(std::string_view name, u64 fingerprint) const {
  const Status loaded = guarded([this] { return load_roots(); });
  if (!loaded && loaded.failure().code != Code::kNoMemory) return loaded.failure();
  const RootNode* const found = find_root(name);
  if (found == nullptr) return static_cast<void*>(nullptr);
  const RootNode& node = *found;
  if (fingerprint != 0 && node.fingerprint != 0 && fingerprint != node.fingerprint)
    return Failure{Code::kTypeMismatch,
                   "the root '" + std::string(name) + "' of '" + name_ +
                       "' was made with another type (or another layout of it); open it with the "
                       "type it has, or remove it first"};
  return static_cast<void*>(shown_at(node.object));
}

Result<void*> Heap::get_or_set_root(detail::Mutator& mutator, std::string_view name, void* object,
                                    u64 fingerprint) {
  return guarded([&]() -> Result<void*> {
    std::lock_guard lock(roots_mutex_);
    PERDURA_ASSIGN(void* const found, look_up_root(name, fingerprint));
    if (found != nullptr && !is_mutant("root_made_twice")) return found;
    PERDURA_TRY(put_root(mutator, name, object, fingerprint));
    return object;
  });
}

Status Heap::set_root(detail::Mutator& mutator, std::string_view name, void* object,
                      u64 fingerprint) {
  return guarded([&] {
    std::lock_guard lock(roots_mutex_);
    return put_root(mutator, name, object, fingerprint);
  });
}

// Under roots_mutex_.
Status Heap::put_root(detail::Mutator& mutator, std::string_view name, void* object,
                      u64 fingerprint) {
  if (name.empty() || name.size() > kRootNameMax)
    return Failure{Code::kInvalidArgument,
                   "a root's name has 1 to 255 bytes, not " + std::to_string(name.size())};
  if (object != nullptr && (!region_.contains(object) || !is_allocated(region_.offset_of(object))))
    return Failure{Code::kInvalidArgument, "the root '" + std::string(name) +
                                               "' must point into the store, to an allocated "
                                               "block; allocate the object there"};
  root_changes_.fetch_add(1, std::memory_order_acq_rel);
  PERDURA_TRY(load_roots());
  const auto found = roots_.find(name);
  if (found == roots_.end())
    return object != nullptr ? add_root(mutator, name, object, fingerprint) : Status{};
  RootPlace& place = found->second;
  RootNode& node = root_node(place.node);
  if (object == nullptr) return remove_root(mutator, found);
  detail::report(mutator, &node, sizeof node);
  node.object = region_.offset_of(object);
  node.fingerprint = fingerprint;
  place.durable = false;
  return {};
}

Status Heap::add_root(detail::Mutator& mutator, std::string_view name, void* object,
                      u64 fingerprint) {
  format::HeapHeader& header = units_.header();
  auto [added, fresh] = roots_.try_emplace(std::string(name));
  // With aliases a node shares no line with others: it may become durable without them.
  const u64 bytes = sizeof(RootNode) + name.size();
  Result<void*> block =
      scatter_ != nullptr ? allocate_apart(mutator, bytes) : allocate(mutator, bytes, 16);
  if (!block) {
    roots_.erase(added);
    return block.failure();
  }
  auto* node = new (*block) RootNode{.next = header.roots,
                                     .object = region_.offset_of(object),
                                     .fingerprint = fingerprint,
                                     .name_length = static_cast<u32>(name.size()),
                                     .reserved = 0};
  std::memcpy(node + 1, name.data(), name.size());
  const u64 offset = region_.offset_of(node);
  if (header.roots != 0) place_of_node(header.roots).before = offset;
  added->second = {offset, 0};
  store(mutator, header.roots, offset);
  store(mutator, header.root_count, header.root_count + 1);
  return {};
}

Status Heap::remove_root(detail::Mutator& mutator, Roots::iterator root) {
  format::HeapHeader& header = units_.header();
  const RootPlace place = root->second;
  RootNode& node = root_node(place.node);
  // The last version still has it, and its block may get other contents (heap/overlay.hpp).
  detail::report(mutator, &node, sizeof node + node.name_length);
  store(mutator, place.before != 0 ? root_node(place.before).next : header.roots, node.next);
  store(mutator, header.root_count, header.root_count - 1);
  if (node.next != 0) place_of_node(node.next).before = place.before;
  roots_.erase(root);
  return deallocate(mutator, region_.shown(&node));
}

Heap::RootPlace& Heap::place_of_node(u64 node) {
  return roots_.find(name_of(root_node(node)))->second;
}

std::vector<Heap::RootInfo> Heap::roots() const {
  std::lock_guard lock(roots_mutex_);
  std::vector<RootInfo> all;
  for (u64 at = units_.header().roots; at != 0;) {
    const RootNode& node = root_node(at);
    all.push_back({std::string(name_of(node)), shown_at(node.object), node.fingerprint});
    at = node.next;
  }
  return all;
}

}  // namespace perdura::heap
