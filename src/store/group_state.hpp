// What a store knows of the group of processes that it is of.
#pragma once

#include <string>

#include <perdura/type.hpp>

#include "format/group_format.hpp"
#include "heap/heap.hpp"

PERDURA_TYPE(perdura::format::GroupState)

namespace perdura::store {

/// nullptr: it is of none. kUnsupported for another format; `name` is the store's.
Result<format::GroupState*> group_state(const std::string& name, heap::Heap& heap);

/// The number that a version of the region has in the group.
inline u64 group_number(const format::GroupState& state, u64 version) {
  return state.alone != 0 ? state.base_number : state.base_number + version - state.base_version;
}

/// Inside an operation. What is made of `version` from now on is not the group's.
void note_opened_alone(format::GroupState& state, detail::Mutator& mutator, u64 version);
/// Inside an operation. Makes the state where there is none.
Status set_group_state(const std::string& name, heap::Heap& heap, detail::Mutator& mutator,
                       const format::GroupState& now);

}  // namespace perdura::store
