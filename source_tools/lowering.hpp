// A walk over a function's body. Each expression has a value, which stands for where it may lead;
// those that hold no pointer have none (kNone). An lvalue's value is the address of what it names.
// Whatever the walk does not know is a reason by itself (kUnsupported): nothing is left out.
#pragma once

#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>
#include <clang/Basic/Builtins.h>

#include <llvm/ADT/ScopeExit.h>

#include "constants.hpp"
#include "layout.hpp"
#include "models.hpp"

namespace perdura::source {

/// Of one function. What is asked of the tree is in lower_places.cc, lower_values.cc,
/// lower_calls.cc, lower_initialize.cc and, for statements, in lower.cc.
class Lowering {
 public:
  Lowering(Unit& unit, const clang::FunctionDecl* decl) : unit_(unit), context_(unit.context()) {
    decl_ = decl;
    function_.key = unit.key_of(decl);
    function_.name = unit.name_of_function(decl);
    function_.place = unit.place(decl->getLocation());
  }
  Function lower();

 private:
  // --- facts

  Id new_value() { return function_.values++; }
  Id add(Fact fact);
  void reason(Kind kind, clang::SourceLocation at, std::string name);
  Id value_to(Target target) {
    return add({.what = Fact::kAddress, .to = new_value(), .target = target});
  }
  Id outside(Kind kind, std::string name, clang::SourceLocation at);
  Id told() { return value_to({Target::kTold, 0}); }
  Id null() { return value_to({Target::kTold, Target::kNull}); }
  Id joined(Id a, Id b);
  /// Reads what is at the address.
  Id load(Id from, clang::QualType type, clang::SourceLocation at);
  Id content(Id from) { return add({.what = Fact::kContent, .to = new_value(), .from = from}); }
  void store(Id to, Id from, clang::SourceLocation at);
  void write(Id to, clang::SourceLocation at) { store(to, kNone, at); }
  /// Where a null pointer leads.
  Id nowhere(clang::SourceLocation at) {
    return outside(Kind::kUnknownPointer, "a null pointer", at);
  }
  void read(Id from, clang::SourceLocation at, const char* how = "");

  // --- locals

  Id new_local(clang::QualType type);
  Id local_of(const clang::VarDecl* variable);
  Id address_of_local(Id local) { return value_to({Target::kLocal, local}); }
  Id new_temporary(clang::QualType type) { return address_of_local(new_local(type)); }
  std::string name_of_element(clang::QualType type) const;

  // --- constants, and other variables with static storage

  Id address_of_static(const clang::VarDecl* variable, clang::SourceLocation at);
  /// Whoever names a thread's variable first runs what initializes it.
  static bool is_made_where_named(const clang::VarDecl* variable);
  Id outside_variable(const clang::VarDecl* variable);
  Id address_of_literal() { return value_to({Target::kConstant, literal_of(unit_)}); }

  // --- functions

  Id value_to_function(const clang::FunctionDecl* function, clang::SourceLocation at);
  /// What an expression that only names another place of the source means; nullptr: it is none.
  static const clang::Expr* stands_for(const clang::Expr* expression);

  // --- lvalues: where they are

  Id address_of(const clang::Expr* expression);
  /// One side of a choice may be a throw.
  Id address_of_or_throw(const clang::Expr* expression);
  Id address_of_reference(const clang::DeclRefExpr* reference);
  Id address_of_variable(const clang::VarDecl* variable, clang::SourceLocation at, bool captured);
  /// A variable of the function around this one that is known without it: a reference to something
  /// static, a constant.
  Id address_of_another(const clang::VarDecl* variable, clang::SourceLocation at);
  /// In the body of a lambda, whose closure is its `this`.
  Id address_of_captured(const clang::ValueDecl* variable);
  /// A value of the type: kNone for numbers; no pointer is a null pointer.
  Id of_pointers(Id value, clang::QualType type);
  Id value_of_this(clang::SourceLocation at);
  Id address_of_member(const clang::MemberExpr* member);
  void reinterpret(Id address, std::string type, Id from = kNone);
  /// What is there as `from` is seen as `to`.
  void see_as(Id address, clang::QualType from, clang::QualType to, clang::SourceLocation at);
  /// To a virtual base, or by dynamic_cast: the object says itself where that is.
  void follow_to_base(const clang::CastExpr* cast, Id address);
  Id address_of_cast(const clang::CastExpr* cast);

  // --- values

  /// For its effects.
  void evaluate(const clang::Expr* expression);
  /// Where what it is may lead. A pointer that the walk has lost leads anywhere.
  Id value_of(const clang::Expr* expression);
  Id value_of_any(const clang::Expr* expression);
  void bind(const clang::OpaqueValueExpr* opaque);
  Id unsupported(const clang::Expr* expression);
  /// Of a kRead before what is there is changed: a pointer is no number for that.
  static const char* how_changed(clang::QualType type) {
    return holds_pointers(type) ? kReadCopied : "";
  }
  /// ++ and --. The address.
  Id step(const clang::UnaryOperator* unary);
  Id value_of_unary(const clang::UnaryOperator* unary);
  Id assign(const clang::BinaryOperator* binary);
  Id value_of_binary(const clang::BinaryOperator* binary);
  /// A pointer that leads nowhere by what it is made of: null, or a number.
  bool is_null(const clang::Expr* expression) const;
  /// In a union where something else is a pointer.
  bool is_beside_pointers(const clang::Expr* place);
  Id value_of_cast(const clang::CastExpr* cast);
  bool same_type(clang::QualType a, clang::QualType b) const;
  /// Of `p->member` and `a[i]` the member and what is in brackets; else where it begins.
  static clang::SourceLocation place_of_access(const clang::Expr* expression);
  Id value_of_va_arg(const clang::VAArgExpr* argument);
  Id value_of_statement(const clang::StmtExpr* statement, bool address);
  /// The argument points to what is worked on; others are values, or point to values.
  Id value_of_atomic(const clang::AtomicExpr* atomic);
  Id value_of_new(const clang::CXXNewExpr* expression);
  Id value_of_delete(const clang::CXXDeleteExpr* expression);

  // --- calls

  Id value_of_call(const clang::CallExpr* call);
  /// Of the C library or of the C++ library's own, as their headers declare it.
  bool is_library_function(const clang::FunctionDecl* function) const;
  bool is_builtin(const clang::FunctionDecl* function) const;
  static bool is_hash_of_library(const clang::FunctionDecl* function);
  void add_arguments(const clang::CallExpr* call, unsigned first,
                     const clang::FunctionProtoType* type, std::vector<Id>& arguments);
  Id argument(const clang::Expr* expression, bool reference);
  /// Takes builtins and functions of the C library that are known. False: it is none of these.
  bool call_known(const clang::FunctionDecl* function, const clang::CallExpr* call, Id& result);
  /// The one of this name that a source may have, in the library's place. `builtin`: its name
  /// there.
  Id add_call_of_own(const clang::FunctionDecl* function, clang::StringRef builtin,
                     const std::vector<Id>& arguments, const clang::CallExpr* call);
  void apply(const FunctionModel& model, const clang::CallExpr* call, const std::vector<Id>& values,
             Id& result);
  /// memset to zeros.
  bool is_zero(const clang::CallExpr* call) const;
  clang::QualType pointee_type(const clang::Expr* pointer) const;
  std::string pointee_of(const clang::Expr* pointer) const;
  Id result_of(clang::QualType type);
  /// A call whose effects nobody knows.
  Id unresolved(Kind kind, std::string name, const std::vector<Id>& arguments, clang::QualType type,
                clang::SourceLocation at);
  Id call_function(const clang::FunctionDecl* function, const std::vector<Id>& arguments,
                   clang::QualType type, clang::SourceLocation at);
  static bool is_exception(const clang::CXXRecordDecl* record);
  static bool is_std(const clang::Decl* decl) { return decl->isInStdNamespace(); }
  /// std::__throw_out_of_range and others, in whose place the library throws.
  static bool is_std_throw(const clang::FunctionDecl* function);
  Id call_pointer(Id pointer, const std::vector<Id>& arguments, clang::QualType type,
                  clang::SourceLocation at);
  Id add_call(Call call, const std::vector<Id>& arguments, clang::QualType type,
              clang::SourceLocation at);
  /// A lambda without captures as a function: calls its operator with a closure of no content.

  // --- initialization

  /// Of a temporary; its address.
  Id materialize(const clang::Expr* expression);
  void initialize(Id address, const clang::Expr* init);
  /// A member or an element: a reference is bound.
  void initialize_part(Id address, const clang::Expr* init);
  void construct(Id address, const clang::CXXConstructExpr* expression);
  void capture(Id address, const clang::LambdaExpr* lambda);
  void initialize_members(const clang::CXXConstructorDecl* constructor);
  void end_members(const clang::CXXDestructorDecl* destructor);
  /// As it says: what it calls may throw, and end the program then.
  static bool never_throws(const clang::FunctionDecl* function);
  bool may_throw(const clang::Expr* init) const;
  /// The destructor of an object, or of each of an array.
  void end_all(Id address, clang::QualType type, clang::SourceLocation at);
  /// A copy or an assignment that copies the bytes.
  void copy_trivially();

  // --- statements

  void visit(const clang::Stmt* statement);
  void catch_into(const clang::VarDecl* caught);
  void answer(const clang::ReturnStmt* statement);
  /// Of arrays whose sizes are known when the program comes here.
  void visit_sizes(clang::QualType type);
  void declare(const clang::Decl* decl);
  void declare_variable(const clang::VarDecl* variable);
  /// Its destructor.
  void end(const clang::VarDecl* variable);

  Unit& unit_;
  clang::ASTContext& context_;
  const clang::FunctionDecl* decl_ = nullptr;
  Function function_;
  bool has_this_ = false;
  const clang::CXXRecordDecl* closure_ = nullptr;  ///< of the lambda whose operator it is
  llvm::DenseMap<const clang::ValueDecl*, clang::FieldDecl*> captures_;
  clang::FieldDecl* closure_this_ = nullptr;
  std::unordered_map<const clang::VarDecl*, Id> locals_;
  std::unordered_map<const clang::OpaqueValueExpr*, Id> opaque_;
  Id initialized_ = kNone;  ///< an aggregate, by what is said with its members
  bool replaces_ = false;   ///< the left side of an assignment, in a union
  unsigned guards_ = 0;     ///< what catches all that is thrown here
};

}  // namespace perdura::source
