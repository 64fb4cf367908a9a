// A walk over a function's body. Each expression has a value, which stands for where it may lead;
// those that hold no pointer have none (kNone). An lvalue's value is the address of what it names.
// Whatever the walk does not know is a reason by itself (kUnsupported): nothing is left out.
#include "lower.hpp"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>
#include <clang/Basic/Builtins.h>

#include <llvm/ADT/ScopeExit.h>

#include <algorithm>

#include "constants.hpp"
#include "models.hpp"

namespace perdura::source {
namespace {

using namespace clang;

bool is_persistent(QualType type) {
  const CXXRecordDecl* const record = type->getAsCXXRecordDecl();
  return record != nullptr && (is_pobase(record) || derives_from_pobase(record));
}

bool is_poroot(const ValueDecl* member) {
  const auto* const field = dyn_cast<FieldDecl>(member);
  const auto* const record =
      field != nullptr ? dyn_cast<CXXRecordDecl>(field->getParent()) : nullptr;
  return record != nullptr && field->getName() == "poroot" && is_pobase(record);
}

/// A class without any bytes that mean something, as std::monostate is, or made of such ones.
bool is_empty(QualType type) {
  const CXXRecordDecl* const record = type->getAsCXXRecordDecl();
  if (record == nullptr || !record->hasDefinition()) return false;
  if (record->isDynamicClass()) return false;
  return std::ranges::all_of(record->bases(),
                             [](const CXXBaseSpecifier& base) { return is_empty(base.getType()); }) &&
         std::ranges::all_of(record->fields(),
                             [](const FieldDecl* field) { return is_empty(field->getType()); });
}

/// The pointer that a `void*` is made of.
const Expr* without_casts(const Expr* pointer) {
  while (const auto* const cast = dyn_cast<CastExpr>(pointer->IgnoreParens())) {
    if (cast->getCastKind() != CK_NoOp && cast->getCastKind() != CK_BitCast) break;
    pointer = cast->getSubExpr();
  }
  return pointer;
}

/// Has members that share memory, a pointer and something else. What is empty shares nothing: that
/// is what std::optional has in place of a value.
bool is_mixed_union(const RecordDecl* record) {
  if (!record->isUnion()) return false;
  unsigned members = 0;
  bool pointers = false;
  for (const FieldDecl* field : record->fields()) {
    if (is_empty(field->getType())) continue;
    ++members;
    pointers |= holds_pointers(field->getType());
  }
  return members > 1 && pointers;
}

/// A `void*` may have the address of a function.
Leads leads_of(QualType type) {
  if (!type->isReferenceType() && !type->isPointerType()) return Leads::kAnywhere;
  const QualType pointee = type->getPointeeType();
  if (pointee->isVoidType() || pointee->isFunctionType()) return Leads::kAnywhere;
  return type->isReferenceType() ? Leads::kByReference : Leads::kToObject;
}

bool is_variable_outside(const VarDecl* variable) { return !variable->hasLocalStorage(); }

bool contains_rethrow(const Stmt* statement) {
  if (statement == nullptr || isa<LambdaExpr>(statement)) return false;
  if (const auto* const expression = dyn_cast<CXXThrowExpr>(statement))
    if (expression->getSubExpr() == nullptr) return true;
  for (const Stmt* child : statement->children())
    if (contains_rethrow(child)) return true;
  return false;
}

/// What is kept beyond the expression.
bool contains_temporary(const Stmt* statement) {
  if (statement == nullptr) return false;
  if (isa<MaterializeTemporaryExpr>(statement)) return true;
  for (const Stmt* child : statement->children())
    if (contains_temporary(child)) return true;
  return false;
}

bool catches_all(const CXXTryStmt* statement) {
  for (unsigned i = 0; i < statement->getNumHandlers(); ++i) {
    const CXXCatchStmt* const handler = statement->getHandler(i);
    if (handler->getExceptionDecl() == nullptr)
      return !contains_rethrow(handler->getHandlerBlock());
  }
  return false;
}

class Lowering {
 public:
  Lowering(Unit& unit, const FunctionDecl* decl) : unit_(unit), context_(unit.context()) {
    decl_ = decl;
    function_.key = unit.key_of(decl);
    function_.name = unit.name_of_function(decl);
    function_.place = unit.place(decl->getLocation());
  }

  Function lower() {
    const auto* const method = dyn_cast<CXXMethodDecl>(decl_);
    has_this_ = method != nullptr && method->isImplicitObjectMemberFunction();
    function_.has_this = has_this_;
    if (method != nullptr && method->getParent()->isLambda() && has_this_) {
      closure_ = method->getParent();
      function_.is_of_closure = true;
      closure_->getCaptureFields(captures_, closure_this_);
    }
    if (method != nullptr && method->isExplicitObjectMemberFunction())
      reason(Kind::kUnsupported, decl_->getLocation(), "an explicit object parameter");
    function_.parameters = decl_->getNumParams() + (has_this_ ? 1 : 0);
    if (has_this_) function_.leads.push_back(Leads::kByReference);
    for (const ParmVarDecl* each : decl_->parameters())
      function_.leads.push_back(leads_of(each->getType()));
    for (Id i = 0; i < function_.parameters; ++i)
      add({.what = Fact::kAddress, .to = new_value(), .target = {Target::kParameter, i}});
    for (unsigned i = 0; i < decl_->getNumParams(); ++i) {
      const ParmVarDecl* const each = decl_->getParamDecl(i);
      store(address_of_local(local_of(each)), i + (has_this_ ? 1 : 0), {});
    }
    // What leaves a function that may not throw ends the program.
    const auto* const type = decl_->getType()->getAs<FunctionProtoType>();
    if (type != nullptr && !isUnresolvedExceptionSpec(type->getExceptionSpecType()) &&
        type->isNothrow())
      ++guards_;
    if (const auto* const constructor = dyn_cast<CXXConstructorDecl>(decl_))
      initialize_members(constructor);
    if (decl_->isDefaulted() && decl_->isTrivial() && decl_->getBody() == nullptr) {
      copy_trivially();
    } else {
      visit(decl_->getBody());
    }
    if (const auto* const destructor = dyn_cast<CXXDestructorDecl>(decl_)) end_members(destructor);
    return std::move(function_);
  }

 private:
  // --- facts

  Id new_value() { return function_.values++; }
  Id add(Fact fact) {
    const Id to = fact.to;
    function_.facts.push_back(std::move(fact));
    return to;
  }
  void reason(Kind kind, SourceLocation at, std::string name) {
    if (kind == Kind::kThrows && guards_ > 0) return;
    add({.what = Fact::kReason, .kind = kind, .place = unit_.place(at), .name = std::move(name)});
  }
  Id value_to(Target target) {
    return add({.what = Fact::kAddress, .to = new_value(), .target = target});
  }
  Id outside(Kind kind, std::string name, SourceLocation at) {
    const Id id = unit_.program.outside({kind, std::move(name), unit_.place(at)});
    return value_to({Target::kOutside, id});
  }
  Id told() { return value_to({Target::kTold, 0}); }
  Id null() { return value_to({Target::kTold, Target::kNull}); }
  Id joined(Id a, Id b) {
    if (a == kNone || a == b) return b;
    if (b == kNone) return a;
    const Id both = new_value();
    add({.what = Fact::kCopy, .to = both, .from = a});
    return add({.what = Fact::kCopy, .to = both, .from = b});
  }
  /// Reads what is at the address.
  Id load(Id from, QualType type, SourceLocation at) {
    if (!holds_pointers(type)) {
      read(from, at);
      return kNone;
    }
    if (from == kNone) from = nowhere(at);
    return add({.what = Fact::kLoad, .to = new_value(), .from = from, .place = unit_.place(at)});
  }
  Id content(Id from) { return add({.what = Fact::kContent, .to = new_value(), .from = from}); }
  void store(Id to, Id from, SourceLocation at) {
    if (to == kNone) to = nowhere(at);
    if (from == kNone) add({.what = Fact::kWrite, .to = to, .place = unit_.place(at)});
    else add({.what = Fact::kStore, .to = to, .from = from, .place = unit_.place(at)});
  }
  void write(Id to, SourceLocation at) { store(to, kNone, at); }
  /// Where a null pointer leads.
  Id nowhere(SourceLocation at) { return outside(Kind::kUnknownPointer, "a null pointer", at); }
  void read(Id from, SourceLocation at) {
    if (from == kNone) from = nowhere(at);
    add({.what = Fact::kRead, .from = from, .place = unit_.place(at)});
  }

  // --- locals

  Id new_local(QualType type) {
    Local local;
    local.has_pointers = holds_pointers(type);
    if (local.has_pointers) local.type = name_of_element(type);
    local.is_object = is_persistent(type);
    function_.locals.push_back(std::move(local));
    return static_cast<Id>(function_.locals.size() - 1);
  }
  Id local_of(const VarDecl* variable) {
    const auto at = locals_.find(variable);
    if (at != locals_.end()) return at->second;
    return locals_[variable] = new_local(variable->getType());
  }
  Id address_of_local(Id local) { return value_to({Target::kLocal, local}); }
  Id new_temporary(QualType type) { return address_of_local(new_local(type)); }

  std::string name_of_element(QualType type) const {
    return context_.getBaseElementType(type).getCanonicalType().getUnqualifiedType().getAsString();
  }

  // --- constants, and other variables with static storage

  Id address_of_static(const VarDecl* variable, SourceLocation at) {
    if (is_made_where_named(variable))
      reason(Kind::kThreadLocal, at, variable->getQualifiedNameAsString());
    if (variable->getType()->isReferenceType()) {
      const Expr* const init = variable->getAnyInitializer();
      const bool is_bound_to_temporary =
          init != nullptr && isa<MaterializeTemporaryExpr>(init->IgnoreParenImpCasts());
      if (init != nullptr && !init->isValueDependent() && !is_bound_to_temporary &&
          !contains_temporary(init) && variable->hasConstantInitialization())
        return address_of(init);
      const Id address = outside_variable(variable);
      read(address, at);
      return address;
    }
    if (is_constant(variable, context_) || is_constant_elsewhere(variable))
      return value_to({Target::kConstant, constant_of(unit_, variable)});
    // Of an empty class there is nothing to read or to change: std::placeholders::_1.
    if (is_empty(variable->getType())) return address_of_literal();
    return outside_variable(variable);
  }
  /// Whoever names a thread's variable first runs what initializes it.
  static bool is_made_where_named(const VarDecl* variable) {
    if (variable->getTLSKind() != VarDecl::TLS_Dynamic) return false;
    const VarDecl* initialized = nullptr;
    const Expr* const init = variable->getAnyInitializer(initialized);
    if (init == nullptr) return !variable->hasDefinition();
    return init->isValueDependent() || !initialized->hasConstantInitialization();
  }
  Id outside_variable(const VarDecl* variable) {
    const bool of_thread = variable->getTLSKind() != VarDecl::TLS_None;
    return outside(of_thread ? Kind::kThreadLocal : Kind::kGlobal,
                   variable->getQualifiedNameAsString(), variable->getLocation());
  }
  Id address_of_literal() { return value_to({Target::kConstant, literal_of(unit_)}); }

  // --- functions

  Id value_to_function(const FunctionDecl* function, SourceLocation at) {
    const auto* const method = dyn_cast<CXXMethodDecl>(function);
    if (method != nullptr && method->isVirtual() && !is_final(method))
      return outside(Kind::kVirtual, unit_.name_of_function(method), at);
    if (is_replaceable(function))
      return outside(Kind::kIndirect, unit_.name_of_function(function), at);
    return value_to({Target::kFunction, function_of(unit_, function)});
  }
  /// Another body than the one that is seen may run.
  static bool is_replaceable(const FunctionDecl* function) {
    for (const FunctionDecl* each : function->redecls())
      if (each->hasAttr<WeakAttr>() || each->hasAttr<GNUInlineAttr>() || each->isMultiVersion() ||
          each->hasAttr<IFuncAttr>() || each->hasAttr<AliasAttr>())
        return true;
    return false;
  }

  // --- lvalues: where they are

  Id address_of(const Expr* expression) {
    expression = expression->IgnoreParens();
    const SourceLocation at = expression->getExprLoc();
    if (expression->isPRValue()) return materialize(expression);
    switch (expression->getStmtClass()) {
      case Stmt::DeclRefExprClass:
        return address_of_reference(cast<DeclRefExpr>(expression));
      case Stmt::MemberExprClass:
        return address_of_member(cast<MemberExpr>(expression));
      case Stmt::ArraySubscriptExprClass: {
        const auto* const subscript = cast<ArraySubscriptExpr>(expression);
        value_of(subscript->getIdx());
        return subscript->getBase()->getType()->isVectorType() ? address_of(subscript->getBase())
                                                               : value_of(subscript->getBase());
      }
      case Stmt::ExtVectorElementExprClass: {
        const auto* const element = cast<ExtVectorElementExpr>(expression);
        return element->isArrow() ? value_of(element->getBase()) : address_of(element->getBase());
      }
      case Stmt::UnaryOperatorClass: {
        const auto* const unary = cast<UnaryOperator>(expression);
        switch (unary->getOpcode()) {
          case UO_Deref:
            return value_of(unary->getSubExpr());
          case UO_PreInc:
          case UO_PreDec:
            return step(unary);
          case UO_Real:
          case UO_Imag:
          case UO_Extension:
            return address_of(unary->getSubExpr());
          default:
            return unsupported(expression);
        }
      }
      case Stmt::BinaryOperatorClass:
      case Stmt::CompoundAssignOperatorClass: {
        const auto* const binary = cast<BinaryOperator>(expression);
        if (binary->isAssignmentOp()) return assign(binary);
        if (binary->getOpcode() == BO_Comma) {
          evaluate(binary->getLHS());
          return address_of(binary->getRHS());
        }
        if (binary->getOpcode() == BO_PtrMemD || binary->getOpcode() == BO_PtrMemI) {
          value_of(binary->getRHS());
          return binary->getOpcode() == BO_PtrMemD ? address_of(binary->getLHS())
                                                   : value_of(binary->getLHS());
        }
        return unsupported(expression);
      }
      case Stmt::ConditionalOperatorClass: {
        const auto* const choice = cast<ConditionalOperator>(expression);
        value_of(choice->getCond());
        return joined(address_of_or_throw(choice->getTrueExpr()),
                      address_of_or_throw(choice->getFalseExpr()));
      }
      case Stmt::BinaryConditionalOperatorClass: {
        const auto* const choice = cast<BinaryConditionalOperator>(expression);
        bind(choice->getOpaqueValue());
        value_of(choice->getCond());
        return joined(address_of(choice->getTrueExpr()), address_of(choice->getFalseExpr()));
      }
      case Stmt::OpaqueValueExprClass: {
        const auto bound = opaque_.find(cast<OpaqueValueExpr>(expression));
        if (bound != opaque_.end()) return bound->second;
        const Expr* const source = cast<OpaqueValueExpr>(expression)->getSourceExpr();
        return source != nullptr ? address_of(source) : unsupported(expression);
      }
      case Stmt::StringLiteralClass:
      case Stmt::PredefinedExprClass:
      case Stmt::ObjCEncodeExprClass:
      case Stmt::SourceLocExprClass:
        return address_of_literal();
      case Stmt::CXXTypeidExprClass: {
        const auto* const type = cast<CXXTypeidExpr>(expression);
        if (type->isPotentiallyEvaluated()) read(address_of(type->getExprOperand()), at);
        return address_of_literal();
      }
      case Stmt::CompoundLiteralExprClass: {
        const auto* const compound = cast<CompoundLiteralExpr>(expression);
        const Id address = new_temporary(compound->getType());
        initialize(address, compound->getInitializer());
        return address;
      }
      case Stmt::MaterializeTemporaryExprClass:
        return materialize(cast<MaterializeTemporaryExpr>(expression)->getSubExpr());
      case Stmt::ExprWithCleanupsClass:
        return address_of(cast<ExprWithCleanups>(expression)->getSubExpr());
      case Stmt::ConstantExprClass:
        return address_of(cast<ConstantExpr>(expression)->getSubExpr());
      case Stmt::SubstNonTypeTemplateParmExprClass:
        return address_of(cast<SubstNonTypeTemplateParmExpr>(expression)->getReplacement());
      case Stmt::GenericSelectionExprClass:
        return address_of(cast<GenericSelectionExpr>(expression)->getResultExpr());
      case Stmt::ChooseExprClass:
        return address_of(cast<ChooseExpr>(expression)->getChosenSubExpr());
      case Stmt::CXXDefaultArgExprClass:
        return address_of(cast<CXXDefaultArgExpr>(expression)->getExpr());
      case Stmt::CXXDefaultInitExprClass:
        return address_of(cast<CXXDefaultInitExpr>(expression)->getExpr());
      case Stmt::CXXStdInitializerListExprClass:
        return materialize(expression);
      case Stmt::InitListExprClass:
        if (cast<InitListExpr>(expression)->getNumInits() == 1)
          return address_of(cast<InitListExpr>(expression)->getInit(0));
        return materialize(expression);
      case Stmt::VAArgExprClass:
        return value_of_va_arg(cast<VAArgExpr>(expression));
      case Stmt::StmtExprClass: {
        const auto* const statement = cast<StmtExpr>(expression);
        return value_of_statement(statement, true);
      }
      case Stmt::CXXThrowExprClass:
        value_of(expression);
        return kNone;
      default:
        break;
    }
    if (const auto* const call = dyn_cast<CallExpr>(expression)) return value_of_call(call);
    if (const auto* const cast = dyn_cast<CastExpr>(expression)) return address_of_cast(cast);
    return unsupported(expression);
  }

  /// One side of a choice may be a throw.
  Id address_of_or_throw(const Expr* expression) {
    if (isa<CXXThrowExpr>(expression->IgnoreParens())) return value_of(expression);
    return address_of(expression);
  }

  Id address_of_reference(const DeclRefExpr* reference) {
    const SourceLocation at = reference->getExprLoc();
    const ValueDecl* const decl = reference->getDecl();
    if (const auto* const function = dyn_cast<FunctionDecl>(decl))
      return value_to_function(function, at);
    if (const auto* const binding = dyn_cast<BindingDecl>(decl)) {
      if (const VarDecl* const holder = binding->getHoldingVar())
        return address_of_variable(holder, at, reference->refersToEnclosingVariableOrCapture());
      if (closure_ != nullptr && reference->refersToEnclosingVariableOrCapture())
        return address_of_captured(binding);
      return address_of(binding->getBinding());
    }
    if (const auto* const variable = dyn_cast<VarDecl>(decl))
      return address_of_variable(variable, at, reference->refersToEnclosingVariableOrCapture());
    if (isa<TemplateParamObjectDecl, EnumConstantDecl, MSGuidDecl, UnnamedGlobalConstantDecl>(decl))
      return address_of_literal();
    return unsupported(reference);
  }

  Id address_of_variable(const VarDecl* variable, SourceLocation at, bool captured) {
    if (is_variable_outside(variable)) return address_of_static(variable, at);
    if (captured && closure_ != nullptr) return address_of_captured(variable);
    const auto* const of = dyn_cast<Decl>(variable->getDeclContext());
    if (of != nullptr && isa<FunctionDecl>(of) && of != decl_ && !isa<ParmVarDecl>(variable))
      return address_of_another(variable, at);
    const Id address = address_of_local(local_of(variable));
    return variable->getType()->isReferenceType() ? content(address) : address;
  }

  /// A variable of the function around this one that is known without it: a reference to something
  /// static, a constant.
  Id address_of_another(const VarDecl* variable, SourceLocation at) {
    const Expr* const init = variable->getAnyInitializer();
    if (init == nullptr || init->isValueDependent())
      return outside(Kind::kUnsupported, variable->getNameAsString(), at);
    if (variable->getType()->isReferenceType()) return address_of(init);
    const Id address = new_temporary(variable->getType());
    initialize(address, init);
    return address;
  }

  /// In the body of a lambda, whose closure is its `this`.
  Id address_of_captured(const ValueDecl* variable) {
    const auto at = captures_.find(variable);
    if (at == captures_.end()) {  // of a lambda around it, or not used as a variable
      const auto* const decl = dyn_cast<VarDecl>(variable);
      if (decl != nullptr && !isa<ParmVarDecl>(decl))
        return address_of_another(decl, variable->getLocation());
      return outside(Kind::kUnsupported, variable->getNameAsString(), variable->getLocation());
    }
    if (!at->second->getType()->isReferenceType()) return 0;  // a copy, in the closure
    const auto* const binding = dyn_cast<BindingDecl>(variable);
    const ValueDecl* const of = binding != nullptr ? binding->getDecomposedDecl() : variable;
    if (of->getType()->isReferenceType()) return content(0);
    return value_to(Target::captured(0, 1, 0));
  }

  /// A value of the type: kNone for numbers; no pointer is a null pointer.
  Id of_pointers(Id value, QualType type) {
    if (!holds_pointers(type)) return kNone;
    return value == kNone ? null() : value;
  }

  Id value_of_this(SourceLocation at) {
    if (initialized_ != kNone) return initialized_;
    if (closure_ != nullptr) {
      // By pointer, or a copy of the object in the closure.
      if (closure_this_ != nullptr && !closure_this_->getType()->isPointerType()) return 0;
      return content(0);
    }
    return has_this_ ? 0 : outside(Kind::kUnsupported, "this", at);
  }

  Id address_of_member(const MemberExpr* member) {
    const ValueDecl* const decl = member->getMemberDecl();
    const Expr* const base = member->getBase();
    const SourceLocation at = member->getMemberLoc();
    if (const auto* const variable = dyn_cast<VarDecl>(decl)) {
      evaluate(base);
      return address_of_static(variable, at);
    }
    if (const auto* const function = dyn_cast<FunctionDecl>(decl)) {
      evaluate(base);
      return value_to_function(function, at);
    }
    const Id address = member->isArrow() ? value_of(base) : address_of(base);
    const auto* const field = dyn_cast<FieldDecl>(decl);
    if (field == nullptr) return isa<EnumConstantDecl>(decl) ? kNone : unsupported(member);
    // Its memory is another object's.
    if (is_persistent(context_.getBaseElementType(field->getType())))
      return outside(Kind::kMember, field->getQualifiedNameAsString(), at);
    if (is_mixed_union(field->getParent())) reinterpret(address, "");
    if (field->getType()->isReferenceType()) {
      return load(address, field->getType(), at);
    }
    return address;
  }

  void reinterpret(Id address, std::string type, Id from = kNone) {
    if (address == kNone) return;
    add({.what = Fact::kReinterpret, .to = address, .from = from, .name = std::move(type)});
  }

  Id address_of_cast(const CastExpr* cast) {
    const Expr* const sub = cast->getSubExpr();
    switch (cast->getCastKind()) {
      case CK_NoOp:
      case CK_DerivedToBase:
      case CK_UncheckedDerivedToBase:
      case CK_BaseToDerived:
      case CK_UserDefinedConversion:
      case CK_ConstructorConversion:
      case CK_AddressSpaceConversion:
        return address_of(sub);
      case CK_LValueBitCast: {
        const Id address = address_of(sub);
        reinterpret(address, name_of_element(cast->getType()));
        return address;
      }
      case CK_Dynamic: {
        const Id address = address_of(sub);
        read(address, cast->getExprLoc());
        reason(Kind::kThrows, cast->getExprLoc(), "dynamic_cast of a reference");
        return address;
      }
      default:
        return unsupported(cast);
    }
  }

  // --- values

  /// For its effects.
  void evaluate(const Expr* expression) {
    if (expression->isGLValue()) address_of(expression);
    else value_of(expression);
  }

  /// Where what it is may lead. A pointer that the walk has lost leads anywhere.
  Id value_of(const Expr* expression) {
    if (expression == nullptr) return kNone;
    const Id value = value_of_any(expression);
    const QualType type = expression->getType();
    if (value != kNone || expression->isGLValue() ||
        !(type->isAnyPointerType() || type->isMemberFunctionPointerType()))
      return value;
    Expr::EvalResult result;
    if (expression->IgnoreParens()->getStmtClass() == Stmt::CXXThrowExprClass ||
        (!expression->isValueDependent() && expression->EvaluateAsRValue(result, context_) &&
         (result.Val.isNullPointer() ||
          (result.Val.isMemberPointer() && result.Val.getMemberPointerDecl() == nullptr))))
      return null();
    return outside(Kind::kUnknownPointer, "a pointer of which nothing is known",
                   expression->getExprLoc());
  }
  Id value_of_any(const Expr* expression) {
    expression = expression->IgnoreParens();
    if (expression->isGLValue()) {  // of C, and of references that are bound
      const Id address = address_of(expression);
      return address;
    }
    const SourceLocation at = expression->getExprLoc();
    switch (expression->getStmtClass()) {
      case Stmt::IntegerLiteralClass:
      case Stmt::FloatingLiteralClass:
      case Stmt::ImaginaryLiteralClass:
      case Stmt::FixedPointLiteralClass:
      case Stmt::CharacterLiteralClass:
      case Stmt::CXXBoolLiteralExprClass:
      case Stmt::CXXNullPtrLiteralExprClass:
      case Stmt::GNUNullExprClass:
      case Stmt::TypeTraitExprClass:
      case Stmt::ArrayTypeTraitExprClass:
      case Stmt::ExpressionTraitExprClass:
      case Stmt::SizeOfPackExprClass:
      case Stmt::CXXNoexceptExprClass:
      case Stmt::RequiresExprClass:
      case Stmt::ConceptSpecializationExprClass:
      case Stmt::ImplicitValueInitExprClass:
      case Stmt::CXXScalarValueInitExprClass:
      case Stmt::NoInitExprClass:
      case Stmt::ArrayInitIndexExprClass:
      case Stmt::SourceLocExprClass:
      case Stmt::AddrLabelExprClass:
        return kNone;
      case Stmt::UnaryExprOrTypeTraitExprClass: {
        const auto* const trait = cast<UnaryExprOrTypeTraitExpr>(expression);
        if (!trait->getTypeOfArgument()->isVariablyModifiedType()) return kNone;
        if (trait->isArgumentType()) visit_sizes(trait->getArgumentType());
        else evaluate(trait->getArgumentExpr());
        return kNone;
      }
      case Stmt::OffsetOfExprClass: {
        const auto* const offset = cast<OffsetOfExpr>(expression);
        for (unsigned i = 0; i < offset->getNumExpressions(); ++i)
          value_of(offset->getIndexExpr(i));
        return kNone;
      }
      case Stmt::DeclRefExprClass:  // an enumerator, or a method that is called
        return isa<EnumConstantDecl, NonTypeTemplateParmDecl>(
                   cast<DeclRefExpr>(expression)->getDecl())
                   ? kNone
                   : address_of_reference(cast<DeclRefExpr>(expression));
      case Stmt::MemberExprClass:
        return address_of_member(cast<MemberExpr>(expression));
      case Stmt::CXXThisExprClass:
        return value_of_this(at);
      case Stmt::UnaryOperatorClass:
        return value_of_unary(cast<UnaryOperator>(expression));
      case Stmt::BinaryOperatorClass:
      case Stmt::CompoundAssignOperatorClass:
        return value_of_binary(cast<BinaryOperator>(expression));
      case Stmt::CXXRewrittenBinaryOperatorClass:
        return value_of(cast<CXXRewrittenBinaryOperator>(expression)->getSemanticForm());
      case Stmt::ConditionalOperatorClass: {
        const auto* const choice = cast<ConditionalOperator>(expression);
        value_of(choice->getCond());
        const Id first = value_of(choice->getTrueExpr());
        return joined(first, value_of(choice->getFalseExpr()));
      }
      case Stmt::BinaryConditionalOperatorClass: {
        const auto* const choice = cast<BinaryConditionalOperator>(expression);
        bind(choice->getOpaqueValue());
        value_of(choice->getCond());
        const Id first = value_of(choice->getTrueExpr());
        return joined(first, value_of(choice->getFalseExpr()));
      }
      case Stmt::OpaqueValueExprClass: {
        const auto bound = opaque_.find(cast<OpaqueValueExpr>(expression));
        if (bound != opaque_.end()) return bound->second;
        return value_of(cast<OpaqueValueExpr>(expression)->getSourceExpr());
      }
      case Stmt::ExprWithCleanupsClass:
        return value_of(cast<ExprWithCleanups>(expression)->getSubExpr());
      case Stmt::ConstantExprClass:
        // Found by the compiler: nothing is done here.
        if (cast<ConstantExpr>(expression)->hasAPValueResult() &&
            !holds_pointers(expression->getType()))
          return kNone;
        return value_of(cast<ConstantExpr>(expression)->getSubExpr());
      case Stmt::SubstNonTypeTemplateParmExprClass:
        return value_of(cast<SubstNonTypeTemplateParmExpr>(expression)->getReplacement());
      case Stmt::GenericSelectionExprClass:
        return value_of(cast<GenericSelectionExpr>(expression)->getResultExpr());
      case Stmt::ChooseExprClass:
        return value_of(cast<ChooseExpr>(expression)->getChosenSubExpr());
      case Stmt::CXXDefaultArgExprClass:
        return value_of(cast<CXXDefaultArgExpr>(expression)->getExpr());
      case Stmt::CXXDefaultInitExprClass:
        return value_of(cast<CXXDefaultInitExpr>(expression)->getExpr());
      case Stmt::VAArgExprClass:
        return value_of_va_arg(cast<VAArgExpr>(expression));
      case Stmt::AtomicExprClass:
        return value_of_atomic(cast<AtomicExpr>(expression));
      case Stmt::StmtExprClass:
        return value_of_statement(cast<StmtExpr>(expression), false);
      case Stmt::CXXThrowExprClass:
        if (const Expr* const thrown = cast<CXXThrowExpr>(expression)->getSubExpr()) {
          evaluate(thrown);
          const CXXRecordDecl* const record = thrown->getType()->getAsCXXRecordDecl();
          if (record != nullptr && record->hasDefinition() && !record->hasTrivialDestructor())
            call_function(record->getDestructor(), {new_temporary(thrown->getType())},
                          context_.VoidTy, at);
        }
        reason(Kind::kThrows, at, "throw");
        return kNone;
      case Stmt::CXXNewExprClass:
        return value_of_new(cast<CXXNewExpr>(expression));
      case Stmt::CXXDeleteExprClass:
        return value_of_delete(cast<CXXDeleteExpr>(expression));
      case Stmt::CXXPseudoDestructorExprClass:
        value_of(cast<CXXPseudoDestructorExpr>(expression)->getBase());
        return kNone;
      case Stmt::ShuffleVectorExprClass:
      case Stmt::ConvertVectorExprClass:
        for (const Stmt* child : expression->children())
          if (const auto* const each = dyn_cast_or_null<Expr>(child)) value_of(each);
        return kNone;
      case Stmt::InitListExprClass:
        if (!is_in_memory(expression->getType())) {
          const auto* const list = cast<InitListExpr>(expression);
          Id value = kNone;
          for (const Expr* each : list->inits()) value = joined(value, value_of(each));
          return value;
        }
        [[fallthrough]];
      case Stmt::CXXConstructExprClass:
      case Stmt::CXXTemporaryObjectExprClass:
      case Stmt::CXXInheritedCtorInitExprClass:
      case Stmt::CXXBindTemporaryExprClass:
      case Stmt::CXXParenListInitExprClass:
      case Stmt::CXXStdInitializerListExprClass:
      case Stmt::LambdaExprClass:
      case Stmt::ArrayInitLoopExprClass:
      case Stmt::DesignatedInitUpdateExprClass:
      case Stmt::CompoundLiteralExprClass:
        return holds_pointers(expression->getType()) ? content(materialize(expression))
                                                     : (materialize(expression), kNone);
      default:
        break;
    }
    if (const auto* const call = dyn_cast<CallExpr>(expression)) return value_of_call(call);
    if (const auto* const cast = dyn_cast<CastExpr>(expression)) return value_of_cast(cast);
    return unsupported(expression);
  }

  static bool is_in_memory(QualType type) { return type->isRecordType() || type->isArrayType(); }

  void bind(const OpaqueValueExpr* opaque) {
    const Expr* const source = opaque->getSourceExpr();
    opaque_[opaque] = source->isGLValue() ? address_of(source) : value_of(source);
  }

  Id unsupported(const Expr* expression) {
    reason(Kind::kUnsupported, expression->getExprLoc(), expression->getStmtClassName());
    return told();
  }

  /// ++ and --. The address.
  Id step(const UnaryOperator* unary) {
    const Id address = address_of(unary->getSubExpr());
    read(address, unary->getExprLoc());
    write(address, unary->getExprLoc());
    return address;
  }

  Id value_of_unary(const UnaryOperator* unary) {
    const Expr* const sub = unary->getSubExpr();
    switch (unary->getOpcode()) {
      case UO_AddrOf: {
        const Expr* const operand = sub->IgnoreParens();
        if (const auto* const reference = dyn_cast<DeclRefExpr>(operand)) {
          if (isa<FieldDecl, IndirectFieldDecl>(reference->getDecl())) return kNone;
          if (const auto* const function = dyn_cast<FunctionDecl>(reference->getDecl()))
            return value_to_function(function, unary->getExprLoc());
        }
        return address_of(operand);
      }
      case UO_PreInc:
      case UO_PreDec:
      case UO_PostInc:
      case UO_PostDec: {
        const Id address = step(unary);
        return holds_pointers(unary->getType()) ? content(address) : kNone;
      }
      case UO_Coawait:
        return unsupported(unary);
      case UO_Extension:
      case UO_Plus:
        return value_of(sub);
      default:
        evaluate(sub);
        return kNone;
    }
  }

  Id assign(const BinaryOperator* binary) {
    const SourceLocation at = binary->getExprLoc();
    const Expr* const left = binary->getLHS();
    const Id value = value_of(binary->getRHS());
    const Id address = address_of(left);
    if (binary->isCompoundAssignmentOp()) {
      read(address, at);
      write(address, at);
    } else {
      store(address, of_pointers(value, left->getType()), at);
    }
    return address;
  }

  Id value_of_binary(const BinaryOperator* binary) {
    if (binary->isAssignmentOp()) {
      const Id address = assign(binary);
      return holds_pointers(binary->getType()) ? content(address) : kNone;
    }
    switch (binary->getOpcode()) {
      case BO_Comma:
        evaluate(binary->getLHS());
        return value_of(binary->getRHS());
      case BO_Add:
      case BO_Sub: {
        if (binary->getType()->isIntegerType() && binary->getLHS()->getType()->isPointerType() &&
            (is_null(binary->getLHS()) || is_null(binary->getRHS())))
          reason(Kind::kAddressAsNumber, binary->getExprLoc(), "");
        const Id left = value_of(binary->getLHS());
        const Id right = value_of(binary->getRHS());
        return binary->getType()->isPointerType() ? joined(left, right) : kNone;
      }
      case BO_PtrMemD:
      case BO_PtrMemI: {
        value_of(binary->getRHS());
        return binary->getOpcode() == BO_PtrMemD ? address_of(binary->getLHS())
                                                 : value_of(binary->getLHS());
      }
      default:
        value_of(binary->getLHS());
        value_of(binary->getRHS());
        return kNone;
    }
  }

  bool is_null(const Expr* expression) const {
    Expr::EvalResult result;
    return !expression->isValueDependent() && expression->EvaluateAsRValue(result, context_) &&
           result.Val.isNullPointer();
  }

  Id value_of_cast(const CastExpr* cast) {
    const Expr* const sub = cast->getSubExpr();
    const SourceLocation at = cast->getExprLoc();
    switch (cast->getCastKind()) {
      case CK_LValueToRValue: {
        const auto* const member = dyn_cast<MemberExpr>(sub->IgnoreParens());
        if (member != nullptr && is_poroot(member->getMemberDecl())) {
          const Id base =
              member->isArrow() ? value_of(member->getBase()) : address_of(member->getBase());
          return add({.what = Fact::kLoadPoroot,
                      .to = new_value(),
                      .from = base,
                      .place = unit_.place(member->getMemberLoc())});
        }
        // A constant that is used as a number is none of a variable.
        if (const auto* const reference = dyn_cast<DeclRefExpr>(sub->IgnoreParens()))
          if (reference->isNonOdrUse() != NOUR_None && !holds_pointers(cast->getType()) &&
              !reference->getDecl()->getType()->isReferenceType())
            return kNone;
        if (member != nullptr && !holds_pointers(cast->getType())) {
          const auto* const field = dyn_cast<FieldDecl>(member->getMemberDecl());
          if (field != nullptr && is_mixed_union(field->getParent()))
            reason(Kind::kAddressAsNumber, at, "");
        }
        return load(address_of(sub), cast->getType(), place_of_access(sub));
      }
      case CK_ArrayToPointerDecay:
      case CK_FunctionToPointerDecay:
      case CK_BuiltinFnToFnPtr:
        return address_of(sub);
      case CK_NullToPointer:
      case CK_NullToMemberPointer:
        evaluate(sub);
        return kNone;
      case CK_IntegralToPointer: {
        value_of(sub);
        Expr::EvalResult number;
        if (!sub->isValueDependent() && sub->EvaluateAsInt(number, context_) &&
            number.Val.getInt().isZero())
          return kNone;
        return outside(Kind::kUnknownPointer, "a pointer that is made of a number", at);
      }
      case CK_PointerToIntegral: {
        evaluate(sub);
        Expr::EvalResult number;
        if (!cast->isValueDependent() && cast->EvaluateAsInt(number, context_)) return kNone;
        reason(Kind::kAddressAsNumber, at, "");
        return kNone;
      }
      case CK_BitCast:
      case CK_ReinterpretMemberPointer: {
        const Id value = value_of(sub);
        const QualType to = cast->getType()->getPointeeType();
        if (cast->getType()->isFunctionPointerType() && !sub->getType()->isFunctionPointerType())
          return outside(Kind::kIndirect, "a function by a pointer", at);
        if (value != kNone && !to.isNull() && !to->isVoidType() && !to->isFunctionType()) {
          reinterpret(value, name_of_element(to));
          // The bytes of a pointer are other ones in each run.
          const QualType from = sub->getType()->getPointeeType();
          if (to->isArithmeticType() && !from.isNull() && from->isPointerType() &&
              !unit_.is_in_system_header(at))
            reason(Kind::kAddressAsNumber, at, "");
        }
        return value;
      }
      case CK_LValueToRValueBitCast: {
        const Id address = address_of(sub);
        const Id value = load(address, sub->getType(), at);
        if (holds_pointers(cast->getType()) && !same_type(cast->getType(), sub->getType()))
          return outside(Kind::kUnknownPointer, "a pointer that is made of other bits", at);
        if (value != kNone && !holds_pointers(cast->getType()))
          reason(Kind::kAddressAsNumber, at, "");
        return value;
      }
      case CK_Dynamic: {
        const Id value = value_of(sub);
        read(value, at);
        return value;
      }
      case CK_UserDefinedConversion:
      case CK_ConstructorConversion:
      case CK_NoOp:
      case CK_DerivedToBase:
      case CK_UncheckedDerivedToBase:
      case CK_BaseToDerived:
      case CK_AddressSpaceConversion:
      case CK_AnyPointerToBlockPointerCast:
      case CK_CPointerToObjCPointerCast:
      case CK_AtomicToNonAtomic:
      case CK_NonAtomicToAtomic:
      case CK_BaseToDerivedMemberPointer:
      case CK_DerivedToBaseMemberPointer:
      case CK_ToUnion:
        return value_of(sub);
      default: {
        // Numbers from numbers; and whether a pointer is null.
        evaluate(sub);
        return holds_pointers(cast->getType()) ? unsupported(cast) : kNone;
      }
    }
  }

  bool same_type(QualType a, QualType b) const {
    return context_.hasSameUnqualifiedType(a.getCanonicalType(), b.getCanonicalType());
  }

  /// Of `p->member` and `a[i]` the member and what is in brackets; else where it begins.
  static SourceLocation place_of_access(const Expr* expression) {
    return expression->IgnoreParens()->getExprLoc();
  }

  Id value_of_va_arg(const VAArgExpr* argument) {
    const Id list = argument->getSubExpr()->isGLValue() ? address_of(argument->getSubExpr())
                                                        : value_of(argument->getSubExpr());
    static_cast<void>(list);  // the state of the list, a local of who has it
    return holds_pointers(argument->getType())
               ? outside(Kind::kUnknownPointer, "a pointer among further arguments",
                         argument->getExprLoc())
               : kNone;
  }

  Id value_of_statement(const StmtExpr* statement, bool address) {
    const CompoundStmt* const body = statement->getSubStmt();
    Id value = kNone;
    for (const Stmt* each : body->body()) {
      const auto* const last = dyn_cast<Expr>(each);
      if (each == body->body_back() && last != nullptr && !statement->getType()->isVoidType())
        value = address ? address_of(last) : value_of(last);
      else visit(each);
    }
    return value;
  }

  /// The argument points to what is worked on; others are values, or point to values.
  Id value_of_atomic(const AtomicExpr* atomic) {
    const SourceLocation at = atomic->getExprLoc();
    const Id place = value_of(atomic->getPtr());
    const bool pointers = holds_pointers(atomic->getValueType());
    read(place, at);
    Id value = kNone;
    const auto takes = [&](const Expr* operand) {
      const Id each = operand->isGLValue() ? address_of(operand) : value_of(operand);
      if (operand->getType()->isPointerType() &&
          same_type(operand->getType()->getPointeeType(), atomic->getValueType())) {
        read(each, at);
        write(each, at);
        if (pointers) {
          store(each, content(place), at);
          value = joined(value, content(each));
        }
      } else {
        value = joined(value, each);
      }
    };
    Expr** const operands = const_cast<AtomicExpr*>(atomic)->getSubExprs();
    for (unsigned i = 0; i < atomic->getNumSubExprs(); ++i) {
      if (operands[i] == atomic->getPtr()) continue;
      if (operands[i] == atomic->getOrder() && atomic->getOp() != AtomicExpr::AO__c11_atomic_init) {
        value_of(operands[i]);
        continue;
      }
      takes(operands[i]);
    }
    switch (atomic->getOp()) {
      case AtomicExpr::AO__c11_atomic_load:
      case AtomicExpr::AO__atomic_load:
      case AtomicExpr::AO__atomic_load_n:
        break;
      default:
        store(place, pointers ? value : kNone, at);
    }
    return pointers && holds_pointers(atomic->getType()) ? joined(content(place), value) : kNone;
  }

  Id value_of_new(const CXXNewExpr* expression) {
    const SourceLocation at = expression->getExprLoc();
    if (expression->isArray() && expression->getArraySize().has_value() &&
        *expression->getArraySize() != nullptr)
      value_of(*expression->getArraySize());
    const FunctionDecl* const give = expression->getOperatorNew();
    Id address = kNone;
    if (give->isReservedGlobalPlacementOperator()) {
      const Expr* const place = expression->getPlacementArg(0);
      address = value_of(place);
      // Where a T is by its pointer, another T is no other type: as std::construct_at makes one.
      const QualType there = without_casts(place)->getType()->getPointeeType();
      if (there.isNull() || !same_type(there, expression->getAllocatedType()))
        reinterpret(address, name_of_element(expression->getAllocatedType()));
    } else {
      std::vector<Id> arguments{kNone};
      if (expression->passAlignment()) arguments.push_back(kNone);
      for (const Expr* each : expression->placement_arguments())
        arguments.push_back(each->isGLValue() ? address_of(each) : value_of(each));
      address = call_function(give, arguments, expression->getType(), at);
    }
    if (const Expr* const init = expression->getInitializer()) {
      if (address == kNone) address = told();
      initialize(address, init);
    }
    return address;
  }

  Id value_of_delete(const CXXDeleteExpr* expression) {
    const SourceLocation at = expression->getExprLoc();
    const Id address = value_of(expression->getArgument());
    const QualType type = expression->getDestroyedType();
    const CXXRecordDecl* const record = type.isNull() ? nullptr : type->getAsCXXRecordDecl();
    if (record != nullptr && record->hasDefinition() && !record->hasTrivialDestructor()) {
      const CXXDestructorDecl* const destructor = record->getDestructor();
      if (destructor->isVirtual() && !is_final(destructor))
        reason(Kind::kVirtual, at, unit_.name_of_function(destructor));
      else call_function(destructor, {address}, context_.VoidTy, at);
    }
    if (const FunctionDecl* const take = expression->getOperatorDelete())
      call_function(take, {address}, context_.VoidTy, at);
    else reason(Kind::kMemory, at, "delete");
    return kNone;
  }

  // --- calls

  Id value_of_call(const CallExpr* call) {
    const SourceLocation at = call->getExprLoc();
    // Of a reference its own type is that of what it refers to.
    const QualType answers = call->isGLValue() ? context_.VoidPtrTy : call->getType();
    const auto* const callee = dyn_cast_or_null<FunctionDecl>(call->getCalleeDecl());
    std::vector<Id> arguments;
    const FunctionDecl* target = callee;
    unsigned first = 0;
    if (const auto* const member = dyn_cast<CXXMemberCallExpr>(call)) {
      const Expr* const callee_expression = member->getCallee()->IgnoreParens();
      if (const auto* const binary = dyn_cast<BinaryOperator>(callee_expression)) {  // ->*
        const Id pointer = value_of(binary->getRHS());
        arguments.push_back(binary->getOpcode() == BO_PtrMemD ? address_of(binary->getLHS())
                                                              : value_of(binary->getLHS()));
        const auto* const type = binary->getRHS()->getType()->castAs<MemberPointerType>();
        add_arguments(call, 0, type->getPointeeType()->getAs<FunctionProtoType>(), arguments);
        return call_pointer(pointer, arguments, answers, at);
      }
      const auto* const named = dyn_cast<MemberExpr>(callee_expression);
      if (named == nullptr) return unsupported(call);
      if (isa<CXXPseudoDestructorExpr>(callee_expression)) return kNone;
      const auto* method = dyn_cast_or_null<CXXMethodDecl>(callee);
      if (method == nullptr) return unsupported(call);
      const Expr* const base = named->getBase();
      if (method->isImplicitObjectMemberFunction()) {
        arguments.push_back(named->isArrow() ? value_of(base) : address_of(base));
      } else if (method->isExplicitObjectMemberFunction()) {
        arguments.push_back(named->isArrow() ? value_of(base) : address_of(base));
      } else {
        evaluate(base);
      }
      if (const auto* const conversion = dyn_cast<CXXConversionDecl>(method)) {
        if (conversion->getParent()->isLambda())
          return value_to({Target::kFunction, invoker(conversion->getParent())});
      }
      if (method->isVirtual() && !named->hasQualifier()) {
        const Expr* const object = base->IgnoreParenBaseCasts();
        CXXMethodDecl* const bound =
            const_cast<CXXMethodDecl*>(method)->getDevirtualizedMethod(object, false);
        if (bound == nullptr) {
          add_arguments(call, 0, method->getType()->getAs<FunctionProtoType>(), arguments);
          return unresolved(Kind::kVirtual, unit_.name_of_function(method), arguments, answers, at);
        }
        target = bound;
      }
    } else if (isa<CXXOperatorCallExpr>(call)) {
      const auto* const method = dyn_cast_or_null<CXXMethodDecl>(callee);
      if (method != nullptr) {
        if (method->isInstance()) {
          arguments.push_back(call->getArg(0)->isGLValue() ? address_of(call->getArg(0))
                                                           : materialize(call->getArg(0)));
        } else {
          evaluate(call->getArg(0));
        }
        first = 1;
        if (method->isVirtual()) {
          CXXMethodDecl* const bound = const_cast<CXXMethodDecl*>(method)->getDevirtualizedMethod(
              call->getArg(0)->IgnoreParenBaseCasts(), false);
          if (bound == nullptr) {
            add_arguments(call, 1, method->getType()->getAs<FunctionProtoType>(), arguments);
            return unresolved(Kind::kVirtual, unit_.name_of_function(method), arguments, answers,
                              at);
          }
          target = bound;
        }
      }
    }
    const auto* const called = dyn_cast<MemberExpr>(call->getCallee()->IgnoreParenImpCasts());
    if (called != nullptr && callee != nullptr && !isa<CXXMemberCallExpr>(call))
      evaluate(called->getBase());  // of a static method
    if (const auto* const nothing =
            dyn_cast<CXXPseudoDestructorExpr>(call->getCallee()->IgnoreParens())) {
      evaluate(nothing->getBase());
      return kNone;
    }
    if (target == nullptr) {
      const Id pointer = value_of(call->getCallee());
      const QualType type = call->getCallee()->getType();
      const auto* const function =
          type->isPointerType() ? type->getPointeeType()->getAs<FunctionProtoType>() : nullptr;
      add_arguments(call, 0, function, arguments);
      return call_pointer(pointer, arguments, answers, at);
    }
    if (const auto* const method = dyn_cast<CXXMethodDecl>(target);
        method != nullptr && isa<CXXOperatorCallExpr>(call) && method->isTrivial() &&
        (method->isCopyAssignmentOperator() || method->isMoveAssignmentOperator())) {
      const Id from = argument(call->getArg(1), true);
      const QualType type = context_.getRecordType(method->getParent());
      store(arguments[0], load(from, type, at), at);
      return arguments[0];
    }
    if (target->getBuiltinID() != 0 || is_library_function(target)) {
      Id result = kNone;
      if (call_known(target, call, result)) return result;
    }
    add_arguments(call, first, target->getType()->getAs<FunctionProtoType>(), arguments);
    return call_function(target, arguments, answers, at);
  }

  /// Of the C library or of the C++ library's own, as their headers declare it.
  bool is_library_function(const FunctionDecl* function) const {
    return (function->isExternC() || is_hash_of_library(function) ||
            function->getDeclContext()->getRedeclContext()->isTranslationUnit()) &&
           unit_.is_in_system_header(function->getCanonicalDecl()->getLocation());
  }

  static bool is_hash_of_library(const FunctionDecl* function) {
    return is_std(function) && function->getIdentifier() != nullptr &&
           function->getName().ends_with("ash_bytes");
  }

  void add_arguments(const CallExpr* call, unsigned first, const FunctionProtoType* type,
                     std::vector<Id>& arguments) {
    for (unsigned i = first; i < call->getNumArgs(); ++i) {
      const unsigned parameter = i - first;
      const bool reference = type != nullptr && parameter < type->getNumParams() &&
                             type->getParamType(parameter)->isReferenceType();
      arguments.push_back(argument(call->getArg(i), reference));
    }
  }
  Id argument(const Expr* expression, bool reference) {
    if (reference || expression->isGLValue()) return address_of(expression);
    return value_of(expression);
  }

  /// Takes builtins and functions of the C library that are known. False: it is none of these.
  bool call_known(const FunctionDecl* function, const CallExpr* call, Id& result) {
    const SourceLocation at = call->getExprLoc();
    const unsigned builtin = function->getBuiltinID();
    StringRef name = function->getIdentifier() != nullptr ? function->getName() : "";
    const bool is_builtin = builtin != 0 && name.starts_with("__builtin_");
    if (builtin != 0 && name.consume_front("__builtin_")) {
      if (name.consume_front("__") || name.starts_with("_")) name.consume_back("_chk");
    }
    if (builtin == Builtin::BI__builtin_addressof || builtin == Builtin::BIaddressof ||
        builtin == Builtin::BI__addressof) {
      result = address_of(call->getArg(0));
      return true;
    }
    if (builtin == Builtin::BImove || builtin == Builtin::BIforward ||
        builtin == Builtin::BIforward_like || builtin == Builtin::BImove_if_noexcept ||
        builtin == Builtin::BIas_const) {
      result = address_of(call->getArg(0));
      return true;
    }
    if (builtin == Builtin::BI__builtin_alloca ||
        builtin == Builtin::BI__builtin_alloca_uninitialized ||
        builtin == Builtin::BI__builtin_alloca_with_align || builtin == Builtin::BIalloca) {
      value_of(call->getArg(0));
      result = new_temporary(context_.VoidPtrTy);
      return true;
    }
    const FunctionDecl* definition = nullptr;
    if (function->hasBody(definition)) return false;
    if (name == "__sync_synchronize" || name == "__atomic_thread_fence" ||
        name == "__c11_atomic_thread_fence" || name == "atomic_thread_fence") {
      for (const Expr* each : call->arguments()) value_of(each);
      reason(Kind::kFence, at, name.str());
      return true;
    }
    if (name == "__atomic_signal_fence" || name == "__c11_atomic_signal_fence" ||
        name.ends_with("atomic_is_lock_free") || name.ends_with("atomic_always_lock_free")) {
      for (const Expr* each : call->arguments()) value_of(each);
      return true;
    }
    if (builtin != 0 && name.starts_with("__sync_")) {
      const Id place = value_of(call->getArg(0));
      read(place, at);
      Id value = kNone;
      for (unsigned i = 1; i < call->getNumArgs(); ++i)
        value = joined(value, value_of(call->getArg(i)));
      store(place, value, at);
      result = holds_pointers(call->getType()) ? joined(content(place), value) : kNone;
      return true;
    }
    if (ends_program(name) && (is_builtin || name != "trap")) {
      for (const Expr* each : call->arguments()) evaluate(each);
      return true;
    }
    if (is_allocator(name)) {
      std::vector<Id> arguments;
      add_arguments(call, 0, function->getType()->getAs<FunctionProtoType>(), arguments);
      result = unresolved(Kind::kMemory, name.str(), arguments, call->getType(), at);
      return true;
    }
    if (const std::string_view variable = variable_behind({name.data(), name.size()});
        !variable.empty()) {
      std::vector<Id> arguments;
      add_arguments(call, 0, function->getType()->getAs<FunctionProtoType>(), arguments);
      result = unresolved(Kind::kGlobal, std::string(variable), arguments, call->getType(), at);
      return true;
    }
    static constexpr Model kNumbersAlone{"", -1};
    const Model* model = model_of({name.data(), name.size()}, is_builtin);
    if (builtin != 0 && name.contains("_overflow") && call->getNumArgs() == 3) {
      static constexpr Model kOverflow{"..w", -1};
      model = &kOverflow;
    }
    if (builtin != 0 && (name.starts_with("addc") || name.starts_with("subc"))) {
      static constexpr Model kCarry{"...w", -1};
      model = &kCarry;
    }
    if (builtin != 0 && model == nullptr && context_.BuiltinInfo.isConst(builtin) &&
        !holds_pointers(call->getType()) && !name.starts_with("cpu_") &&
        !name.starts_with("is_aligned"))
      model = &kNumbersAlone;
    if (model == nullptr) return false;
    apply(*model, call, result);
    return true;
  }

  void apply(const Model& model, const CallExpr* call, Id& result) {
    const SourceLocation at = call->getExprLoc();
    std::vector<Id> values;
    for (const Expr* each : call->arguments())
      values.push_back(each->isGLValue() ? address_of(each) : value_of(each));
    Id source = kNone;
    Id copied = kNone;
    std::string copied_type;
    for (std::size_t i = 0; i < model.arguments.size() && i < values.size(); ++i) {
      const char how = model.arguments[i];
      if (how == 'r' || how == 'b' || how == 's') read(values[i], at);
      if (how == 's') {
        const Expr* const read_from = call->getArg(static_cast<unsigned>(i));
        const QualType type = read_from->IgnoreParenCasts()->getType();
        source = values[i];
        const QualType copy = type->isArrayType() ? type : type->getPointeeType();
        if (copy.isNull() || copy->isVoidType() || holds_pointers(copy))
          copied = content(values[i]);
        copied_type = pointee_of(read_from);
      }
    }
    for (std::size_t i = 0; i < model.arguments.size() && i < values.size(); ++i) {
      const char how = model.arguments[i];
      if (how == 'w' || how == 'b') {
        write(values[i], at);
        reinterpret(values[i],
                    is_zero(call) ? pointee_of(call->getArg(static_cast<unsigned>(i))) : "");
      }
      if (how == 'c') {
        store(values[i], copied, at);
        const QualType to = pointee_type(call->getArg(static_cast<unsigned>(i)));
        if (copied != kNone && !copied_type.empty() && !to.isNull() && to->isArithmeticType() &&
            !unit_.is_in_system_header(at))
          reason(Kind::kAddressAsNumber, at, "");
        // Of bytes nobody says what they are; those of the object hold no pointers to follow.
        if (copied_type.empty()) function_.facts.back().name = "bytes";
        // The library's algorithms copy so many T to so many T, and no bytes beyond.
        const bool is_algorithm =
            unit_.is_in_system_header(at) && !copied_type.empty() &&
            copied_type == pointee_of(call->getArg(static_cast<unsigned>(i)));
        if (!is_algorithm)
          reinterpret(values[i], copied_type, copied_type.empty() ? source : kNone);
      }
    }
    if (model.answers >= 0 && static_cast<std::size_t>(model.answers) < values.size())
      result = values[static_cast<std::size_t>(model.answers)];
  }
  /// memset to zeros.
  bool is_zero(const CallExpr* call) const {
    Expr::EvalResult number;
    return call->getNumArgs() >= 2 && call->getArg(1)->getType()->isIntegerType() &&
           !call->getArg(1)->isValueDependent() &&
           call->getArg(1)->EvaluateAsInt(number, context_) && number.Val.getInt().isZero();
  }
  QualType pointee_type(const Expr* pointer) const {
    const QualType type = pointer->IgnoreParenCasts()->getType();
    return type->isArrayType() ? context_.getBaseElementType(type) : type->getPointeeType();
  }
  std::string pointee_of(const Expr* pointer) const {
    const QualType pointee = pointee_type(pointer);
    return pointee.isNull() || pointee->isVoidType() ? "" : name_of_element(pointee);
  }

  Id result_of(QualType type) {
    return type->isVoidType() || !holds_pointers(type) ? kNone : new_value();
  }

  /// A call whose effects nobody knows.
  Id unresolved(Kind kind, std::string name, const std::vector<Id>& arguments, QualType type,
                SourceLocation at) {
    reason(kind, at, std::move(name));
    const Id answer = told();
    for (const Id each : arguments)
      if (each != kNone) add({.what = Fact::kStore, .to = each, .from = answer});
    return type->isVoidType() || !holds_pointers(type) ? kNone : answer;
  }

  Id call_function(const FunctionDecl* function, const std::vector<Id>& arguments, QualType type,
                   SourceLocation at) {
    const FunctionDecl* definition = nullptr;
    const auto* const method = dyn_cast<CXXMethodDecl>(function);
    if (function->isReplaceableGlobalAllocationFunction())
      return unresolved(Kind::kMemory, unit_.name_of_function(function), arguments, type, at);
    if (!function->hasBody(definition)) {
      if (isa<CXXDestructorDecl>(function) &&
          is_exception(cast<CXXDestructorDecl>(function)->getParent()))
        return kNone;
      if (is_std_throw(function)) {
        reason(Kind::kThrows, at, unit_.name_of_function(function));
        return result_of(type);
      }
      if (function->isReservedGlobalPlacementOperator())
        return arguments.size() > 1 ? arguments[1] : kNone;
      if (is_std(function) &&
          ends_program(function->getIdentifier() != nullptr ? std::string_view(function->getName())
                                                            : ""))
        return kNone;
      if (method != nullptr && method->isDefaulted() && !method->isDeleted() &&
          (method->isTrivial() || isa<CXXDestructorDecl>(method))) {
        if (isa<CXXDestructorDecl>(method) && method->isTrivial()) return kNone;
        unit_.require(function);  // lowered from what it consists of
      } else if (function->isPureVirtual()) {
        return unresolved(Kind::kNoSource, unit_.name_of_function(function), arguments, type, at);
      }
    } else {
      unit_.require(definition);
    }
    if (is_replaceable(function))
      reason(Kind::kNoSource, at, unit_.name_of_function(function) + ", which may be another one");
    Call call;
    call.callee = unit_.key_of(function);
    call.name = unit_.name_of_function(function);
    return add_call(std::move(call), arguments, type, at);
  }
  static bool is_exception(const CXXRecordDecl* record) {
    if (record->getName() == "exception" && record->isInStdNamespace()) return true;
    if (!record->hasDefinition()) return false;
    for (const CXXBaseSpecifier& base : record->bases()) {
      const CXXRecordDecl* const of = base.getType()->getAsCXXRecordDecl();
      if (of != nullptr && is_exception(of)) return true;
    }
    return false;
  }
  static bool is_std(const FunctionDecl* function) { return function->isInStdNamespace(); }
  /// std::__throw_out_of_range and others, in whose place the library throws.
  static bool is_std_throw(const FunctionDecl* function) {
    return is_std(function) && function->getIdentifier() != nullptr &&
           function->getName().starts_with("__throw_");
  }

  Id call_pointer(Id pointer, const std::vector<Id>& arguments, QualType type, SourceLocation at) {
    Call call;
    call.pointer = pointer == kNone ? told() : pointer;
    call.name = "a function by a pointer";
    if (pointer == kNone) reason(Kind::kIndirect, at, call.name);
    return add_call(std::move(call), arguments, type, at);
  }

  Id add_call(Call call, const std::vector<Id>& arguments, QualType type, SourceLocation at) {
    call.arguments = arguments;
    call.result = result_of(type);
    call.guarded = guards_ > 0;
    const Id result = call.result;
    function_.calls.push_back(std::move(call));
    add({.what = Fact::kCall,
         .call = static_cast<Id>(function_.calls.size() - 1),
         .place = unit_.place(at)});
    return result;
  }

  /// A lambda without captures as a function: calls its operator with a closure of no content.
  Id invoker(const CXXRecordDecl* lambda) {
    const CXXMethodDecl* operation = lambda->getLambdaCallOperator();
    if (lambda->isGenericLambda()) {
      // Which of its instances is meant is not known here: all of them.
      std::string key = unit_.key_of(operation) + "@invoke";
      return invoker_of(key, lambda);
    }
    return invoker_of(unit_.key_of(operation) + "@invoke", lambda);
  }
  Id invoker_of(const std::string& key, const CXXRecordDecl* lambda) {
    const Id id = unit_.program.function(key);
    std::vector<Function>& bodies = unit_.program.functions[key];
    if (!bodies.empty()) return id;
    std::vector<const CXXMethodDecl*> operations;
    const CXXMethodDecl* const operation = lambda->getLambdaCallOperator();
    if (lambda->isGenericLambda()) {
      if (const FunctionTemplateDecl* const generic = operation->getDescribedFunctionTemplate())
        for (const FunctionDecl* each : generic->specializations())
          operations.push_back(cast<CXXMethodDecl>(each));
    } else {
      operations.push_back(operation);
    }
    for (const CXXMethodDecl* each : operations) {
      Function through;
      through.key = key;
      through.name = "a lambda";
      through.place = unit_.place(each->getLocation());
      through.parameters = each->getNumParams();
      for (Id i = 0; i < through.parameters; ++i)
        through.facts.push_back(
            {.what = Fact::kAddress, .to = through.values++, .target = {Target::kParameter, i}});
      through.locals.push_back({});
      const Id closure = through.values++;
      through.facts.push_back(
          {.what = Fact::kAddress, .to = closure, .target = {Target::kLocal, 0}});
      Call call;
      call.callee = unit_.key_of(each);
      call.name = "a lambda";
      if (each->isInstance()) call.arguments.push_back(closure);
      for (Id i = 0; i < through.parameters; ++i) call.arguments.push_back(i);
      call.result = through.values++;
      through.calls.push_back(call);
      through.facts.push_back({.what = Fact::kCall, .call = 0, .place = through.place});
      through.facts.push_back({.what = Fact::kReturn, .from = call.result});
      bodies.push_back(std::move(through));
      unit_.require(each);
    }
    return id;
  }

  // --- initialization

  /// Of a temporary; its address.
  Id materialize(const Expr* expression) {
    expression = expression->IgnoreParens();
    if (expression->isGLValue()) return address_of(expression);
    const Id address = new_temporary(expression->getType());
    initialize(address, expression);
    return address;
  }

  void initialize(Id address, const Expr* init) {
    if (init == nullptr) return;
    init = init->IgnoreParens();
    const SourceLocation at = init->getExprLoc();
    switch (init->getStmtClass()) {
      case Stmt::ExprWithCleanupsClass:
        return initialize(address, cast<ExprWithCleanups>(init)->getSubExpr());
      case Stmt::ConstantExprClass:
        return initialize(address, cast<ConstantExpr>(init)->getSubExpr());
      case Stmt::CXXBindTemporaryExprClass: {
        // Of a variable, which ends it as well, that is said twice.
        const auto* const bound = cast<CXXBindTemporaryExpr>(init);
        initialize(address, bound->getSubExpr());
        call_function(bound->getTemporary()->getDestructor(), {address}, context_.VoidTy, at);
        return;
      }
      case Stmt::CXXDefaultInitExprClass:
        return initialize(address, cast<CXXDefaultInitExpr>(init)->getExpr());
      case Stmt::CXXDefaultArgExprClass:
        return initialize(address, cast<CXXDefaultArgExpr>(init)->getExpr());
      case Stmt::CXXConstructExprClass:
      case Stmt::CXXTemporaryObjectExprClass:
        return construct(address, cast<CXXConstructExpr>(init));
      case Stmt::CXXInheritedCtorInitExprClass: {
        const auto* const inherited = cast<CXXInheritedCtorInitExpr>(init);
        std::vector<Id> arguments{address};
        for (Id i = 1; i < function_.parameters; ++i) arguments.push_back(i);
        call_function(inherited->getConstructor(), arguments, context_.VoidTy, at);
        return;
      }
      case Stmt::InitListExprClass: {
        const auto* const list = cast<InitListExpr>(init);
        if (!is_in_memory(list->getType())) break;
        if (list->isTransparent() && list->getNumInits() == 1)
          return initialize(address, list->getInit(0));
        for (const Expr* each : list->inits()) initialize_part(address, each);
        if (list->hasArrayFiller()) initialize_part(address, list->getArrayFiller());
        write(address, at);
        return;
      }
      case Stmt::CXXParenListInitExprClass: {
        const auto* const list = cast<CXXParenListInitExpr>(init);
        for (const Expr* each : list->getInitExprs()) initialize_part(address, each);
        if (const Expr* const filler = list->getArrayFiller()) initialize_part(address, filler);
        write(address, at);
        return;
      }
      case Stmt::CXXStdInitializerListExprClass:
        return store(address, address_of(cast<CXXStdInitializerListExpr>(init)->getSubExpr()), at);
      case Stmt::DesignatedInitUpdateExprClass: {
        const auto* const update = cast<DesignatedInitUpdateExpr>(init);
        initialize(address, update->getBase());
        return initialize(address, update->getUpdater());
      }
      case Stmt::ArrayInitLoopExprClass: {
        const auto* const loop = cast<ArrayInitLoopExpr>(init);
        bind(loop->getCommonExpr());
        return initialize(address, loop->getSubExpr());
      }
      case Stmt::ImplicitValueInitExprClass:
      case Stmt::CXXScalarValueInitExprClass:
        return store(address, of_pointers(kNone, init->getType()), at);
      case Stmt::NoInitExprClass:
        return;
      case Stmt::LambdaExprClass:
        return capture(address, cast<LambdaExpr>(init));
      case Stmt::CompoundLiteralExprClass:
        return initialize(address, cast<CompoundLiteralExpr>(init)->getInitializer());
      case Stmt::ConditionalOperatorClass: {
        if (!is_in_memory(init->getType())) break;
        const auto* const choice = cast<ConditionalOperator>(init);
        value_of(choice->getCond());
        initialize(address, choice->getTrueExpr());
        initialize(address, choice->getFalseExpr());
        return;
      }
      default:
        break;
    }
    if (isa<clang::StringLiteral, PredefinedExpr>(init)) return write(address, at);
    if (const auto* const cast = dyn_cast<CastExpr>(init)) {
      const CastKind kind = cast->getCastKind();
      if ((kind == CK_NoOp || kind == CK_ConstructorConversion ||
           kind == CK_UserDefinedConversion) &&
          cast->getSubExpr()->isPRValue() && is_in_memory(cast->getType()))
        return initialize(address, cast->getSubExpr());
    }
    if (init->isGLValue() && is_in_memory(init->getType())) {  // an array in C
      const Id from = address_of(init);
      return store(address, load(from, init->getType(), at), at);
    }
    const Id value = value_of(init);
    store(address, of_pointers(value, init->getType()), at);
  }

  /// A member or an element: a reference is bound.
  void initialize_part(Id address, const Expr* init) {
    // What is said with the member means the object that is initialized by `this`.
    const bool of_member = init != nullptr && isa<CXXDefaultInitExpr>(init);
    const Id outer = of_member ? std::exchange(initialized_, address) : initialized_;
    const auto restore = llvm::make_scope_exit([&] { initialized_ = outer; });
    if (init != nullptr && init->isGLValue() && !init->getType()->isArrayType())
      return store(address, address_of(init), init->getExprLoc());
    initialize(address, init);
  }

  void construct(Id address, const CXXConstructExpr* expression) {
    const CXXConstructorDecl* const constructor = expression->getConstructor();
    const SourceLocation at = expression->getExprLoc();
    if (constructor->isTrivial() && constructor->isDefaultConstructor()) {
      if (expression->requiresZeroInitialization()) write(address, at);
      return;
    }
    std::vector<Id> arguments{address};
    const auto* const type = constructor->getType()->getAs<FunctionProtoType>();
    for (unsigned i = 0; i < expression->getNumArgs(); ++i) {
      const bool reference = i < type->getNumParams() && type->getParamType(i)->isReferenceType();
      arguments.push_back(argument(expression->getArg(i), reference));
    }
    if (constructor->isTrivial() && constructor->isCopyOrMoveConstructor() &&
        arguments.size() > 1) {
      const Id value = load(arguments[1], context_.getRecordType(constructor->getParent()), at);
      store(address, value, at);
      return;
    }
    call_function(constructor, arguments, context_.VoidTy, at);
  }

  void capture(Id address, const LambdaExpr* lambda) {
    auto init = lambda->capture_init_begin();
    for (const LambdaCapture& each : lambda->captures()) {
      const Expr* const value = *init++;
      if (value == nullptr) continue;
      if (each.capturesThis()) {
        if (each.getCaptureKind() == LCK_StarThis) initialize(address, value);
        else store(address, value_of(value), each.getLocation());
      } else if (each.capturesVariable() && each.getCaptureKind() == LCK_ByRef) {
        store(address, address_of(value), each.getLocation());
      } else if (each.capturesVLAType()) {
        continue;
      } else {
        const auto* const variable =
            each.capturesVariable() ? dyn_cast<VarDecl>(each.getCapturedVar()) : nullptr;
        // A reference that is an init-capture: [&name = value].
        if (variable != nullptr && variable->isInitCapture() &&
            variable->getType()->isReferenceType())
          store(address, address_of(value), each.getLocation());
        else initialize(address, value);
      }
    }
  }

  void initialize_members(const CXXConstructorDecl* constructor) {
    for (const CXXCtorInitializer* each : constructor->inits()) {
      const FieldDecl* const member = each->getAnyMember();
      if (member != nullptr && member->getType()->isReferenceType())
        store(0, address_of(each->getInit()), each->getSourceLocation());
      else initialize(0, each->getInit());
    }
  }

  void end_members(const CXXDestructorDecl* destructor) {
    const CXXRecordDecl* const record = destructor->getParent();
    const auto end = [&](QualType type) {
      const CXXRecordDecl* const of = context_.getBaseElementType(type)->getAsCXXRecordDecl();
      if (of == nullptr || !of->hasDefinition() || of->hasTrivialDestructor()) return;
      call_function(of->getDestructor(), {0}, context_.VoidTy, destructor->getLocation());
    };
    for (const FieldDecl* field : record->fields()) end(field->getType());
    for (const CXXBaseSpecifier& base : record->bases()) end(base.getType());
  }

  /// A copy or an assignment that copies the bytes.
  void copy_trivially() {
    if (function_.parameters < 2) return;
    const QualType type = context_.getRecordType(cast<CXXMethodDecl>(decl_)->getParent());
    const SourceLocation at = decl_->getLocation();
    store(0, load(1, type, at), at);
    add({.what = Fact::kReturn, .from = 0});
  }

  // --- statements

  void visit(const Stmt* statement) {
    if (statement == nullptr) return;
    if (const auto* const expression = dyn_cast<Expr>(statement)) return evaluate(expression);
    switch (statement->getStmtClass()) {
      case Stmt::DeclStmtClass:
        for (const Decl* each : cast<DeclStmt>(statement)->decls()) declare(each);
        return;
      case Stmt::ReturnStmtClass:
        return answer(cast<ReturnStmt>(statement));
      case Stmt::IfStmtClass: {
        const auto* const choice = cast<IfStmt>(statement);
        if (!choice->isConstexpr() || choice->getCond()->isValueDependent()) break;
        visit(choice->getInit());
        if (const auto taken = choice->getNondiscardedCase(context_)) visit(*taken);
        return;
      }
      case Stmt::CXXTryStmtClass: {
        const auto* const attempt = cast<CXXTryStmt>(statement);
        // That of a constructor or a destructor throws again by itself.
        const bool is_of_object =
            attempt == decl_->getBody() && isa<CXXConstructorDecl, CXXDestructorDecl>(decl_);
        const bool guarded = catches_all(attempt) && !is_of_object;
        if (guarded) ++guards_;
        visit(attempt->getTryBlock());
        if (guarded) --guards_;
        for (unsigned i = 0; i < attempt->getNumHandlers(); ++i) {
          const CXXCatchStmt* const handler = attempt->getHandler(i);
          if (const VarDecl* const caught = handler->getExceptionDecl()) catch_into(caught);
          visit(handler->getHandlerBlock());
        }
        return;
      }
      case Stmt::GCCAsmStmtClass:
      case Stmt::MSAsmStmtClass:
        reason(Kind::kAssembler, statement->getBeginLoc(), "assembler");
        break;
      case Stmt::CapturedStmtClass:
      case Stmt::CoroutineBodyStmtClass:
      case Stmt::CoreturnStmtClass:
      case Stmt::SEHTryStmtClass:
      case Stmt::ObjCAtTryStmtClass:
        reason(Kind::kUnsupported, statement->getBeginLoc(), statement->getStmtClassName());
        return;
      default:
        if (std::string_view(statement->getStmtClassName()).starts_with("OMP")) {
          reason(Kind::kUnsupported, statement->getBeginLoc(), "OpenMP");
          return;
        }
        break;
    }
    for (const Stmt* child : statement->children()) visit(child);
  }

  void catch_into(const VarDecl* caught) {
    const Id address = address_of_local(local_of(caught));
    const Id exception = new_temporary(context_.VoidPtrTy);
    store(exception,
          outside(Kind::kUnknownPointer, "a pointer in what is caught", caught->getLocation()), {});
    store(address, caught->getType()->isReferenceType() ? exception : content(exception), {});
    const auto* const copy = caught->getInit() != nullptr
                                 ? dyn_cast<CXXConstructExpr>(caught->getInit()->IgnoreImplicit())
                                 : nullptr;
    if (copy != nullptr && !copy->getConstructor()->isTrivial())
      call_function(copy->getConstructor(), {address, exception}, context_.VoidTy,
                    caught->getLocation());
    if (caught->needsDestruction(context_) == QualType::DK_cxx_destructor)
      call_function(caught->getType()->getAsCXXRecordDecl()->getDestructor(), {address},
                    context_.VoidTy, caught->getLocation());
  }

  void answer(const ReturnStmt* statement) {
    const Expr* const value = statement->getRetValue();
    if (value == nullptr) return;
    const bool reference = decl_->getReturnType()->isReferenceType();
    const Id answered = reference ? address_of(value) : value_of(value);
    if (answered != kNone && holds_pointers(decl_->getReturnType()))
      add({.what = Fact::kReturn, .from = answered});
  }

  /// Of arrays whose sizes are known when the program comes here.
  void visit_sizes(QualType type) {
    while (type->isVariablyModifiedType()) {
      if (const auto* const array = context_.getAsVariableArrayType(type)) {
        if (array->getSizeExpr() != nullptr) value_of(array->getSizeExpr());
        type = array->getElementType();
      } else if (const ArrayType* const constant = context_.getAsArrayType(type)) {
        type = constant->getElementType();
      } else if (!type->getPointeeType().isNull()) {
        type = type->getPointeeType();
      } else {
        reason(Kind::kUnsupported, decl_->getLocation(), "a type of variable size");
        return;
      }
    }
  }

  void declare(const Decl* decl) {
    if (const auto* const name = dyn_cast<TypedefNameDecl>(decl))
      return visit_sizes(name->getUnderlyingType());
    const auto* const variable = dyn_cast<VarDecl>(decl);
    if (variable == nullptr) return;
    if (const auto* const parts = dyn_cast<DecompositionDecl>(variable)) {
      declare_variable(variable);
      for (const BindingDecl* each : parts->bindings())
        if (const VarDecl* const holder = each->getHoldingVar()) declare_variable(holder);
      return;
    }
    declare_variable(variable);
  }

  void declare_variable(const VarDecl* variable) {
    const Expr* const init = variable->getInit();
    const SourceLocation at = variable->getLocation();
    if (is_variable_outside(variable)) {
      // Made the first time that somebody comes here.
      if (variable->isStaticLocal() && init != nullptr && !init->isValueDependent() &&
          !variable->hasConstantInitialization()) {
        reason(variable->getTLSKind() != VarDecl::TLS_None ? Kind::kThreadLocal : Kind::kGlobal, at,
               variable->getQualifiedNameAsString());
        initialize(told(), init);
      }
      return;
    }
    visit_sizes(variable->getType());
    const Id address = address_of_local(local_of(variable));
    const bool is_found_by_compiler =
        variable->isConstexpr() && !holds_pointers(variable->getType());
    if (init != nullptr && !is_found_by_compiler) {
      if (variable->getType()->isReferenceType()) store(address, address_of(init), at);
      else initialize(address, init);
    }
    if (variable->needsDestruction(context_) == QualType::DK_cxx_destructor) {
      const CXXRecordDecl* const record =
          context_.getBaseElementType(variable->getType())->getAsCXXRecordDecl();
      call_function(record->getDestructor(), {address}, context_.VoidTy, at);
    }
    if (const auto* const cleanup = variable->getAttr<CleanupAttr>())
      call_function(cleanup->getFunctionDecl(), {address}, context_.VoidTy, at);
  }

  Unit& unit_;
  ASTContext& context_;
  const FunctionDecl* decl_ = nullptr;
  Function function_;
  bool has_this_ = false;
  const CXXRecordDecl* closure_ = nullptr;  ///< of the lambda whose operator it is
  llvm::DenseMap<const ValueDecl*, FieldDecl*> captures_;
  FieldDecl* closure_this_ = nullptr;
  std::unordered_map<const VarDecl*, Id> locals_;
  std::unordered_map<const OpaqueValueExpr*, Id> opaque_;
  Id initialized_ = kNone;  ///< an aggregate, by what is said with its members
  unsigned guards_ = 0;     ///< what catches all that is thrown here
};

}  // namespace

void lower_required(Unit& unit) {
  while (const FunctionDecl* const next = unit.next_required()) {
    const FunctionDecl* definition = nullptr;
    const FunctionDecl* const body = next->hasBody(definition) ? definition : next;
    Function function = Lowering(unit, body).lower();
    std::vector<Function>& bodies = unit.program.functions[function.key];
    bodies.push_back(std::move(function));
  }
}

}  // namespace perdura::source
