// Lvalues: where they are.
#include "lowering.hpp"

namespace perdura::source {
namespace {

/// What is kept beyond the expression.
bool contains_temporary(const clang::Stmt* statement) {
  if (statement == nullptr) return false;
  if (clang::isa<clang::MaterializeTemporaryExpr>(statement)) return true;
  for (const clang::Stmt* child : statement->children())
    if (contains_temporary(child)) return true;
  return false;
}

}  // namespace

Id Lowering::address_of_static(const clang::VarDecl* variable, clang::SourceLocation at) {
  if (is_made_where_named(variable))
    reason(Kind::kThreadLocal, at, variable->getQualifiedNameAsString());
  if (variable->getType()->isReferenceType()) {
    const clang::Expr* const init = variable->getAnyInitializer();
    const bool is_bound_to_temporary =
        init != nullptr && clang::isa<clang::MaterializeTemporaryExpr>(init->IgnoreParenImpCasts());
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

bool Lowering::is_made_where_named(const clang::VarDecl* variable) {
  if (variable->getTLSKind() != clang::VarDecl::TLS_Dynamic) return false;
  const clang::VarDecl* initialized = nullptr;
  const clang::Expr* const init = variable->getAnyInitializer(initialized);
  if (init == nullptr) return !variable->hasDefinition();
  return init->isValueDependent() || !initialized->hasConstantInitialization();
}

Id Lowering::outside_variable(const clang::VarDecl* variable) {
  const bool of_thread = variable->getTLSKind() != clang::VarDecl::TLS_None;
  return outside(of_thread ? Kind::kThreadLocal : Kind::kGlobal,
                 variable->getQualifiedNameAsString(), variable->getLocation());
}

Id Lowering::value_to_function(const clang::FunctionDecl* function, clang::SourceLocation at) {
  return value_to(function_of(unit_, function, at));
}

const clang::Expr* Lowering::stands_for(const clang::Expr* expression) {
  if (const auto* of = clang::dyn_cast<clang::SubstNonTypeTemplateParmExpr>(expression))
    return of->getReplacement();
  if (const auto* of = clang::dyn_cast<clang::CXXDefaultArgExpr>(expression)) return of->getExpr();
  if (const auto* of = clang::dyn_cast<clang::CXXDefaultInitExpr>(expression)) return of->getExpr();
  return nullptr;
}

Id Lowering::address_of(const clang::Expr* expression) {
  expression = expression->IgnoreParens();
  const clang::SourceLocation at = expression->getExprLoc();
  if (expression->isPRValue() && expression->getStmtClass() != clang::Stmt::MemberExprClass)
    return materialize(expression);
  if (const clang::Expr* const other = stands_for(expression)) return address_of(other);
  switch (expression->getStmtClass()) {
    case clang::Stmt::DeclRefExprClass:
      return address_of_reference(clang::cast<clang::DeclRefExpr>(expression));
    case clang::Stmt::MemberExprClass:
      return address_of_member(clang::cast<clang::MemberExpr>(expression));
    case clang::Stmt::ArraySubscriptExprClass: {
      const auto* const subscript = clang::cast<clang::ArraySubscriptExpr>(expression);
      value_of(subscript->getIdx());
      if (is_null(subscript->getBase()))
        return outside(Kind::kUnknownPointer, "a pointer that is made of a number", at);
      return subscript->getBase()->getType()->isVectorType() ? address_of(subscript->getBase())
                                                             : value_of(subscript->getBase());
    }
    case clang::Stmt::ExtVectorElementExprClass: {
      const auto* const element = clang::cast<clang::ExtVectorElementExpr>(expression);
      return element->isArrow() ? value_of(element->getBase()) : address_of(element->getBase());
    }
    case clang::Stmt::UnaryOperatorClass: {
      const auto* const unary = clang::cast<clang::UnaryOperator>(expression);
      switch (unary->getOpcode()) {
        case clang::UO_Deref:
          return value_of(unary->getSubExpr());
        case clang::UO_PreInc:
        case clang::UO_PreDec:
          return step(unary);
        case clang::UO_Real:
        case clang::UO_Imag:
        case clang::UO_Extension:
          return address_of(unary->getSubExpr());
        default:
          return unsupported(expression);
      }
    }
    case clang::Stmt::BinaryOperatorClass:
    case clang::Stmt::CompoundAssignOperatorClass: {
      const auto* const binary = clang::cast<clang::BinaryOperator>(expression);
      if (binary->isAssignmentOp()) return assign(binary);
      if (binary->getOpcode() == clang::BO_Comma) {
        evaluate(binary->getLHS());
        return address_of(binary->getRHS());
      }
      if (binary->getOpcode() == clang::BO_PtrMemD || binary->getOpcode() == clang::BO_PtrMemI) {
        value_of(binary->getRHS());
        return binary->getOpcode() == clang::BO_PtrMemD ? address_of(binary->getLHS())
                                                        : value_of(binary->getLHS());
      }
      return unsupported(expression);
    }
    case clang::Stmt::ConditionalOperatorClass: {
      const auto* const choice = clang::cast<clang::ConditionalOperator>(expression);
      value_of(choice->getCond());
      return joined(address_of_or_throw(choice->getTrueExpr()),
                    address_of_or_throw(choice->getFalseExpr()));
    }
    case clang::Stmt::BinaryConditionalOperatorClass: {
      const auto* const choice = clang::cast<clang::BinaryConditionalOperator>(expression);
      bind(choice->getOpaqueValue());
      value_of(choice->getCond());
      return joined(address_of(choice->getTrueExpr()), address_of(choice->getFalseExpr()));
    }
    case clang::Stmt::OpaqueValueExprClass: {
      const auto bound = opaque_.find(clang::cast<clang::OpaqueValueExpr>(expression));
      if (bound != opaque_.end()) return bound->second;
      const clang::Expr* const source =
          clang::cast<clang::OpaqueValueExpr>(expression)->getSourceExpr();
      return source != nullptr ? address_of(source) : unsupported(expression);
    }
    case clang::Stmt::StringLiteralClass:
    case clang::Stmt::PredefinedExprClass:
    case clang::Stmt::ObjCEncodeExprClass:
    case clang::Stmt::SourceLocExprClass:
      return address_of_literal();
    case clang::Stmt::CXXTypeidExprClass: {
      const auto* const type = clang::cast<clang::CXXTypeidExpr>(expression);
      if (type->isPotentiallyEvaluated()) {
        const Id object = address_of(type->getExprOperand());
        read(object, at);
        read(content(object), at);  // beside its virtual functions
      }
      return value_to({Target::kConstant, type_info_of(unit_)});
    }
    case clang::Stmt::CompoundLiteralExprClass: {
      const auto* const compound = clang::cast<clang::CompoundLiteralExpr>(expression);
      const Id address = new_temporary(compound->getType());
      initialize(address, compound->getInitializer());
      return address;
    }
    case clang::Stmt::MaterializeTemporaryExprClass:
      return materialize(clang::cast<clang::MaterializeTemporaryExpr>(expression)->getSubExpr());
    case clang::Stmt::ExprWithCleanupsClass:
      return address_of(clang::cast<clang::ExprWithCleanups>(expression)->getSubExpr());
    case clang::Stmt::ConstantExprClass:
      return address_of(clang::cast<clang::ConstantExpr>(expression)->getSubExpr());
    case clang::Stmt::CXXStdInitializerListExprClass:
      return materialize(expression);
    case clang::Stmt::InitListExprClass:
      if (clang::cast<clang::InitListExpr>(expression)->getNumInits() == 1)
        return address_of(clang::cast<clang::InitListExpr>(expression)->getInit(0));
      return materialize(expression);
    case clang::Stmt::VAArgExprClass:
      return value_of_va_arg(clang::cast<clang::VAArgExpr>(expression));
    case clang::Stmt::StmtExprClass: {
      const auto* const statement = clang::cast<clang::StmtExpr>(expression);
      return value_of_statement(statement, true);
    }
    case clang::Stmt::CXXThrowExprClass:
      value_of(expression);
      return kNone;
    default:
      break;
  }
  if (const auto* const call = clang::dyn_cast<clang::CallExpr>(expression))
    return value_of_call(call);
  if (const auto* const cast = clang::dyn_cast<clang::CastExpr>(expression))
    return address_of_cast(cast);
  return unsupported(expression);
}

Id Lowering::address_of_or_throw(const clang::Expr* expression) {
  if (clang::isa<clang::CXXThrowExpr>(expression->IgnoreParens())) return value_of(expression);
  return address_of(expression);
}

Id Lowering::address_of_reference(const clang::DeclRefExpr* reference) {
  const clang::SourceLocation at = reference->getExprLoc();
  const clang::ValueDecl* const decl = reference->getDecl();
  if (const auto* const function = clang::dyn_cast<clang::FunctionDecl>(decl))
    return value_to_function(function, at);
  if (const auto* const binding = clang::dyn_cast<clang::BindingDecl>(decl)) {
    if (closure_ != nullptr && reference->refersToEnclosingVariableOrCapture())
      return address_of_captured(binding);
    if (const clang::VarDecl* const holder = binding->getHoldingVar())
      return address_of_variable(holder, at, false);
    return address_of(binding->getBinding());
  }
  if (const auto* const variable = clang::dyn_cast<clang::VarDecl>(decl))
    return address_of_variable(variable, at, reference->refersToEnclosingVariableOrCapture());
  if (const auto* const argument = clang::dyn_cast<clang::TemplateParamObjectDecl>(decl))
    return value_to({Target::kConstant, constant_of(unit_, argument)});
  if (clang::isa<clang::EnumConstantDecl, clang::MSGuidDecl, clang::UnnamedGlobalConstantDecl>(
          decl))
    return address_of_literal();
  return unsupported(reference);
}

Id Lowering::address_of_variable(const clang::VarDecl* variable, clang::SourceLocation at,
                                 bool captured) {
  if (!variable->hasLocalStorage()) return address_of_static(variable, at);
  if (captured && closure_ != nullptr) return address_of_captured(variable);
  const auto* const of = clang::dyn_cast<clang::Decl>(variable->getDeclContext());
  if (of != nullptr && clang::isa<clang::FunctionDecl>(of) && of != decl_ &&
      !clang::isa<clang::ParmVarDecl>(variable))
    return address_of_another(variable, at);
  const Id address = address_of_local(local_of(variable));
  return variable->getType()->isReferenceType() ? content(address) : address;
}

Id Lowering::address_of_another(const clang::VarDecl* variable, clang::SourceLocation at) {
  const clang::Expr* const init = variable->getAnyInitializer();
  if (init == nullptr || init->isValueDependent() ||
      !variable->isUsableInConstantExpressions(context_))
    return outside(Kind::kUnsupported, variable->getNameAsString(), at);
  if (variable->getType()->isReferenceType()) return address_of(init);
  const Id address = new_temporary(variable->getType());
  initialize(address, init);
  return address;
}

Id Lowering::address_of_captured(const clang::ValueDecl* variable) {
  const auto at = captures_.find(variable);
  if (at == captures_.end()) {  // of a lambda around it, or not used as a variable
    const auto* const decl = clang::dyn_cast<clang::VarDecl>(variable);
    if (decl != nullptr && !clang::isa<clang::ParmVarDecl>(decl))
      return address_of_another(decl, variable->getLocation());
    return outside(Kind::kUnsupported, variable->getNameAsString(), variable->getLocation());
  }
  if (!at->second->getType()->isReferenceType()) return 0;  // a copy, in the closure
  const auto* const binding = clang::dyn_cast<clang::BindingDecl>(variable);
  const clang::ValueDecl* const of = binding == nullptr ? variable
                                     : binding->getHoldingVar() != nullptr
                                         ? binding->getHoldingVar()
                                         : binding->getDecomposedDecl();
  if (of->getType()->isReferenceType()) return content(0);
  return value_to(Target::captured(0, 1, 0));
}

Id Lowering::of_pointers(Id value, clang::QualType type) {
  if (!holds_pointers(type)) return kNone;
  return value == kNone ? null() : value;
}

Id Lowering::value_of_this(clang::SourceLocation at) {
  if (initialized_ != kNone) return initialized_;
  if (closure_ != nullptr) {
    // By pointer, or a copy of the object in the closure.
    if (closure_this_ != nullptr && !closure_this_->getType()->isPointerType()) return 0;
    return content(0);
  }
  return has_this_ ? 0 : outside(Kind::kUnsupported, "this", at);
}

Id Lowering::address_of_member(const clang::MemberExpr* member) {
  const clang::ValueDecl* const decl = member->getMemberDecl();
  const clang::Expr* const base = member->getBase();
  const clang::SourceLocation at = member->getMemberLoc();
  if (const auto* const variable = clang::dyn_cast<clang::VarDecl>(decl)) {
    evaluate(base);
    return address_of_static(variable, at);
  }
  if (const auto* const function = clang::dyn_cast<clang::FunctionDecl>(decl)) {
    evaluate(base);
    return value_to_function(function, at);
  }
  const Id address = member->isArrow() ? value_of(base) : address_of(base);
  const auto* const field = clang::dyn_cast<clang::FieldDecl>(decl);
  if (field == nullptr)
    return clang::isa<clang::EnumConstantDecl>(decl) ? kNone : unsupported(member);
  // Its memory is another object's.
  if (is_persistent(context_.getBaseElementType(field->getType())))
    return outside(Kind::kMember, field->getQualifiedNameAsString(), at);
  if (is_mixed_union(field->getParent())) {
    reinterpret(address, "");
    if (!replaces_ && !holds_pointers(field->getType()) && !unit_.is_in_system_header(at))
      reason(Kind::kAddressAsNumber, at, "");
  }
  if (field->getType()->isReferenceType()) {
    return load(address, field->getType(), at);
  }
  return address;
}

void Lowering::reinterpret(Id address, std::string type, Id from) {
  if (address == kNone) return;
  add({.what = Fact::kReinterpret, .to = address, .from = from, .name = std::move(type)});
}

void Lowering::see_as(Id address, clang::QualType from, clang::QualType to,
                      clang::SourceLocation at) {
  reinterpret(address, name_of_element(to));
  // The bytes of a pointer are other ones in each run.
  const clang::CXXRecordDecl* const record = from->getAsCXXRecordDecl();
  const bool begins_with_one =
      record != nullptr && record->hasDefinition() && record->isDynamicClass() && !is_byte(to);
  if (to->isArithmeticType() && (from->isPointerType() || begins_with_one) &&
      !unit_.is_in_system_header(at))
    reason(Kind::kAddressAsNumber, at, "");
}

void Lowering::follow_to_base(const clang::CastExpr* cast, Id address) {
  const bool looks = cast->getCastKind() == clang::CK_Dynamic ||
                     std::any_of(cast->path_begin(), cast->path_end(),
                                 [](const auto* base) { return base->isVirtual(); });
  if (!looks) return;
  const clang::Expr* object = cast->getSubExpr()->IgnoreParens();
  if (const auto* const unary = clang::dyn_cast<clang::UnaryOperator>(object);
      unary != nullptr && unary->getOpcode() == clang::UO_AddrOf)
    object = unary->getSubExpr()->IgnoreParens();
  // Of a variable the compiler knows what it is.
  const auto* const reference = clang::dyn_cast<clang::DeclRefExpr>(object);
  const auto* const variable =
      reference != nullptr ? clang::dyn_cast<clang::VarDecl>(reference->getDecl()) : nullptr;
  if (variable != nullptr && variable->getType()->isRecordType()) return;
  read(content(address), cast->getExprLoc());
}

Id Lowering::address_of_cast(const clang::CastExpr* cast) {
  if (const auto* const written = clang::dyn_cast<clang::ExplicitCastExpr>(cast))
    visit_sizes(written->getTypeAsWritten());
  const clang::Expr* const sub = cast->getSubExpr();
  switch (cast->getCastKind()) {
    case clang::CK_NoOp:
    case clang::CK_DerivedToBase:
    case clang::CK_UncheckedDerivedToBase:
    case clang::CK_BaseToDerived:
    case clang::CK_UserDefinedConversion:
    case clang::CK_ConstructorConversion:
    case clang::CK_AddressSpaceConversion: {
      const Id address = address_of(sub);
      follow_to_base(cast, address);
      return address;
    }
    case clang::CK_LValueBitCast: {
      const Id address = address_of(sub);
      see_as(address, sub->getType(), cast->getType(), cast->getExprLoc());
      return address;
    }
    case clang::CK_Dynamic: {
      const Id address = address_of(sub);
      read(address, cast->getExprLoc());
      follow_to_base(cast, address);
      reason(Kind::kThrows, cast->getExprLoc(), "dynamic_cast of a reference");
      return address;
    }
    default:
      return unsupported(cast);
  }
}

}  // namespace perdura::source
