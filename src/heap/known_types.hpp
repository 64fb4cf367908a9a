// The type records that the program has (perdura::detail::KnownType): what it takes objects for
// that it finds in a store.
#pragma once

#include <functional>

#include <perdura/type.hpp>

namespace perdura::heap {

/// Those of PERDURA_TYPE and those that the compiler made (--perdura-types). While no module with
/// records is loaded or unloaded.
void for_each_known_type(const std::function<void(const perdura_type&)>& visit);

/// The latter alone (typed_parts.cc).
void for_each_typed_type(const std::function<void(const perdura_type&)>& visit);

/// Memory of which nobody knows more than that each of its words may be a pointer.
inline constexpr perdura_slot kWordSlots[] = {{"word", PERDURA_SLOT_MAYBE, 0, 8, nullptr, 0, 0, 0}};
inline constexpr perdura_type kWords{"words", 8, 8, 1, kWordSlots};

/// What the compiler knows of the type that the record is of; nullptr: nothing.
detail::Describe members_of(const perdura_type& type);

}  // namespace perdura::heap
