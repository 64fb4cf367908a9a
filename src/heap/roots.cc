// Named roots: a list of blocks in the heap.
#include <algorithm>
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

// What is wrong with the list; counts its nodes. A list that is longer than the header says may
// have no end.
std::string Heap::check_roots(u64& count) const {
  const format::HeapHeader& header = units_.header();
  count = 0;
  for (u64 at = header.roots; at != 0;) {
    const RootNode* node = nullptr;
    const auto whole = [&] {
      if (at >= region_.limit()) return false;
      node = reinterpret_cast<const RootNode*>(region_.base() + at);
      const Result<Block> block = find(node);
      if (!block || count == header.root_count) return false;
      if (block->slab == nullptr) return node->name_length <= kNameMax;
      const ClassInfo& info = kClassInfo[block->entry.size_class];
      const u32 word = block->index / 64;
      const u64 free =
          Slab::load(block->slab->free()[word]) | Slab::load(block->slab->remote(info)[word]);
      return (free >> block->index % 64 & 1) == 0 && info.block_bytes >= sizeof *node &&
             node->name_length <= std::min<u64>(kNameMax, info.block_bytes - sizeof *node);
    };
    if (!whole()) return "the list of roots is broken at region offset " + std::to_string(at);
    if (node->object >= region_.limit()) return "a root points outside the region";
    ++count;
    at = node->next;
  }
  return count == header.root_count ? "" : "the number of roots is wrong";
}

// Once after opening.
Status Heap::load_roots() const {
  if (roots_loaded_) return {};
  u64 count = 0;
  if (const std::string problem = check_roots(count); !problem.empty()) return damaged(problem);
  roots_loaded_ = true;
  return {};
}

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
  PERDURA_TRY(load_roots());
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
  PERDURA_TRY(load_roots());
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
