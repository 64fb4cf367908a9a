#include "heap/roots.hpp"

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

Roots::Roots(Heap& heap) : heap_(heap), blocks_(heap.blocks()) {}

// A list that is longer than the header says may have no end.
std::string Roots::problem(u64& count) const {
  const Units& units = blocks_.units();
  const region::Region& region = blocks_.region();
  const format::HeapHeader& header = units.header();
  count = 0;
  for (u64 at = header.roots; at != 0;) {
    const auto broken = [at] {
      return "the list of roots is broken at region offset " + std::to_string(at);
    };
    const u64 bytes = blocks_.allocated_at(at);
    if (count == header.root_count || bytes < sizeof(RootNode)) return broken();
    const RootNode& node = node_at(at);
    if (node.name_length > std::min<u64>(kRootNameMax, bytes - sizeof node)) return broken();
    if (units.unit_of(region.base() + std::min(node.object, region.limit())) == ~u64{0})
      return "the root '" + std::string(name_of(node)) + "' leads out of the heap";
    ++count;
    at = node.next;
  }
  return count == header.root_count ? "" : "the number of roots is wrong";
}

// What a root leads to may have been given back: that is the program's mistake, which a proof
// finds, while opening bears it.
std::string Roots::problem_of_objects() const {
  std::string problem;
  for_each_node([&](u64 at) {
    if (problem.empty() && !blocks_.is_allocated(node_at(at).object))
      problem = "the root '" + std::string(name_of(node_at(at))) + "' leads to region offset " +
                std::to_string(node_at(at).object) + ", where no block is allocated";
  });
  return problem;
}

// Once after opening.
Status Roots::load() const {
  if (loaded_) return {};
  u64 count = 0;
  if (const std::string problem = this->problem(count); !problem.empty())
    return blocks_.damaged(problem);
  index_.clear();
  u64 before = 0;
  for (u64 at = blocks_.units().header().roots; at != 0;) {
    const RootNode& node = node_at(at);
    if (!index_.try_emplace(std::string(name_of(node)), Place{at, before}).second)
      return blocks_.damaged("two roots are called '" + std::string(name_of(node)) + "'");
    before = at;
    at = node.next;
  }
  loaded_ = true;
  return {};
}

// Also without memory for the index: who is told that there is no root makes another.
const RootNode* Roots::find(std::string_view name) const {
  if (loaded_) {
    const auto found = index_.find(name);
    return found != index_.end() ? &node_at(found->second.node) : nullptr;
  }
  const format::HeapHeader& header = blocks_.units().header();
  u64 left = header.root_count;
  for (u64 at = header.roots; at != 0 && left != 0; --left) {
    const RootNode& node = node_at(at);
    if (name_of(node) == name) return &node;
    at = node.next;
  }
  return nullptr;
}

Result<void*> Roots::get(std::string_view name, u64 fingerprint) const {
  std::lock_guard lock(mutex_);
  return look_up(name, fingerprint);
}

Result<void*> Roots::get(detail::Mutator& mutator, std::string_view name, u64 fingerprint,
                         u64 earlier) {
  std::lock_guard lock(mutex_);
  Result<void*> found = look_up(name, fingerprint);
  if (found || found.failure().code != Code::kTypeMismatch) return found;
  found = look_up(name, earlier);
  if (!found || *found == nullptr) return found;
  PERDURA_TRY(guarded([&] { return put(mutator, name, *found, fingerprint); }));
  return found;
}

Result<void*> Roots::look_up(std::string_view name, u64 fingerprint) const {
  const Status loaded = guarded([this] { return load(); });
  if (!loaded && loaded.failure().code != Code::kNoMemory) return loaded.failure();
  const RootNode* const found = find(name);
  if (found == nullptr) return static_cast<void*>(nullptr);
  const RootNode& node = *found;
  if (fingerprint != 0 && node.fingerprint != 0 && fingerprint != node.fingerprint)
    return Failure{Code::kTypeMismatch,
                   "the root '" + std::string(name) + "' of '" + blocks_.store_name() +
                       "' was made with another type (or another layout of it); open it with the "
                       "type it has, or remove it first"};
  return static_cast<void*>(blocks_.shown_at(node.object));
}

Result<void*> Roots::get_or_set(detail::Mutator& mutator, std::string_view name, void* object,
                                u64 fingerprint) {
  return guarded([&]() -> Result<void*> {
    std::lock_guard lock(mutex_);
    PERDURA_ASSIGN(void* const found, look_up(name, fingerprint));
    if (found != nullptr && !is_mutant("root_made_twice")) return found;
    PERDURA_TRY(put(mutator, name, object, fingerprint));
    return object;
  });
}

Status Roots::set(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint) {
  return guarded([&] {
    std::lock_guard lock(mutex_);
    return put(mutator, name, object, fingerprint);
  });
}

Status Roots::put(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint) {
  if (name.empty() || name.size() > kRootNameMax)
    return Failure{Code::kInvalidArgument,
                   "a root's name has 1 to 255 bytes, not " + std::to_string(name.size())};
  const region::Region& region = blocks_.region();
  if (object != nullptr &&
      (!region.contains(object) || !blocks_.is_allocated(region.offset_of(object))))
    return Failure{Code::kInvalidArgument, "the root '" + std::string(name) +
                                               "' must point into the store, to an allocated "
                                               "block; allocate the object there"};
  changes_.fetch_add(1, std::memory_order_acq_rel);
  PERDURA_TRY(load());
  const auto found = index_.find(name);
  if (found == index_.end())
    return object != nullptr ? add(mutator, name, object, fingerprint) : Status{};
  Place& place = found->second;
  RootNode& node = node_at(place.node);
  if (object == nullptr) return remove(mutator, found);
  detail::report(mutator, &node, sizeof node);
  node.object = region.offset_of(object);
  node.fingerprint = fingerprint;
  place.durable = false;
  return {};
}

Status Roots::add(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint) {
  const region::Region& region = blocks_.region();
  format::HeapHeader& header = blocks_.units().header();
  auto [added, fresh] = index_.try_emplace(std::string(name));
  Result<void*> block = heap_.allocate_apart(mutator, sizeof(RootNode) + name.size());
  if (!block) {
    index_.erase(added);
    return block.failure();
  }
  auto* node = new (*block) RootNode{.next = header.roots,
                                     .object = region.offset_of(object),
                                     .fingerprint = fingerprint,
                                     .name_length = static_cast<u32>(name.size()),
                                     .reserved = 0};
  std::memcpy(node + 1, name.data(), name.size());
  const u64 offset = region.offset_of(node);
  if (header.roots != 0) place_of_node(header.roots).before = offset;
  added->second = {offset, 0};
  store_reported(mutator, header.roots, offset);
  store_reported(mutator, header.root_count, header.root_count + 1);
  return {};
}

Status Roots::remove(detail::Mutator& mutator, Index::iterator root) {
  format::HeapHeader& header = blocks_.units().header();
  const Place place = root->second;
  RootNode& node = node_at(place.node);
  // The last version still has it, and its block may get other contents (heap/overlay.hpp).
  detail::report(mutator, &node, sizeof node + node.name_length);
  store_reported(mutator, place.before != 0 ? node_at(place.before).next : header.roots, node.next);
  store_reported(mutator, header.root_count, header.root_count - 1);
  if (node.next != 0) place_of_node(node.next).before = place.before;
  index_.erase(root);
  return heap_.deallocate(mutator, blocks_.region().shown(&node));
}

Roots::Place& Roots::place_of_node(u64 node) { return index_.find(name_of(node_at(node)))->second; }

std::vector<Roots::Root> Roots::all() const {
  std::lock_guard lock(mutex_);
  std::vector<Root> all;
  for_each_node([&](u64 at) {
    const RootNode& node = node_at(at);
    all.push_back({std::string(name_of(node)), blocks_.shown_at(node.object), node.fingerprint});
  });
  return all;
}

// --- a root that becomes durable by itself
// --------------------------------------------------------

Status Roots::look_at(std::string_view name,
                      const std::function<Status(const Place&)>& work) const {
  std::lock_guard lock(mutex_);
  PERDURA_TRY(load());
  const auto found = index_.find(name);
  if (found != index_.end()) return work(found->second);
  return Failure{Code::kNotFound,
                 "no root of '" + blocks_.store_name() + "' is called '" + std::string(name) + "'"};
}

void Roots::note_durable(std::string_view name) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = index_.find(name);
  if (found != index_.end()) found->second.durable = true;
}

}  // namespace perdura::heap
