// Which parts of the program report what they store, because their compiler has written it down,
// and which do not: each object file of the former says its source's name when it is loaded, and
// the symbol tables of the program and its libraries have the names of all sources.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bits.hpp"

namespace perdura::track {

/// The windows of addresses (compiled_reports.hpp) that the parts which report look at: a bit for
/// each. 0: none reports.
u64 compiled_windows();
inline bool program_reports() { return compiled_windows() != 0; }

struct OtherParts {
  /// Whether all that may store to a store was looked at. Not so where a symbol table is missing,
  /// or lacks what reports.
  bool are_known = true;
  /// Sources, without their folders, sorted; of a library no part of which reports, its path.
  /// Libraries of the system are left out, and so is Perdura itself.
  std::vector<std::string> names;
};

/// What is loaded now and reports nothing. Reads the program's file and those of its libraries:
/// some milliseconds for a large one.
OtherParts parts_without_reports();

/// `names`, for a sentence: the first few, and how many more there are.
std::string listed(const std::vector<std::string>& names);

}  // namespace perdura::track

/// Each part that reports calls it when it is loaded, with its source's name, in itself, and the
/// window that it looks at. Its name and arguments are the pass's as well.
extern "C" void perdura_compiled_part(const char* source, unsigned window);
