// Mended faults, put back one at a time, to see whether the tests' random programs find them.
//
// A condition that a fault lacked stands beside `is_mutant("its name")`:
//
//   if (block.is_free() && !is_mutant("double_free")) return misuse(...);
//
// Only a build with PERDURA_MUTANTS asks the environment (PERDURA_MUTANT=NAME); in all others the
// answer is a constant and the compiler drops it.
#pragma once

namespace perdura {

#ifdef PERDURA_MUTANTS
bool is_mutant(const char* name);
#else
constexpr bool is_mutant(const char*) { return false; }
#endif

}  // namespace perdura
