#include "model/container/module_records.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/mutant.hpp"
#include "heap/container_types.hpp"
#include "model/container/state_array.hpp"

namespace perdura::detail {

using format::ContainerModule;
using format::ContainerState;
using format::ContainerSymbol;

namespace {

bool holds(const ContainerModule& record, u64 address) {
  return address - record.begin < record.bytes;
}

bool is_mapped(u64 address) {
  unsigned char resident = 0;
  const u64 page = round_down(address, kPageBytes);
  return ::mincore(reinterpret_cast<void*>(page), kPageBytes, &resident) == 0;
}

}  // namespace

void ModuleRecords::begin(ContainerState& state, heap::Closure::Side own) {
  own_.emplace(own);
  state_ = &state;
  if (modules_.refresh()) matched_ = false;
  if (!matched_) match();
  for (Loaded& loaded : loaded_) loaded.noted = false;
}

// What was noted and is not in the state is noted again: its pages are. When memory is short in the
// middle, the next discovery does it again.
void ModuleRecords::match() {
  loaded_.clear();
  std::set<u32> taken;
  for (const Module& module : modules_.all()) {
    Loaded& loaded = loaded_.emplace_back();
    loaded.record = record_for(module, taken);
    if (loaded.record == Loaded::kNone) continue;
    taken.insert(loaded.record);
    for (u32 i = 0; i < state_->symbol_count; ++i)
      if (const ContainerSymbol& symbol = state_->symbols[i]; symbol.module == loaded.record)
        loaded.known.emplace(symbol.offset, symbol.offset + symbol.bytes);
  }
  matched_ = true;
}

// Its own; else one of the same build that does not count, whose symbols are the same.
u32 ModuleRecords::record_for(const Module& module, const std::set<u32>& taken) const {
  u32 ended = Loaded::kNone;
  for (u32 i = 0; i < state_->module_count; ++i) {
    const ContainerModule& record = state_->modules[i];
    if (taken.contains(i) || !module.is_build(record.build_id, record.build_id_bytes)) continue;
    if (record.bytes == 0) ended = std::min(ended, i);
    else if (record.begin == module.begin) return i;
  }
  return ended;
}

bool ModuleRecords::note(u64 address) {
  const Module* const module = modules_.find(address);
  if (module == nullptr) return leads_to_unloaded(address);
  Loaded& loaded = loaded_[static_cast<size_t>(module - modules_.all().data())];
  loaded.noted = true;
  note_symbol(*module, loaded, address);
  return true;
}

// The dynamic linker may know of symbols that begin before the module, or end behind it.
void ModuleRecords::note_symbol(const Module& module, Loaded& loaded, u64 address) {
  const u64 offset = address - module.begin;
  const auto after = loaded.known.upper_bound(offset);
  if (after != loaded.known.begin() && offset < std::prev(after)->second) return;
  Symbol symbol = symbol_at(address);
  if (symbol.begin < module.begin) symbol = {address, 1, ""};
  symbol.begin -= module.begin;
  if (!symbol.name.empty()) loaded.symbols.push_back(symbol);
  loaded.known.emplace(symbol.begin, symbol.begin + symbol.bytes);
}

// Where something else is now, words lead to that.
bool ModuleRecords::leads_to_unloaded(u64 address) {
  for (u32 i = 0; i < state_->module_count; ++i) {
    ContainerModule& record = state_->modules[i];
    if (!holds(record, address)) continue;
    if (!is_mapped(address)) return true;
    record.bytes = 0;
  }
  return false;
}

// Symbols that a discovery noted which failed wait until their module has a record.
Status ModuleRecords::put() {
  for (size_t i = 0; i < loaded_.size(); ++i) {
    if (loaded_[i].noted) PERDURA_TRY(put_module(modules_.all()[i], loaded_[i]));
    if (loaded_[i].record != Loaded::kNone) PERDURA_TRY(put_symbols(loaded_[i]));
  }
  return {};
}

Status ModuleRecords::put_module(const Module& module, Loaded& loaded) {
  const auto& [heap, mutator] = *own_;
  if (loaded.record == Loaded::kNone) {
    ContainerModule made{};
    made.build_id_bytes = module.build_id_bytes;
    std::copy(module.build_id.begin(), module.build_id.end(), made.build_id);
    PERDURA_TRY(append_named(state_->modules, state_->module_count, made, module.file));
    loaded.record = state_->module_count - 1;
  }
  ContainerModule& record = state_->modules[loaded.record];
  if (record.name != module.file) {
    PERDURA_ASSIGN(char* const text, make_text(module.file));
    PERDURA_TRY(heap.deallocate(mutator, std::exchange(record.name, text)));
  }
  if (record.begin == module.begin && record.bytes != 0) return {};
  record.begin = module.begin;
  record.bytes = module.end - module.begin;
  for (u32 i = 0; i < state_->module_count; ++i) {
    ContainerModule& other = state_->modules[i];
    const bool overlaps = other.begin < module.end && other.begin + other.bytes > module.begin;
    if (i == loaded.record || !overlaps || is_mutant("container_module_place")) continue;
    if (other.bytes != 0) other.bytes = 0;
  }
  return {};
}

Status ModuleRecords::put_symbols(Loaded& loaded) {
  for (; !loaded.symbols.empty(); loaded.symbols.pop_back()) {
    const Symbol& symbol = loaded.symbols.back();
    ContainerSymbol one{};
    one.module = loaded.record;
    one.bytes = static_cast<u32>(std::min<u64>(symbol.bytes, std::numeric_limits<u32>::max()));
    one.offset = symbol.begin;
    PERDURA_TRY(append_named(state_->symbols, state_->symbol_count, one, symbol.name));
  }
  return {};
}

template <class T>
Status ModuleRecords::append_named(T*& all, u32& count, T one, const std::string& name) {
  const auto& [heap, mutator] = *own_;
  PERDURA_ASSIGN(one.name, make_text(name));
  Status appended = append(heap, mutator, all, count, one);
  if (!appended) PERDURA_TRY(heap.deallocate(mutator, one.name));
  return appended;
}

Result<char*> ModuleRecords::make_text(const std::string& text) {
  const auto& [heap, mutator] = *own_;
  PERDURA_ASSIGN(void* const made,
                 heap.allocate_typed(mutator, heap::kContainerText, text.size() + 1));
  std::memcpy(made, text.c_str(), text.size() + 1);
  return static_cast<char*>(made);
}

}  // namespace perdura::detail
