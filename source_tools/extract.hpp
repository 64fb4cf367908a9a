// From a translation unit to what its functions do (facts.hpp).
#pragma once

#include <set>
#include <string>

#include "facts.hpp"

namespace clang {
class ASTContext;
}

namespace perdura::source {

/// Which functions are judged as methods.
struct Judged {
  std::set<std::string, std::less<>> classes;  ///< besides those of POBase and Methods<>
  bool private_too = false;
  /// Each function as a method of what its first argument leads to.
  bool all_functions = false;
  std::size_t reasons_max = 0;  ///< of each; 0: all
};

/// What the functions of a unit do, and of system headers those that they call.
Program extract(clang::ASTContext& context, const Judged& judged);

}  // namespace perdura::source
