// What functions do whose source is not there, and that everybody knows.
#pragma once

#include <cstdint>
#include <string_view>

namespace perdura::source {

/// Of a function of the C library, or of the compiler.
struct FunctionModel {
  /// Of each argument: r it is read through, w written, b both, c written with what is read at s;
  /// . it is a number, or its address alone counts. What is missing at the end is numbers.
  std::string_view arguments;
  int answers = -1;  ///< it returns that argument, or an address in what it leads to
};

/// nullptr: not known. `name` without __builtin_, and without std:: where C has it as well.
/// `is_builtin`: it had __builtin_ in front.
const FunctionModel* model_of(std::string_view name, bool is_builtin);
/// Functions that give memory out, take it back, or make it another size.
bool is_allocator(std::string_view name);
/// The variable of the C library that a function reads or changes; "": it is none of these.
/// Those of the library itself begin with "the": they have no name in a program.
std::string_view variable_behind(std::string_view name);
/// Functions that end the program, and do nothing else that anybody can see.
bool ends_program(std::string_view name);

}  // namespace perdura::source
