// The objects in the heap of a region that is looked at: mapped anywhere, with pointers that hold
// where its program had it. Nothing of it is believed beyond what the heap's audit has found sound.
#pragma once

#include <deque>
#include <optional>

#include "heap/typed_words.hpp"

namespace perdura::store {

class HeapView {
 public:
  /// Of a heap that its audit found sound, in a region of which the directory says `record`. Heap
  /// and region outlive the view.
  static Result<HeapView> of(heap::Heap& heap, const region::Region& region,
                             const format::RegionRecord& record);

  /// An allocated block.
  struct Object {
    u64 offset = 0;  ///< in the region
    u64 bytes = 0;
    const heap::Layout* type = nullptr;  ///< none: nothing is known of its content
    bool is_flexible = false;            ///< one object, which ends with a flexible array
  };
  /// The block at a region offset, or around it.
  std::optional<Object> find(u64 offset) const;
  /// Where in the region a pointer leads; nothing: elsewhere.
  std::optional<u64> target_of(u64 pointer) const;
  /// Where the program has what is at a region offset; with aliases in the first mapping.
  u64 address_of(u64 offset) const { return home_address_ + offset; }
  /// What the store knows of types, by number - 1.
  const std::deque<heap::Layout>& types() const { return *types_; }
  std::byte* at(u64 offset) const { return region_->base() + offset; }

  /// visit(word, maybe) of each pointer in an object, also of null ones.
  template <class Visit>
  void for_each_pointer(const Object& object, Visit&& visit) const {
    if (object.type == nullptr) return;
    object.type->for_each_pointer(at(object.offset), object.bytes, object.is_flexible, visit);
  }

 private:
  HeapView(heap::Heap& heap, const region::Region& region, const format::RegionRecord& record);

  const region::Region* region_;
  u64 home_address_;
  u64 reserved_bytes_;  ///< from there on, with aliases
  u64 offset_mask_;     ///< of distances from there
  heap::TypedWords words_;
  const std::deque<heap::Layout>* types_;
  heap::Layouts layouts_;
};

}  // namespace perdura::store
