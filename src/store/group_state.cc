#include "store/group_state.hpp"

namespace perdura::store {

using format::GroupState;

Result<GroupState*> group_state(const std::string& name, heap::Heap& heap) {
  PERDURA_ASSIGN(void* const block, heap.group(sizeof(GroupState)));
  auto* const state = static_cast<GroupState*>(block);
  if (state != nullptr && state->version != format::kGroupVersion)
    return Failure{Code::kUnsupported,
                   "what '" + name + "' says of its group has format version " +
                       std::to_string(state->version) + ", this library knows version " +
                       std::to_string(format::kGroupVersion) + "; use the library that wrote it"};
  return state;
}

void note_opened_alone(GroupState& state, detail::Mutator& mutator, u64 version) {
  if (state.alone != 0) return;
  detail::report(mutator, &state, sizeof state);
  state.base_number = group_number(state, version);
  state.alone = 1;
}

Status set_group_state(const std::string& name, heap::Heap& heap, detail::Mutator& mutator,
                       const GroupState& now) {
  PERDURA_ASSIGN(GroupState * state, group_state(name, heap));
  if (state == nullptr) {
    PERDURA_ASSIGN(void* const block,
                   heap.allocate_typed(mutator, TypeRecord<GroupState>::value, 1));
    state = static_cast<GroupState*>(block);
    heap.set_group(mutator, block);
  }
  detail::report(mutator, state, sizeof *state);
  *state = now;
  return {};
}

}  // namespace perdura::store
