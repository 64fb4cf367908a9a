#include "heap/container_view.hpp"

#include <cstring>

namespace perdura::heap {

using format::ContainerModule;
using format::ContainerShadow;
using format::ContainerSymbol;

Result<std::optional<ContainerView>> ContainerView::find(const Heap& heap,
                                                         const region::Region& region) {
  PERDURA_ASSIGN(void* const root, heap.get_root(format::kContainerRoot, 0));
  if (root == nullptr) return std::optional<ContainerView>{};
  ContainerView view(heap, region);
  const Failure damaged{Code::kCorrupt,
                        "what the container keeps of pointers is damaged; run `perdura check` and "
                        "restore it from a copy"};
  const auto usable = heap.usable(root);
  if (!usable || usable->bytes < sizeof(format::ContainerState)) return damaged;
  view.state_ = static_cast<format::ContainerState*>(root);
  if (view.state_->version == 0 || view.state_->version > format::kContainerVersion)
    return Failure{Code::kIncompatible, "the container is of version " +
                                            std::to_string(view.state_->version) +
                                            ", which this library does not know"};
  if (!view.is_whole(heap)) return damaged;
  return std::optional<ContainerView>{view};
}

bool ContainerView::is_whole(const Heap& heap) const {
  if (!holds(heap, state_->modules, state_->module_count * sizeof(ContainerModule)) ||
      !holds(heap, state_->symbols, state_->symbol_count * sizeof(ContainerSymbol)) ||
      !holds(heap, state_->shadows, state_->shadow_count * sizeof(ContainerShadow)) ||
      (state_->shadow_count != 0) != (state_->shadows != nullptr) ||
      state_->marked_words > limit_ ||
      !holds(heap, state_->marked, state_->marked_words * sizeof(u64)))
    return false;
  const auto is_text = [&](const char* name) {
    const char* const text = here(name);
    if (text == nullptr) return false;
    const auto usable = heap.usable(text);
    return usable && std::memchr(text, 0, usable->bytes) != nullptr;
  };
  for (u32 i = 0; i < state_->module_count; ++i)
    if (!is_text(modules()[i].name) || modules()[i].build_id_bytes > format::kBuildIdBytesMax)
      return false;
  for (u32 i = 0; i < state_->symbol_count; ++i)
    if (!is_text(symbols()[i].name) || symbols()[i].module >= state_->module_count) return false;
  for (u32 i = 0; i < state_->shadow_count; ++i)
    if (!is_shadow(heap, shadows()[i])) return false;
  return true;
}

bool ContainerView::is_shadow(const Heap& heap, const ContainerShadow& shadow) const {
  const u64 offset = reinterpret_cast<std::uintptr_t>(shadow.copy) - from_;
  return shadow.bytes != 0 && shadow.bytes <= heap.allocated_at(offset) &&
         heap.usable(here(shadow.copy))->typed && shadow.original <= ~shadow.bytes;
}

bool ContainerView::holds(const Heap& heap, const void* array, u64 bytes) const {
  return bytes == 0 || heap.allocated_at(reinterpret_cast<std::uintptr_t>(array) - from_) >= bytes;
}

}  // namespace perdura::heap
