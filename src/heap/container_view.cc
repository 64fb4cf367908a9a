#include "heap/container_view.hpp"

#include <cstring>
#include <type_traits>

#include "heap/container_types.hpp"

namespace perdura::heap {

using format::ContainerModule;
using format::ContainerShadow;
using format::ContainerSymbol;

namespace {

template <class T>
const perdura_type& record_of() {
  if constexpr (std::is_same_v<T, u64>) return kContainerMarks;
  else return TypeRecord<T>::value;
}

/// Whether there is an allocated block of so many objects of a type. Throws when memory is short,
/// which says nothing of the block.
bool is_block_of(const Heap& heap, const std::vector<Layout>& types, const void* block,
                 const perdura_type& type, u64 count) {
  const auto place = heap.place_of_block(block);
  if (!place || place->tag < 2 || place->tag % 2 != 0 || place->tag / 2 > types.size())
    return false;
  const Layout wanted = value_or_throw(Layout::of(type));
  return types[place->tag / 2 - 1].fingerprint == wanted.fingerprint &&
         heap.blocks().allocated_at(place->offset) / type.size >= count;
}

}  // namespace

Result<std::optional<ContainerView>> ContainerView::find(const Heap& heap,
                                                         const region::Region& region) {
  return guarded([&] { return look_for(heap, region); });
}

Result<std::optional<ContainerView>> ContainerView::look_for(const Heap& heap,
                                                             const region::Region& region) {
  PERDURA_ASSIGN(void* const root, heap.roots().get(format::kContainerRoot, 0));
  if (root == nullptr) return std::optional<ContainerView>{};
  ContainerView view(heap, region);
  const Failure damaged{Code::kCorrupt,
                        "what the container keeps of pointers is damaged; run `perdura check` and "
                        "restore it from a copy"};
  if (heap.blocks().allocated_at(region.offset_of(root)) < sizeof(format::ContainerState))
    return damaged;
  view.state_ = static_cast<format::ContainerState*>(root);
  if (view.state_->version == 0 || view.state_->version > format::kContainerVersion)
    return Failure{Code::kIncompatible, "the container is of version " +
                                            std::to_string(view.state_->version) +
                                            ", which this library does not know"};
  PERDURA_ASSIGN(const auto types, heap.types().read());
  if (!view.is_whole(heap, types)) return damaged;
  return std::optional<ContainerView>{view};
}

bool ContainerView::is_whole(const Heap& heap, const std::vector<Layout>& types) const {
  const auto is_state = [&](const perdura_type& type) {
    return is_block_of(heap, types, state_, type, 1);
  };
  if ((!is_state(TypeRecord<format::ContainerState>::value) && !is_state(kContainerState1)) ||
      !holds(heap, types, state_->modules, state_->module_count) ||
      !holds(heap, types, state_->symbols, state_->symbol_count) ||
      !holds(heap, types, state_->shadows, state_->shadow_count) ||
      !holds(heap, types, state_->marked, state_->marked_words))
    return false;
  for (u32 i = 0; i < state_->module_count; ++i)
    if (!is_text(heap, modules()[i].name) || modules()[i].build_id_bytes > format::kBuildIdBytesMax)
      return false;
  for (u32 i = 0; i < state_->symbol_count; ++i)
    if (!is_text(heap, symbols()[i].name) || symbols()[i].module >= state_->module_count)
      return false;
  for (u32 i = 0; i < state_->shadow_count; ++i)
    if (!is_shadow(heap, shadows()[i])) return false;
  return true;
}

template <class T>
bool ContainerView::holds(const Heap& heap, const std::vector<Layout>& types, const T* array,
                          u64 count) const {
  if (array == nullptr || count == 0) return array == nullptr && count == 0;
  return is_block_of(heap, types, here(array), record_of<T>(), count);
}

bool ContainerView::is_text(const Heap& heap, const char* name) const {
  const char* const text = here(name);
  const u64 bytes = heap.blocks().allocated_at(offset_of(name));
  return bytes != 0 && std::memchr(text, 0, bytes) != nullptr;
}

bool ContainerView::is_shadow(const Heap& heap, const ContainerShadow& shadow) const {
  const u64 offset = offset_of(shadow.copy);
  return shadow.bytes != 0 && shadow.bytes <= heap.blocks().allocated_at(offset) &&
         heap.usable(here(shadow.copy))->typed && shadow.original <= ~shadow.bytes;
}

}  // namespace perdura::heap
