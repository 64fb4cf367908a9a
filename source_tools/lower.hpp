// The facts of functions, from their bodies.
#pragma once

#include "keys.hpp"

namespace perdura::source {

/// Of those that are required, and of those that these call and whose bodies are in the unit.
void lower_required(Unit& unit);

}  // namespace perdura::source
