// What types say of the values that have them, as far as pointers go.
#pragma once

#include <clang/AST/DeclCXX.h>

#include "facts.hpp"

namespace perdura::source {

/// Is POBase or derives from it: what it holds is in another object's memory.
bool is_persistent(clang::QualType type);
/// The member of POBase that leads to the object.
bool is_poroot(const clang::ValueDecl* member);
/// A class without any bytes that mean something, as std::monostate is, or made of such ones.
bool is_empty(clang::QualType type);
/// Has members that share memory, a pointer and something else. What is empty shares nothing: that
/// is what std::optional has in place of a value.
bool is_mixed_union(const clang::RecordDecl* record);
/// Of a parameter of the type. A `void*` may have the address of a function.
Leads leads_of(clang::QualType type);
/// Of a class or an array.
bool is_in_memory(clang::QualType type);

}  // namespace perdura::source
