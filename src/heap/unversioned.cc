#include "heap/unversioned.hpp"

#include <algorithm>

namespace perdura::heap {

Result<std::unique_ptr<Unversioned>> Unversioned::create(u64 units_max) {
  std::unique_ptr<Unversioned> notes(new Unversioned);
  const u64 unit_bytes = round_up(units_max, 64) / 8;
  for (Epoch& epoch : notes->epochs_) {
    PERDURA_ASSIGN(epoch.blocks, Mapping::anonymous(units_max * kWordsOfUnit * sizeof(u64)));
    PERDURA_ASSIGN(epoch.slabs, Mapping::anonymous(unit_bytes));
    PERDURA_ASSIGN(epoch.large, Mapping::anonymous(unit_bytes));
    PERDURA_ASSIGN(epoch.held, Mapping::anonymous(unit_bytes));
  }
  return notes;
}

void Unversioned::note_large(u64 unit, u64 count) {
  Epoch& epoch = running();
  for (u64 i = unit; i < unit + count; ++i) set(epoch.large.as<u64>()[i / 64], u64{1} << i % 64);
  set_any(epoch);
}

void Unversioned::hold_units(u64 unit, u64 count) {
  Epoch& epoch = running();
  for (u64 i = unit; i < unit + count; ++i) set(epoch.held.as<u64>()[i / 64], u64{1} << i % 64);
  set_any(epoch);
}

// As long as the youngest of the notes stays. (Operations of this epoch gave back what has a note
// of the running one; what has one of the captured epoch is settled earlier.)
bool Unversioned::hold_slab(u64 unit, u64 count) {
  bool held = false;
  for (Epoch& epoch : epochs_) {
    const u64* const words = epoch.blocks.as<u64>() + unit * kWordsOfUnit;
    if (std::all_of(words, words + kWordsOfUnit, [](const u64& each) { return load(each) == 0; }))
      continue;
    for (u64 i = unit; i < unit + count; ++i) set(epoch.held.as<u64>()[i / 64], u64{1} << i % 64);
    set_any(epoch);
    held = true;
  }
  return held;
}

void Unversioned::clear_blocks(Epoch& epoch, u64 unit) {
  u64* const words = epoch.blocks.as<u64>() + unit * kWordsOfUnit;
  for (u64 i = 0; i < kWordsOfUnit; ++i)
    if (load(words[i]) != 0) std::atomic_ref(words[i]).store(0, std::memory_order_relaxed);
}

void Unversioned::clear(Epoch& epoch, u64 units_end) {
  for_each(epoch.slabs, units_end, [&](u64 unit) { clear_blocks(epoch, unit); });
  for (const Mapping* bits : {&epoch.slabs, &epoch.large, &epoch.held})
    for (u64 at = 0; at * 64 < units_end; ++at)
      if (u64& word = bits->as<u64>()[at]; load(word) != 0)
        std::atomic_ref(word).store(0, std::memory_order_relaxed);
  required_.fetch_and(~bit_of(epoch), std::memory_order_release);
  epoch.any.store(false, std::memory_order_release);
}

void Unversioned::merge(Epoch& from, Epoch& into, u64 units_end) {
  for_each(from.slabs, units_end, [&](u64 unit) {
    for (u64 i = unit * kWordsOfUnit; i < (unit + 1) * kWordsOfUnit; ++i)
      into.blocks.as<u64>()[i] |= from.blocks.as<u64>()[i];
  });
  for (Mapping Epoch::* const bits : {&Epoch::slabs, &Epoch::large, &Epoch::held})
    for (u64 at = 0; at * 64 < units_end; ++at)
      if (const u64 word = (from.*bits).as<u64>()[at]; word != 0)
        (into.*bits).as<u64>()[at] |= word;
  if ((required_ & bit_of(from)) != 0) required_ |= bit_of(into);
  if (from.any) into.any = true;
}

// Where the captured epoch's version failed, its changes are part of the next one.
void Unversioned::begin_epoch(u64 units_end) {
  if (!captured().any) {
    running_.store(1 - running_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  } else if (running().any) {
    merge(running(), captured(), units_end);
    clear(running(), units_end);
  }
}

}  // namespace perdura::heap
