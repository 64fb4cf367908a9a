// A translation unit, as facts are made of it: names that are the same in all units, and places.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/Mangle.h>
#include <clang/AST/PrettyPrinter.h>

#include <deque>
#include <set>
#include <string>
#include <unordered_map>

#include "facts.hpp"

namespace perdura::source {

/// The class of perdura/compat/simpo.hpp.
bool is_pobase(const clang::CXXRecordDecl* record);
bool derives_from_pobase(const clang::CXXRecordDecl* record);
/// No class has another one in its place.
bool is_final(const clang::CXXMethodDecl* method);
/// Another body than the one that is seen may run.
bool is_replaceable(const clang::FunctionDecl* function);

class Unit {
 public:
  explicit Unit(clang::ASTContext& context);

  clang::ASTContext& context() { return context_; }
  const clang::PrintingPolicy& policy() const { return policy_; }

  /// What a function is known by in all units; with the file in it where others cannot call it.
  std::string key_of(const clang::FunctionDecl* function);
  std::string key_of(const clang::VarDecl* variable);
  /// Of an object that is a template's argument: by what it is made of.
  std::string key_of(const clang::TemplateParamObjectDecl* argument);
  std::string name_of_function(const clang::FunctionDecl* function) const;
  std::string name_of_type(const clang::TagDecl* type) const;
  /// With the types of its parameters, and const.
  std::string signature_of(const clang::FunctionDecl* function) const;

  Place place(clang::SourceLocation location);
  bool is_in_system_header(clang::SourceLocation location) const;
  /// Of the C library: what is declared there is what everybody knows by its name. In another
  /// system header, as of a library of the user's, a function of the name may be any.
  bool is_in_header_of_c(clang::SourceLocation location) const;

  /// Its facts are wanted.
  void require(const clang::FunctionDecl* function);
  const clang::FunctionDecl* next_required();
  /// Of a constant: its content is not there yet. Once.
  bool begin_content(const clang::ValueDecl* constant) { return begun_.insert(constant).second; }

  Program program;

 private:
  std::string file_of(clang::SourceLocation location) const;

  clang::ASTContext& context_;
  clang::ASTNameGenerator names_;
  clang::PrintingPolicy policy_;
  std::unordered_map<const clang::Decl*, std::string> keys_;
  std::unordered_map<unsigned, Id> files_;  ///< by FileID
  std::set<std::string> known_;
  std::set<const clang::ValueDecl*> begun_;
  std::deque<const clang::FunctionDecl*> required_;
};

}  // namespace perdura::source
