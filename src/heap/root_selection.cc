#include "heap/root_selection.hpp"

#include "base/mutant.hpp"

namespace perdura::heap {

using format::kUnitBytes;
using format::RootNode;
using format::UnitEntry;
using format::UnitKind;

Status RootSelection::select() {
  return roots_.look_at(name_, [this](const Roots::Place& place) { return select(place); });
}

Status RootSelection::select(const Roots::Place& place) {
  std::byte* const object = blocks_.region().base() + roots_.node_at(place.node).object;
  PERDURA_ASSIGN(const Block block, blocks_.find_at(object));
  if (block.bytes() % kLineBytes != 0)
    return Failure{Code::kInvalidArgument,
                   "the object of the root '" + name_ + "' in '" + blocks_.store_name() +
                       "' shares lines with others; allocate it with an alignment of 64"};
  PERDURA_TRY(select_block(place, block));
  add_lines(object, block.bytes());
  return {};
}

void RootSelection::settle(bool durable) {
  if (!durable) return;
  if (!changed_.empty()) scatter_.keep_images(changed_);
  roots_.note_durable(name_);
}

// The object's lines belong to no other object of the last version, with what this adds to it.
Status RootSelection::select_block(const Roots::Place& place, const Block& object) {
  const Overlay::Images* images = scatter_.images();
  if (images == nullptr)
    return Failure{Code::kNoMemory, "out of memory for making the root '" + name_ +
                                        "' durable by itself; take a checkpoint of everything"};
  Overlay last(blocks_.region(), *images);
  bool known = place.durable;
  if (!known) {
    PERDURA_ASSIGN(known, is_in(last, roots_.node_at(place.node)));
  }
  if (!known) return select_new(last, place, object);
  return is_same_block(last, object) || is_mutant("root_alone_over_others") ? Status{} : taken();
}

// Of a root that the last version does not have.
Status RootSelection::select_new(Overlay& last, const Roots::Place& place, const Block& object) {
  RootNode& node = roots_.node_at(place.node);
  auto* const node_place = reinterpret_cast<std::byte*>(&node);
  PERDURA_ASSIGN(const Block node_block, blocks_.find_at(node_place));
  PERDURA_TRY(allocate_in(last, object));
  PERDURA_TRY(allocate_in(last, node_block));
  link_in(last, units_.header(), node, place.node);
  changed_ = std::move(last.changed());
  for (const auto& [line, bytes] : changed_) {
    lines_.numbers.push_back(line);
    lines_.data.push_back(bytes.data());
  }
  return {};
}

// Whether the last version has the root, which leads to the same place there. What lies there may
// be another block (is_same_block).
Result<bool> RootSelection::is_in(const Overlay& last, const RootNode& root) const {
  const format::HeapHeader& header = units_.header();
  u64 left = last.get(header.root_count);
  for (u64 at = last.get(header.roots); at != 0 && left != 0; --left) {
    const RootNode& place = roots_.node_at(at);
    const RootNode node = last.get(place);
    std::string name(node.name_length, 0);
    last.read(&place + 1, name.data(), name.size());
    if (name == name_) {
      if (node.object == root.object && node.fingerprint == root.fingerprint) return true;
      return taken();
    }
    at = node.next;
  }
  return false;
}

// Whether the last version has a block here that begins and ends where this one does, and is of the
// same type. A program may have given back what was here and got a block of another size.
bool RootSelection::is_same_block(const Overlay& last, const Block& block) const {
  const UnitEntry entry = last.get(units_.table()[block.unit]);
  if (entry.kind != block.entry.kind || entry.size_class != block.entry.size_class ||
      entry.units != block.entry.units)
    return false;
  if (block.slab == nullptr) return entry.mark == block.entry.mark;
  const ClassInfo& info = kClassInfo[entry.size_class];
  const u64 bit = u64{1} << block.index % 64;
  const u64 free = last.get(block.slab->free()[block.index / 64]) |
                   last.get(block.slab->remote(info)[block.index / 64]);
  return (free & bit) == 0 &&
         (info.types_at == 0 || last.get(block.slab->types(info)[block.index]) == block.tag());
}

// The last version may not know the type.
Failure RootSelection::typed() const {
  return Failure{Code::kMisuse, "the root '" + name_ + "' of '" + blocks_.store_name() +
                                    "' cannot become durable by itself before a checkpoint of "
                                    "everything: its object has a type"};
}

Failure RootSelection::taken() const {
  return Failure{Code::kMisuse, "the root '" + name_ + "' of '" + blocks_.store_name() +
                                    "' cannot become durable by itself: in the last version its "
                                    "name or its place is another object's; take a checkpoint of "
                                    "everything"};
}

// The block as a block of the last version, where its place must be free.
Status RootSelection::allocate_in(Overlay& last, const Block& block) const {
  if (block.tag() != 0) return typed();
  const u64 end = block.unit + block.entry.units;
  const u64 old_end = last.get(units_.header().units_end);
  bool slab_exists = false;
  for (u64 unit = 0; unit < std::min(end, old_end);) {
    const UnitEntry entry = last.get(units_.table()[unit]);
    const bool head = entry.kind == UnitKind::kSlab || entry.kind == UnitKind::kLarge;
    const u64 next = unit + (head ? entry.units : 1);
    if (head && next > block.unit) {
      const bool is_same = unit == block.unit && block.slab != nullptr &&
                           entry.kind == UnitKind::kSlab &&
                           entry.size_class == block.entry.size_class;
      if (is_same) slab_exists = true;
      else if (is_empty_slab(last, unit)) give_back_in(last, unit);
      else return taken();
    }
    unit = next;
  }
  if (end > old_end) last.set(units_.header().units_end, end);
  if (block.slab != nullptr) return allocate_in_slab(last, block, !slab_exists);
  last.set(units_.table()[block.unit], block.entry);
  return {};
}

// A thread keeps such a one for what it allocates next.
bool RootSelection::is_empty_slab(const Overlay& last, u64 unit) const {
  const UnitEntry entry = last.get(units_.table()[unit]);
  if (entry.kind != UnitKind::kSlab || entry.size_class >= kClasses) return false;
  const ClassInfo& info = kClassInfo[entry.size_class];
  Slab& slab = *units_.slab_at(unit);
  for (u32 word = 0; word < info.words; ++word) {
    const u64 free = last.get(slab.free()[word]) | last.get(slab.remote(info)[word]);
    if ((usable_bits(info, word) & ~free) != 0) return false;
  }
  return true;
}

// The units of an empty slab.
void RootSelection::give_back_in(Overlay& last, u64 unit) const {
  UnitEntry* const table = units_.table();
  const u32 count = last.get(table[unit]).units;
  for (u32 i = 0; i < count; ++i) last.set(table[unit + i], UnitEntry{});
}

Status RootSelection::allocate_in_slab(Overlay& last, const Block& block, bool new_slab) const {
  Slab& slab = *block.slab;
  const ClassInfo& info = block.info();
  if (new_slab) {
    last.set(units_.table()[block.unit],
             UnitEntry{UnitKind::kSlab, block.entry.size_class, 1, info.units});
    for (u32 i = 1; i < info.units; ++i)
      last.set(units_.table()[block.unit + i], UnitEntry{UnitKind::kSlabTail, 0, 0, i});
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
  const u64 first = static_cast<u64>(begin - blocks_.region().base()) / kLineBytes;
  for (u64 i = 0; i < bytes / kLineBytes; ++i) {
    lines_.numbers.push_back(first + i);
    lines_.data.push_back(begin + i * kLineBytes);
  }
}

}  // namespace perdura::heap
