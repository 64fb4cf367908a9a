#include "heap/root_selection.hpp"

namespace perdura::heap {

using format::kUnitBytes;
using format::RootNode;
using format::UnitEntry;
using format::UnitKind;

Status RootSelection::select() {
  std::lock_guard lock(heap_.roots_mutex_);
  PERDURA_TRY(heap_.load_roots());
  const auto found = heap_.roots_.find(name_);
  if (found == heap_.roots_.end())
    return Failure{Code::kNotFound, "no root of '" + heap_.name_ + "' is called '" + name_ + "'"};
  std::byte* const place = region_.base() + heap_.root_node(found->second.node).object;
  PERDURA_ASSIGN(const Heap::Block object, heap_.find_at(place, place));
  if (Heap::bytes_of(object) % kLineBytes != 0)
    return Failure{Code::kInvalidArgument,
                   "the object of the root '" + name_ + "' in '" + heap_.name_ +
                       "' shares lines with others; allocate it with an alignment of 64"};
  if (!found->second.durable) PERDURA_TRY(select_new(found->second, object));
  add_lines(place, Heap::bytes_of(object));
  return {};
}

void RootSelection::settle(bool durable) {
  if (!durable) return;
  if (!changed_.empty()) scatter_.keep_images(changed_);
  std::lock_guard lock(heap_.roots_mutex_);
  const auto found = heap_.roots_.find(name_);
  if (found != heap_.roots_.end()) found->second.durable = true;
}

// Of a root that may be newer than the last version.
Status RootSelection::select_new(const Heap::RootPlace& place, const Heap::Block& object) {
  const Overlay::Images* images = scatter_.images();
  if (images == nullptr)
    return Failure{Code::kNoMemory, "out of memory for making the root '" + name_ +
                                        "' durable by itself; take a checkpoint of everything"};
  Overlay last(region_, *images);
  RootNode& node = heap_.root_node(place.node);
  PERDURA_ASSIGN(const bool known, is_in(last, node.object));
  if (known) return {};
  auto* const node_place = reinterpret_cast<std::byte*>(&node);
  PERDURA_ASSIGN(const Heap::Block node_block, heap_.find_at(node_place, node_place));
  PERDURA_TRY(allocate_in(last, object));
  PERDURA_TRY(allocate_in(last, node_block));
  link_in(last, heap_.units_.header(), node, place.node);
  changed_ = std::move(last.changed());
  for (const auto& [line, bytes] : changed_) {
    lines_.numbers.push_back(line);
    lines_.data.push_back(bytes.data());
  }
  return {};
}

// Whether the last version has the root with this object, in a block like the one it has now.
Result<bool> RootSelection::is_in(const Overlay& last, u64 object) const {
  const format::HeapHeader& header = heap_.units_.header();
  u64 left = last.get(header.root_count);
  for (u64 at = last.get(header.roots); at != 0 && left != 0; --left) {
    const RootNode& place = heap_.root_node(at);
    const RootNode node = last.get(place);
    std::string name(node.name_length, 0);
    last.read(&place + 1, name.data(), name.size());
    if (name == name_) {
      if (node.object == object) return true;
      return taken();
    }
    at = node.next;
  }
  return false;
}

// The last version may not know the type.
Failure RootSelection::typed() const {
  return Failure{Code::kMisuse, "the root '" + name_ + "' of '" + heap_.name_ +
                                    "' cannot become durable by itself before a checkpoint of "
                                    "everything: its object has a type"};
}

Failure RootSelection::taken() const {
  return Failure{Code::kMisuse, "the root '" + name_ + "' of '" + heap_.name_ +
                                    "' cannot become durable by itself: in the last version its "
                                    "name or its place is another object's; take a checkpoint of "
                                    "everything"};
}

// The block as a block of the last version, where its place must be free.
Status RootSelection::allocate_in(Overlay& last, const Heap::Block& block) const {
  if (heap_.tag_of(block) != 0) return typed();
  Units& units = heap_.units_;
  const u64 end = block.unit + block.entry.units;
  const u64 old_end = last.get(units.header().units_end);
  bool slab_exists = false;
  for (u64 unit = 0; unit < std::min(end, old_end);) {
    const UnitEntry entry = last.get(units.table()[unit]);
    const bool head = entry.kind == UnitKind::kSlab || entry.kind == UnitKind::kLarge;
    const u64 next = unit + (head ? entry.units : 1);
    if (head && next > block.unit) {
      if (unit != block.unit || block.slab == nullptr || entry.kind != UnitKind::kSlab ||
          entry.size_class != block.entry.size_class)
        return taken();
      slab_exists = true;
    }
    unit = next;
  }
  if (end > old_end) last.set(units.header().units_end, end);
  if (block.slab != nullptr) return allocate_in_slab(last, block, !slab_exists);
  last.set(units.table()[block.unit], block.entry);
  return {};
}

Status RootSelection::allocate_in_slab(Overlay& last, const Heap::Block& block,
                                       bool new_slab) const {
  Units& units = heap_.units_;
  Slab& slab = *block.slab;
  const ClassInfo& info = kClassInfo[block.entry.size_class];
  if (new_slab) {
    last.set(units.table()[block.unit],
             UnitEntry{UnitKind::kSlab, block.entry.size_class, 1, info.units});
    for (u32 i = 1; i < info.units; ++i)
      last.set(units.table()[block.unit + i], UnitEntry{UnitKind::kSlabTail, 0, 0, i});
    last.set(slab.header, slab.header);
    for (u32 word = 0; word < info.words; ++word) {
      last.set(slab.free()[word], usable_bits(info, word));
      last.set(slab.remote(info)[word], u64{0});
    }
  }
  const u64 bit = u64{1} << block.index % 64;
  u64& free = slab.free()[block.index / 64];
  u64& remote = slab.remote(info)[block.index / 64];
  if (((last.get(free) | last.get(remote)) & bit) == 0) return taken();
  last.set(free, last.get(free) & ~bit);
  last.set(remote, last.get(remote) & ~bit);
  return {};
}

void RootSelection::link_in(Overlay& last, format::HeapHeader& header, RootNode& node,
                            u64 node_offset) {
  RootNode linked = node;
  linked.next = last.get(header.roots);
  last.write(&node + 1, &node + 1, node.name_length);
  last.set(node, linked);
  last.set(header.roots, node_offset);
  last.set(header.root_count, last.get(header.root_count) + 1);
}

void RootSelection::add_lines(std::byte* begin, u64 bytes) {
  const u64 first = static_cast<u64>(begin - region_.base()) / kLineBytes;
  for (u64 i = 0; i < bytes / kLineBytes; ++i) {
    lines_.numbers.push_back(first + i);
    lines_.data.push_back(begin + i * kLineBytes);
  }
}

}  // namespace perdura::heap
