// Type records of what a container keeps beside the program's objects.
#pragma once

#include <perdura/type.hpp>

#include "format/container_format.hpp"

PERDURA_TYPE(perdura::format::ContainerModule, name)
PERDURA_TYPE(perdura::format::ContainerSymbol, name)
PERDURA_TYPE(perdura::format::ContainerShadow, copy)
PERDURA_TYPE(perdura::format::ContainerState, root, modules, symbols, marked, shadows)

namespace perdura::heap {

/// Of states that version 1 made, which had no shadows. Opening leaves none before pointers move.
inline constexpr perdura_slot kContainerSlots1[] = {
    PERDURA_POINTER(format::ContainerState, root), PERDURA_POINTER(format::ContainerState, modules),
    PERDURA_POINTER(format::ContainerState, symbols),
    PERDURA_POINTER(format::ContainerState, marked)};
inline constexpr perdura_type kContainerState1{
    "perdura::format::ContainerState", sizeof(format::ContainerState),
    alignof(format::ContainerState), 4, kContainerSlots1};
inline const detail::KnownType kKnownContainerState1(kContainerState1);

inline constexpr perdura_type kContainerText{"perdura::format::ContainerText", 1, 1, 0, nullptr};
inline constexpr perdura_type kContainerMarks{"perdura::format::ContainerMarks", 8, 8, 0, nullptr};

/// What points make blocks of.
inline const perdura_type* const kTypesOfPoints[] = {
    &TypeRecord<format::ContainerModule>::value, &TypeRecord<format::ContainerSymbol>::value,
    &TypeRecord<format::ContainerShadow>::value, &kContainerText, &kContainerMarks};

}  // namespace perdura::heap
