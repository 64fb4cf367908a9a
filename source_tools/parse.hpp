// The sources that the tools are given, and parsing them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "directives.hpp"

namespace clang {
class ASTContext;
}

namespace perdura::source {

struct Sources {
  std::vector<std::string> files;  ///< none: all of the compilation database
  std::string build_folder;        ///< with compile_commands.json; "": looked for above the files
  std::vector<std::string> flags;  ///< of the compiler, behind --
  bool has_flags = false;
  unsigned jobs = 0;  ///< 0: as many as there are processors
  bool quiet = false;
};

/// With the number of the unit, in the order in which they were given.
using Look = std::function<void(clang::ASTContext&, std::size_t)>;

/// Calls `look` with each translation unit, perhaps in several threads. Returns what is wrong, in
/// sentences, also what the compiler says of sources that do not compile; none: nothing.
std::vector<std::string> parse(const Sources& sources, Directives& directives, const Look& look);

}  // namespace perdura::source
