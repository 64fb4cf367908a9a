// SIMPO's directives, `#begin defer`, `#begin inst` and `#end`, which no compiler knows: they are
// taken out of sources before these are parsed, with each line left where it is.
#pragma once

#include <clang/AST/ASTContext.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "facts.hpp"

namespace perdura::source {

struct Region {
  Verdict verdict;
  unsigned first;  ///< lines, those of the directives
  unsigned last;
};

struct DirectiveError {
  std::string file;
  unsigned line;
  std::string text;
};

/// What was found in files, by their real paths. Of several threads.
class Directives {
 public:
  /// The text without them, of the same length.
  std::string take(const std::string& path, llvm::StringRef text);
  /// kNothing: in none.
  Region of(const std::string& path, unsigned line) const;
  std::vector<DirectiveError> errors() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Region>> regions_;
  std::map<std::string, std::vector<DirectiveError>> errors_;
};

/// The files of `under`, without directives.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> without_directives(
    llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> under, Directives& directives);

}  // namespace perdura::source
