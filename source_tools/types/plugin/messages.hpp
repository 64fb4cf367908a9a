// What a compilation is told to do, and what it says.
#pragma once

#include <map>
#include <string>

#include <clang/Frontend/CompilerInstance.h>

namespace perdura::types {

struct Settings {
  std::map<std::string, int> allocators;  ///< to the number of their size argument, -1: not said
  bool lists = false;
  std::string list_file;
};

class Messages {
 public:
  Messages(clang::CompilerInstance& compiler, const Settings& settings)
      : compiler_(compiler), settings_(settings) {}

  /// A line of the list of what has no type, or one in doubt.
  void list(clang::SourceLocation location, const std::string& what);
  void refuse(clang::SourceLocation location, const std::string& why);
  /// FILE:LINE:COLUMN
  std::string place_of(clang::SourceLocation location) const;

 private:
  clang::CompilerInstance& compiler_;
  const Settings& settings_;
};

}  // namespace perdura::types
