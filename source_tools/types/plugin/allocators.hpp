// Functions of the program that give out memory: those with PERDURA_ALLOCATOR, and those in the
// file of --perdura-allocators.
#pragma once

#include <map>
#include <string>

#include <clang/AST/ASTContext.h>
#include <clang/AST/ExprCXX.h>

#include "messages.hpp"

namespace perdura::types {

class Allocators {
 public:
  Allocators(clang::ASTContext& context, const Settings& settings, Messages& messages)
      : context_(context), settings_(settings), messages_(messages) {}

  bool has(const clang::FunctionDecl* function) const;
  /// The number of the argument that says how much, or -1. What is wrong with the function is said
  /// the first time.
  int size_argument(const clang::FunctionDecl* function);
  /// Whether the pass finds the call's arguments where the source has them, and can name what is
  /// called: of a method an object says that, and structures are passed in parts.
  static bool can_be_tagged(const clang::CallExpr* call, const clang::FunctionDecl* callee);

 private:
  /// In the file: by its name, one of a namespace or a class with these.
  bool is_listed(const clang::FunctionDecl* function) const;
  int find_size_argument(const clang::FunctionDecl* function);
  /// The one that is a size_t; else the first integer. Others may be a line, or flags.
  int likely_size_argument(const clang::FunctionDecl* function, const std::string& name);

  clang::ASTContext& context_;
  const Settings& settings_;
  Messages& messages_;
  std::map<const clang::FunctionDecl*, int> size_arguments_;
};

}  // namespace perdura::types
