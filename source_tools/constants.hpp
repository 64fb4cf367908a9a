// Variables that never change, and functions, as pointers lead to them.
#pragma once

#include "keys.hpp"

namespace perdura::source {

/// Whether a value of the type may lead anywhere.
bool holds_pointers(clang::QualType type, unsigned depth = 0);

/// Whether it is characters, or has such.
bool holds_bytes(clang::QualType type, unsigned depth = 0);
bool is_byte(clang::QualType type);

/// Never changes, and is what its initializer says from the beginning.
bool is_constant(const clang::VarDecl* variable, clang::ASTContext& context);
/// Declared so that another unit may have it as a constant.
bool is_constant_elsewhere(const clang::VarDecl* variable);

/// Its index in the program, with what it leads to where it is defined.
Id constant_of(Unit& unit, const clang::VarDecl* variable);
Id constant_of(Unit& unit, const clang::TemplateParamObjectDecl* argument);
/// All literals are one constant.
Id literal_of(Unit& unit);
/// What typeid answers, of whichever type: it leads to the type's name, a literal.
Id type_info_of(Unit& unit);
/// What the address of a function, taken at `at`, leads to.
Target function_of(Unit& unit, const clang::FunctionDecl* function, clang::SourceLocation at);
/// Of what a lambda is as a pointer to a function (lower_calls.cc).
Id invoker_of(Unit& unit, const clang::CXXRecordDecl* lambda);

}  // namespace perdura::source
