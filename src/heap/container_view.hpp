// What a container keeps of the pointers that lead out of it, where its region is mapped now. Its
// own pointers are those of the version, which may be of another address.
#pragma once

#include <optional>
#include <string>

#include "format/container_format.hpp"
#include "heap/heap.hpp"

namespace perdura::heap {

/// Without the folder.
inline std::string_view name_of_file(std::string_view file) {
  return file.substr(file.rfind('/') + 1);
}

class ContainerView {
 public:
  /// Nothing in a heap without that root. kCorrupt when what it leads to is not there,
  /// kIncompatible for a newer one.
  static Result<std::optional<ContainerView>> find(const Heap& heap, const region::Region& region);

  format::ContainerState& state() const { return *state_; }
  format::ContainerModule* modules() const { return here(state_->modules); }
  format::ContainerSymbol* symbols() const { return here(state_->symbols); }
  format::ContainerShadow* shadows() const { return here(state_->shadows); }
  /// With its folder, if that was written.
  std::string file_of(const format::ContainerModule& module) const { return here(module.name); }
  std::string name_of(const format::ContainerSymbol& symbol) const { return here(symbol.name); }
  /// Whether a word leads into the container.
  bool is_inside(u64 value) const { return value - from_ < limit_; }

  /// visit(page) of each that is marked.
  template <class Visit>
  void for_each_marked(Visit&& visit) const {
    const u64* const words = here(state_->marked);
    for (u64 word = 0; word < state_->marked_words; ++word)
      for (u64 bits = words[word]; bits != 0; bits &= bits - 1) {
        const u64 page = word * 64 + static_cast<u64>(std::countr_zero(bits));
        if (page < limit_ / kPageBytes) visit(page);
      }
  }

 private:
  ContainerView(const Heap& heap, const region::Region& region)
      : from_(heap.home_address()), limit_(region.limit()), base_(region.base()) {}

  static Result<std::optional<ContainerView>> look_for(const Heap& heap,
                                                       const region::Region& region);
  /// In the region, of what a pointer leads to.
  u64 offset_of(const void* pointer) const {
    return reinterpret_cast<std::uintptr_t>(pointer) - from_;
  }
  template <class T>
  T* here(T* pointer) const {
    const u64 offset = offset_of(pointer);
    return offset < limit_ ? reinterpret_cast<T*>(base_ + offset) : nullptr;
  }
  bool is_whole(const Heap& heap, const std::vector<Layout>& types) const;
  bool is_shadow(const Heap& heap, const format::ContainerShadow& shadow) const;
  bool is_text(const Heap& heap, const char* name) const;
  /// Whether an array is an allocated block of its type, so that its pointers move with the rest;
  /// null when it has no elements.
  template <class T>
  bool holds(const Heap& heap, const std::vector<Layout>& types, const T* array, u64 count) const;

  const u64 from_;
  const u64 limit_;
  std::byte* const base_;
  format::ContainerState* state_ = nullptr;
};

}  // namespace perdura::heap
