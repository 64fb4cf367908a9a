// How functions that a log calls are named. Each is known by the name that the compiler gives to a
// type which has the function as its argument (objects.hpp, simpo.hpp): mangled, with the types of
// its arguments, so that overloads and functions of one name in several classes are told apart.
// People read, and write, a shorter one.
//
//   mangled   N7perdura6detail9MethodTagIXadL_ZN5Seats4sellEiiEEEE
//   text      Seats::sell(int, int)
#pragma once

#include <string>
#include <string_view>

namespace perdura::object {

/// The text of a function's mangled name; a name that is not of such a type, as it is.
std::string function_text(std::string_view name);
/// Of a type as the compiler names it; what is not such a name, as it is.
std::string type_text(std::string_view name);

/// What a program claims that says of a function named `now` that it was `former`, which is mangled
/// or a text: two that claim the same name the same function. A text is of a function of the same
/// kind as `now`: with SIMPO's interface what was deferred is deferred still.
std::string claim_of(std::string_view former, std::string_view now);
/// What the function of a mangled name is claimed by.
inline std::string claim_of(std::string_view name) { return claim_of(name, name); }

/// Whether the name, of a type or a function, is no other's in another translation unit or a later
/// build: nothing in it is in an unnamed namespace, or is a lambda or an unnamed type, which are
/// known by their places among others.
bool has_lasting_name(std::string_view name);

}  // namespace perdura::object
