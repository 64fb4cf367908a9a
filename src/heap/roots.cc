// Named roots: a list of blocks in the heap.
#include <cstring>

#include "heap/heap.hpp"

namespace perdura::heap {
namespace {

using format::RootNode;

constexpr u64 kNameMax = 255;

std::string_view name_of(const RootNode& node) {
  return {reinterpret_cast<const char*>(&node + 1), node.name_length};
}

}  // namespace

const RootNode* Heap::find_root(std::string_view name) const {
  const std::byte* base = region_.base();
  for (u64 at = units_.header().roots; at != 0;) {
    const auto* node = reinterpret_cast<const RootNode*>(base + at);
    if (name_of(*node) == name) return node;
    at = node->next;
  }
  return nullptr;
}

Result<void*> Heap::get_root(std::string_view name, u64 fingerprint) const {
  std::lock_guard lock(roots_mutex_);
  const RootNode* node = find_root(name);
  if (node == nullptr) return static_cast<void*>(nullptr);
  if (fingerprint != 0 && node->fingerprint != 0 && fingerprint != node->fingerprint)
    return Failure{Code::kTypeMismatch,
                   "the root '" + std::string(name) + "' of '" + name_ +
                       "' was made with another type (or another layout of it); open it with the "
                       "type it has, or remove it first"};
  return static_cast<void*>(region_.base() + node->object);
}

Status Heap::set_root(detail::Mutator& mutator, std::string_view name, void* object,
                      u64 fingerprint) {
  return guarded([&] { return put_root(mutator, name, object, fingerprint); });
}

Status Heap::put_root(detail::Mutator& mutator, std::string_view name, void* object,
                      u64 fingerprint) {
  if (name.empty() || name.size() > kNameMax)
    return Failure{Code::kInvalidArgument,
                   "a root's name has 1 to 255 bytes, not " + std::to_string(name.size())};
  if (object != nullptr && !region_.contains(object))
    return Failure{Code::kInvalidArgument, "the root '" + std::string(name) +
                                               "' must point into the store; allocate the object "
                                               "there"};
  std::lock_guard lock(roots_mutex_);
  format::HeapHeader& header = units_.header();
  u64* link = &header.roots;
  while (*link != 0) {
    auto* node = reinterpret_cast<RootNode*>(region_.base() + *link);
    if (name_of(*node) == name) break;
    link = &node->next;
  }
  if (*link != 0) {
    auto* node = reinterpret_cast<RootNode*>(region_.base() + *link);
    if (object != nullptr) {
      detail::report(mutator, node, sizeof *node);
      node->object = region_.offset_of(object);
      node->fingerprint = fingerprint;
      return {};
    }
    store(mutator, *link, node->next);
    store(mutator, header.root_count, header.root_count - 1);
    return deallocate(mutator, node);
  }
  if (object == nullptr) return {};
  PERDURA_ASSIGN(void* block, allocate(mutator, sizeof(RootNode) + name.size(), 16));
  auto* node = new (block) RootNode{.next = header.roots,
                                    .object = region_.offset_of(object),
                                    .fingerprint = fingerprint,
                                    .name_length = static_cast<u32>(name.size()),
                                    .reserved = 0};
  std::memcpy(node + 1, name.data(), name.size());
  store(mutator, header.roots, region_.offset_of(node));
  store(mutator, header.root_count, header.root_count + 1);
  return {};
}

std::vector<Heap::RootInfo> Heap::roots() const {
  std::lock_guard lock(roots_mutex_);
  std::vector<RootInfo> all;
  for (u64 at = units_.header().roots; at != 0;) {
    const auto* node = reinterpret_cast<const RootNode*>(region_.base() + at);
    all.push_back({std::string(name_of(*node)), region_.base() + node->object, node->fingerprint});
    at = node->next;
  }
  return all;
}

}  // namespace perdura::heap
