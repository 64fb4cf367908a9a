#include "model/container/shadows.hpp"

#include <algorithm>

#include "heap/container_types.hpp"
#include "model/container/state_array.hpp"

namespace perdura::detail {

using format::ContainerShadow;
using format::ContainerState;
using heap::BlockSource;

namespace {

u64 address_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

void sort(std::vector<ShadowPlace>& places) {
  std::sort(places.begin(), places.end(),
            [](const ShadowPlace& a, const ShadowPlace& b) { return a.begin < b.begin; });
}

/// The one that an address leads into, or nullptr. `places` are sorted.
const ShadowPlace* find(const std::vector<ShadowPlace>& places, const ContainerShadow* shadows,
                        u64 address) {
  const auto after =
      std::upper_bound(places.begin(), places.end(), address,
                       [](u64 value, const ShadowPlace& place) { return value < place.begin; });
  if (after == places.begin()) return nullptr;
  const ShadowPlace& place = *std::prev(after);
  return address - place.begin < shadows[place.shadow].bytes ? &place : nullptr;
}

}  // namespace

void Shadows::begin(ContainerState& state, heap::Closure::Side own, std::vector<Other> others) {
  pass_.emplace(Pass{state, own, {}, {}, {}, {}, {}, nullptr});
  pass_->marks.resize(state.shadow_count);
  for (const Other& other : others) pass_->sources.push_back({other, nullptr, 0});
  for (u32 i = 0; i < state.shadow_count; ++i) {
    const u64 original = state.shadows[i].original;
    const auto holds = [&](const Other& other) { return original - other.begin < other.bytes; };
    if (original != 0 && std::none_of(others.begin(), others.end(), holds))
      pass_->closed.push_back({original, i});
  }
  sort(pass_->closed);
}

bool Shadows::concern(u64 address) const {
  for (const Source& source : pass_->sources)
    if (address - source.other.begin < source.other.bytes) return true;
  return closed_at(address) != nullptr;
}

const ShadowPlace* Shadows::closed_at(u64 address) const {
  return find(pass_->closed, pass_->state.shadows, address);
}

Result<u64> Shadows::follow(u64 address) {
  for (Source& source : pass_->sources) {
    if (address - source.other.begin >= source.other.bytes) continue;
    PERDURA_TRY(look_into(*pass_, source));
    const auto block = source.blocks->find(address);
    if (!block) return u64{0};
    PERDURA_ASSIGN(const u32 shadow, shadow_of(*source.blocks, *block));
    if (pass_->marks[shadow] != Mark::kUpToDate) {
      pass_->waiting.push_back({shadow, source.blocks.get(), *block});
      pass_->marks[shadow] = Mark::kUpToDate;
      ++source.objects;
    }
    return address_of(copy_of(shadow)) + (address - address_of(block->place));
  }
  const ShadowPlace* const place = closed_at(address);
  if (place == nullptr) return u64{0};
  keep(place->shadow);
  return address_of(copy_of(place->shadow)) + (address - place->begin);
}

Status Shadows::look_into(Pass& pass, Source& source) {
  if (source.blocks != nullptr) return {};
  PERDURA_TRY(source.other.heap->load_typed());
  source.blocks =
      std::make_unique<BlockSource>(*source.other.heap, pass.own.heap, pass.own.mutator);
  return {};
}

// Where another object is now, its shadow has no original any more: kept ones may lead to it.
Result<u32> Shadows::shadow_of(BlockSource& blocks, const BlockSource::Found& block) {
  const u64 original = address_of(block.place);
  if (const auto known = by_original_.find(original); known != by_original_.end()) {
    const u32 shadow = known->second;
    PERDURA_ASSIGN(const bool is_like, blocks.is_like(block, copy_of(shadow)));
    if (is_like) return shadow;
    pass_->state.shadows[shadow].original = 0;
    by_original_.erase(known);
  }
  const u32 shadow = pass_->state.shadow_count;
  pass_->marks.resize(u64{shadow} + 1);
  by_original_.emplace(original, shadow);
  if (Status added = guarded([&] { return add(blocks, block, original); }); !added) {
    by_original_.erase(original);
    return added.failure();
  }
  return shadow;
}

Status Shadows::add(BlockSource& blocks, const BlockSource::Found& block, u64 original) {
  const auto& [heap, mutator] = pass_->own;
  PERDURA_ASSIGN(void* const copy, blocks.allocate_like(block));
  Status appended = guarded([&] {
    return append(heap, mutator, pass_->state.shadows, pass_->state.shadow_count,
                  ContainerShadow{original, block.bytes, copy});
  });
  if (!appended) PERDURA_TRY(heap.deallocate(mutator, copy));
  return appended;
}

void Shadows::keep(u32 shadow) {
  if (pass_->marks[shadow] != Mark::kNotFound) return;
  pass_->waiting.push_back({shadow, nullptr, {}});
  pass_->marks[shadow] = Mark::kKept;
}

// Its words lead to shadows of before.
Status Shadows::keep_what_leads_from(u32 shadow) {
  Pass& pass = *pass_;
  if (pass.own_blocks == nullptr) {
    pass.own_blocks = std::make_unique<BlockSource>(pass.own.heap, pass.own.heap, pass.own.mutator);
    for (u32 i = 0; i < pass.state.shadow_count; ++i)
      pass.by_copy.push_back({address_of(copy_of(i)), i});
    sort(pass.by_copy);
  }
  const auto block = pass.own_blocks->find(address_of(copy_of(shadow)));
  if (!block) return {};
  pass.own_blocks->for_each_pointer(*block, [&](const u64* word, bool) {
    const ShadowPlace* const to = find(pass.by_copy, pass.state.shadows, *word);
    if (to != nullptr) keep(to->shadow);
  });
  return {};
}

// Downwards: the last one, which takes the place of one that goes, stays.
Status Shadows::sweep() {
  ContainerState& state = pass_->state;
  const auto& [heap, mutator] = pass_->own;
  for (u32 i = state.shadow_count; i-- > 0;) {
    if (pass_->marks[i] != Mark::kNotFound) continue;
    const ContainerShadow gone = state.shadows[i];
    const ContainerShadow last = state.shadows[--state.shadow_count];
    by_original_.erase(gone.original);
    if (i != state.shadow_count) {
      state.shadows[i] = last;
      if (last.original != 0) by_original_[last.original] = i;
    }
    PERDURA_TRY(heap.deallocate(mutator, gone.copy));
  }
  if (state.shadow_count != 0 || state.shadows == nullptr) return {};
  PERDURA_TRY(heap.deallocate(mutator, std::exchange(state.shadows, nullptr)));
  return {};
}

ShadowsBefore::ShadowsBefore(const heap::ContainerView& view) : view_(view) {
  for (u32 i = 0; i < view.state().shadow_count; ++i)
    if (const u64 original = view.shadows()[i].original; original != 0)
      places_.push_back({original, i});
  sort(places_);
}

std::optional<u64> ShadowsBefore::place_of(u64 value) const {
  const ShadowPlace* const place = find(places_, view_.shadows(), value);
  if (place == nullptr) return std::nullopt;
  return address_of(view_.shadows()[place->shadow].copy) + (value - place->begin);
}

Status ShadowsBefore::end(heap::Heap& heap, Mutator& mutator) const {
  ContainerState& state = view_.state();
  if (state.shadows == nullptr) return {};
  void* const table = view_.shadows();
  state.shadow_count = 0;
  state.shadows = nullptr;
  return heap.deallocate(mutator, table);
}

}  // namespace perdura::detail
