// Buffers: memory that is taken as numbers or characters, of which the pointer that took it is cast
// somewhere in this file, before or later, to one to what has pointers; or goes where nobody sees
// what becomes of it. They are words that may be pointers.
//
// A taker is what has such a pointer: a variable, a member, a parameter, or a function, which
// returns it. Pointers flow from one to another, and what one of these is cast to, all are that
// they came from.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/Expr.h>

#include "records.hpp"

namespace perdura::types {

/// The same of all declarations of a taker.
const clang::Decl* canonical(const clang::Decl* decl);

class Buffers {
 public:
  Buffers(clang::ASTContext& context, Records& records) : context_(context), records_(records) {}

  /// Of a taker, from 1.
  unsigned number_of(const clang::Decl* taker);
  /// A mark whose memory the taker of this number takes.
  void note_mark(unsigned taker, const std::string& mark) {
    takers_[taker - 1].marks.push_back(mark);
  }
  void note_cast(const clang::Decl* taker) { takers_[number_of(taker) - 1].is_cast = true; }
  void note_flow(const clang::Decl* from, const clang::Decl* to) {
    flows_.emplace_back(number_of(from), number_of(to));
  }
  /// Who calls a virtual function may call those that override it, and who calls by pointer
  /// lambdas.
  void note_method(const clang::CXXMethodDecl* method);
  /// Of all that was marked, when all was noted.
  void widen();

  // --- takers that have no declaration

  /// Pointers that lie in allocated memory by themselves: nobody sees who has them.
  const clang::Decl* anywhere();
  /// The arguments of a function behind those that it names.
  const clang::Decl* rest_of(const clang::FunctionDecl* function) {
    return stand_in(function->getCanonicalDecl());
  }
  /// What any function of this type returns; any member that has a pointer to members of this type.
  const clang::Decl* any_of(clang::QualType type) { return any_of(type, 0); }
  /// The same of what is called, or read: `f`, `(object.*f)`, `object.*member`.
  const clang::Decl* any_of(const clang::Expr* by_pointer) {
    return any_of(type_by_pointer(by_pointer), 0);
  }
  /// An argument of any function of this type, from 0.
  const clang::Decl* argument_of(clang::QualType type, unsigned number) {
    return any_of(type, number + 1);
  }
  static clang::QualType type_by_pointer(const clang::Expr* by_pointer);
  /// A function that may be called by a pointer to this type of functions.
  void note_by_pointer(const clang::FunctionDecl* function, clang::QualType type);

 private:
  struct Taker {
    std::vector<std::string> marks;
    bool is_cast = false;
    bool is_anywhere = false;  ///< who else has the pointer nobody sees
  };

  const clang::Decl* stand_in(const void* of, unsigned part = 0);
  const clang::Decl* any_of(clang::QualType type, unsigned part);
  bool is_of_several_files(const clang::Decl* taker) const;
  bool is_beside_pointers(const clang::Decl* taker);
  clang::QualType function_type_of(const clang::CXXMethodDecl* method) const;

  clang::ASTContext& context_;
  Records& records_;
  std::vector<Taker> takers_;
  std::map<const clang::Decl*, unsigned> numbers_;  ///< of takers, from 1
  /// What stands for what has no declaration.
  std::map<std::pair<const void*, unsigned>, clang::VarDecl*> stand_ins_;
  std::vector<std::pair<unsigned, unsigned>> flows_;  ///< of pointers, from one to another
};

}  // namespace perdura::types
