// Initialization: what a variable, a temporary or a member begins as.
#include "lowering.hpp"

namespace perdura::source {

Id Lowering::materialize(const clang::Expr* expression) {
  expression = expression->IgnoreParens();
  if (expression->isGLValue()) return address_of(expression);
  const Id address = new_temporary(expression->getType());
  initialize(address, expression);
  return address;
}

void Lowering::initialize(Id address, const clang::Expr* init) {
  if (init == nullptr) return;
  init = init->IgnoreParens();
  const clang::SourceLocation at = init->getExprLoc();
  switch (init->getStmtClass()) {
    case clang::Stmt::ExprWithCleanupsClass:
      return initialize(address, clang::cast<clang::ExprWithCleanups>(init)->getSubExpr());
    case clang::Stmt::ConstantExprClass:
      return initialize(address, clang::cast<clang::ConstantExpr>(init)->getSubExpr());
    case clang::Stmt::CXXBindTemporaryExprClass: {
      // Of a variable, which ends it as well, that is said twice.
      const auto* const bound = clang::cast<clang::CXXBindTemporaryExpr>(init);
      initialize(address, bound->getSubExpr());
      call_function(bound->getTemporary()->getDestructor(), {address}, context_.VoidTy, at);
      return;
    }
    case clang::Stmt::CXXDefaultInitExprClass:
      return initialize(address, clang::cast<clang::CXXDefaultInitExpr>(init)->getExpr());
    case clang::Stmt::CXXDefaultArgExprClass:
      return initialize(address, clang::cast<clang::CXXDefaultArgExpr>(init)->getExpr());
    case clang::Stmt::CXXConstructExprClass:
    case clang::Stmt::CXXTemporaryObjectExprClass:
      return construct(address, clang::cast<clang::CXXConstructExpr>(init));
    case clang::Stmt::CXXInheritedCtorInitExprClass: {
      const auto* const inherited = clang::cast<clang::CXXInheritedCtorInitExpr>(init);
      std::vector<Id> arguments{address};
      for (Id i = 1; i < function_.parameters; ++i) arguments.push_back(i);
      call_function(inherited->getConstructor(), arguments, context_.VoidTy, at);
      return;
    }
    case clang::Stmt::InitListExprClass: {
      const auto* const list = clang::cast<clang::InitListExpr>(init);
      if (!is_in_memory(list->getType())) break;
      if (list->isTransparent() && list->getNumInits() == 1)
        return initialize(address, list->getInit(0));
      for (const clang::Expr* each : list->inits()) initialize_part(address, each);
      if (list->hasArrayFiller()) initialize_part(address, list->getArrayFiller());
      write(address, at);
      return;
    }
    case clang::Stmt::CXXParenListInitExprClass: {
      const auto* const list = clang::cast<clang::CXXParenListInitExpr>(init);
      for (const clang::Expr* each : list->getInitExprs()) initialize_part(address, each);
      if (const clang::Expr* const filler = list->getArrayFiller())
        initialize_part(address, filler);
      write(address, at);
      return;
    }
    case clang::Stmt::CXXStdInitializerListExprClass:
      return store(address,
                   address_of(clang::cast<clang::CXXStdInitializerListExpr>(init)->getSubExpr()),
                   at);
    case clang::Stmt::DesignatedInitUpdateExprClass: {
      const auto* const update = clang::cast<clang::DesignatedInitUpdateExpr>(init);
      initialize(address, update->getBase());
      return initialize(address, update->getUpdater());
    }
    case clang::Stmt::ArrayInitLoopExprClass: {
      const auto* const loop = clang::cast<clang::ArrayInitLoopExpr>(init);
      bind(loop->getCommonExpr());
      return initialize(address, loop->getSubExpr());
    }
    case clang::Stmt::ImplicitValueInitExprClass:
    case clang::Stmt::CXXScalarValueInitExprClass:
      return store(address, of_pointers(kNone, init->getType()), at);
    case clang::Stmt::NoInitExprClass:
      return;
    case clang::Stmt::LambdaExprClass:
      return capture(address, clang::cast<clang::LambdaExpr>(init));
    case clang::Stmt::CompoundLiteralExprClass:
      return initialize(address, clang::cast<clang::CompoundLiteralExpr>(init)->getInitializer());
    case clang::Stmt::ConditionalOperatorClass: {
      if (!is_in_memory(init->getType())) break;
      const auto* const choice = clang::cast<clang::ConditionalOperator>(init);
      value_of(choice->getCond());
      initialize(address, choice->getTrueExpr());
      initialize(address, choice->getFalseExpr());
      return;
    }
    default:
      break;
  }
  if (clang::isa<clang::StringLiteral, clang::PredefinedExpr>(init)) return write(address, at);
  if (const auto* const cast = clang::dyn_cast<clang::CastExpr>(init)) {
    const clang::CastKind kind = cast->getCastKind();
    if ((kind == clang::CK_NoOp || kind == clang::CK_ConstructorConversion ||
         kind == clang::CK_UserDefinedConversion) &&
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

void Lowering::initialize_part(Id address, const clang::Expr* init) {
  // What is said with the member means the object that is initialized by `this`.
  const bool of_member = init != nullptr && clang::isa<clang::CXXDefaultInitExpr>(init);
  const Id outer = of_member ? std::exchange(initialized_, address) : initialized_;
  const auto restore = llvm::make_scope_exit([&] { initialized_ = outer; });
  if (init != nullptr && init->isGLValue() && !init->getType()->isArrayType())
    return store(address, address_of(init), init->getExprLoc());
  initialize(address, init);
  // When a later part throws.
  if (init != nullptr && init->isPRValue()) end_all(address, init->getType(), init->getExprLoc());
}

void Lowering::construct(Id address, const clang::CXXConstructExpr* expression) {
  const clang::CXXConstructorDecl* const constructor = expression->getConstructor();
  const clang::SourceLocation at = expression->getExprLoc();
  if (constructor->isTrivial() && constructor->isDefaultConstructor()) {
    if (expression->requiresZeroInitialization()) write(address, at);
    return;
  }
  std::vector<Id> arguments{address};
  const auto* const type = constructor->getType()->getAs<clang::FunctionProtoType>();
  for (unsigned i = 0; i < expression->getNumArgs(); ++i) {
    const bool reference = i < type->getNumParams() && type->getParamType(i)->isReferenceType();
    arguments.push_back(argument(expression->getArg(i), reference));
  }
  if (constructor->isTrivial() && constructor->isCopyOrMoveConstructor() && arguments.size() > 1) {
    const Id value = load(arguments[1], context_.getRecordType(constructor->getParent()), at);
    store(address, value, at);
    return;
  }
  call_function(constructor, arguments, context_.VoidTy, at);
  // Of an array: when a later element throws.
  if (expression->getType()->isArrayType() && !never_throws(constructor))
    end_all(address, expression->getType(), at);
}

bool Lowering::never_throws(const clang::FunctionDecl* function) {
  const auto* const type = function->getType()->getAs<clang::FunctionProtoType>();
  return type != nullptr && !clang::isUnresolvedExceptionSpec(type->getExceptionSpecType()) &&
         type->isNothrow();
}

void Lowering::end_all(Id address, clang::QualType type, clang::SourceLocation at) {
  const clang::CXXRecordDecl* const of = context_.getBaseElementType(type)->getAsCXXRecordDecl();
  if (of == nullptr || !of->hasDefinition() || of->hasTrivialDestructor()) return;
  call_function(of->getDestructor(), {address}, context_.VoidTy, at);
}

void Lowering::capture(Id address, const clang::LambdaExpr* lambda) {
  auto init = lambda->capture_init_begin();
  for (const clang::LambdaCapture& each : lambda->captures()) {
    const clang::Expr* const value = *init++;
    if (value == nullptr) continue;
    if (each.capturesThis()) {
      if (each.getCaptureKind() == clang::LCK_StarThis) initialize(address, value);
      else store(address, value_of(value), each.getLocation());
    } else if (each.capturesVariable() && each.getCaptureKind() == clang::LCK_ByRef) {
      store(address, address_of(value), each.getLocation());
    } else if (each.capturesVLAType()) {
      continue;
    } else {
      const auto* const variable = each.capturesVariable()
                                       ? clang::dyn_cast<clang::VarDecl>(each.getCapturedVar())
                                       : nullptr;
      // A reference that is an init-capture: [&name = value].
      if (variable != nullptr && variable->isInitCapture() &&
          variable->getType()->isReferenceType())
        store(address, address_of(value), each.getLocation());
      else initialize(address, value);
    }
  }
}

void Lowering::initialize_members(const clang::CXXConstructorDecl* constructor) {
  if (constructor->getParent()->isDynamicClass() && !constructor->isDelegatingConstructor())
    store(0, address_of_literal(), constructor->getLocation());  // that of its virtual functions
  for (const clang::CXXCtorInitializer* each : constructor->inits()) {
    const clang::FieldDecl* const member = each->getAnyMember();
    if (member != nullptr && member->getType()->isReferenceType())
      store(0, address_of(each->getInit()), each->getSourceLocation());
    else initialize(0, each->getInit());
    // When what follows throws: of one that hands on to another constructor the whole object.
    if (never_throws(constructor)) continue;
    if (each->isDelegatingInitializer())
      end_all(0, context_.getRecordType(constructor->getParent()), each->getSourceLocation());
    else if (member != nullptr) end_all(0, member->getType(), each->getSourceLocation());
    else end_all(0, clang::QualType(each->getBaseClass(), 0), each->getSourceLocation());
  }
}

void Lowering::end_members(const clang::CXXDestructorDecl* destructor) {
  const clang::CXXRecordDecl* const record = destructor->getParent();
  for (const clang::FieldDecl* field : record->fields())
    end_all(0, field->getType(), destructor->getLocation());
  for (const clang::CXXBaseSpecifier& base : record->bases())
    end_all(0, base.getType(), destructor->getLocation());
}

void Lowering::copy_trivially() {
  if (function_.parameters < 2) return;
  const clang::QualType type =
      context_.getRecordType(clang::cast<clang::CXXMethodDecl>(decl_)->getParent());
  const clang::SourceLocation at = decl_->getLocation();
  store(0, load(1, type, at), at);
  add({.what = Fact::kReturn, .from = 0});
}

}  // namespace perdura::source
