// What a function is made of: its parameters, its locals, its statements.
#include "lower.hpp"

#include "lowering.hpp"

namespace perdura::source {
namespace {

bool contains_rethrow(const clang::Stmt* statement) {
  if (statement == nullptr || clang::isa<clang::LambdaExpr>(statement)) return false;
  if (const auto* const expression = clang::dyn_cast<clang::CXXThrowExpr>(statement))
    if (expression->getSubExpr() == nullptr) return true;
  for (const clang::Stmt* child : statement->children())
    if (contains_rethrow(child)) return true;
  return false;
}

bool catches_all(const clang::CXXTryStmt* statement) {
  for (unsigned i = 0; i < statement->getNumHandlers(); ++i) {
    const clang::CXXCatchStmt* const handler = statement->getHandler(i);
    if (handler->getExceptionDecl() == nullptr)
      return !contains_rethrow(handler->getHandlerBlock());
  }
  return false;
}

}  // namespace

Function Lowering::lower() {
  const auto* const method = clang::dyn_cast<clang::CXXMethodDecl>(decl_);
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
  for (const clang::ParmVarDecl* each : decl_->parameters())
    function_.leads.push_back(leads_of(each->getType()));
  for (Id i = 0; i < function_.parameters; ++i)
    add({.what = Fact::kAddress, .to = new_value(), .target = {Target::kParameter, i}});
  for (unsigned i = 0; i < decl_->getNumParams(); ++i) {
    const clang::ParmVarDecl* const each = decl_->getParamDecl(i);
    const Id address = address_of_local(local_of(each));
    if (holds_pointers(each->getType())) store(address, i + (has_this_ ? 1 : 0), {});
    visit_sizes(each->getOriginalType());
  }
  // What leaves a function that may not throw ends the program.
  const auto* const type = decl_->getType()->getAs<clang::FunctionProtoType>();
  if (type != nullptr && !isUnresolvedExceptionSpec(type->getExceptionSpecType()) &&
      type->isNothrow())
    ++guards_;
  if (const auto* const constructor = clang::dyn_cast<clang::CXXConstructorDecl>(decl_))
    initialize_members(constructor);
  if (decl_->isDefaulted() && decl_->isTrivial() && decl_->getBody() == nullptr) {
    copy_trivially();
  } else {
    visit(decl_->getBody());
  }
  if (const auto* const destructor = clang::dyn_cast<clang::CXXDestructorDecl>(decl_))
    end_members(destructor);
  guards_ = 0;  // it is left: who calls ends them
  for (const clang::ParmVarDecl* each : decl_->parameters()) end(each);
  return std::move(function_);
}

Id Lowering::add(Fact fact) {
  const Id to = fact.to;
  function_.facts.push_back(std::move(fact));
  return to;
}

void Lowering::reason(Kind kind, clang::SourceLocation at, std::string name) {
  if (kind == Kind::kThrows && guards_ > 0) return;
  add({.what = Fact::kReason, .kind = kind, .place = unit_.place(at), .name = std::move(name)});
}

Id Lowering::outside(Kind kind, std::string name, clang::SourceLocation at) {
  const Id id = unit_.program.outside({kind, std::move(name), unit_.place(at)});
  return value_to({Target::kOutside, id});
}

Id Lowering::joined(Id a, Id b) {
  if (a == kNone || a == b) return b;
  if (b == kNone) return a;
  const Id both = new_value();
  add({.what = Fact::kCopy, .to = both, .from = a});
  return add({.what = Fact::kCopy, .to = both, .from = b});
}

Id Lowering::load(Id from, clang::QualType type, clang::SourceLocation at) {
  if (!holds_pointers(type)) {
    read(from, at, is_byte(type) ? kReadBytes : "");
    return kNone;
  }
  if (from == kNone) from = nowhere(at);
  return add({.what = Fact::kLoad, .to = new_value(), .from = from, .place = unit_.place(at)});
}

void Lowering::store(Id to, Id from, clang::SourceLocation at) {
  if (to == kNone) to = nowhere(at);
  if (from == kNone) add({.what = Fact::kWrite, .to = to, .place = unit_.place(at)});
  else add({.what = Fact::kStore, .to = to, .from = from, .place = unit_.place(at)});
}

void Lowering::read(Id from, clang::SourceLocation at, const char* how) {
  if (from == kNone) from = nowhere(at);
  add({.what = Fact::kRead, .from = from, .place = unit_.place(at), .name = how});
}

Id Lowering::new_local(clang::QualType type) {
  Local local;
  local.has_pointers = holds_pointers(type);
  local.has_bytes = holds_bytes(type);
  local.is_pointer = context_.getBaseElementType(type)->isPointerType();
  if (local.has_pointers) local.type = name_of_element(type);
  local.is_object = is_persistent(type);
  function_.locals.push_back(std::move(local));
  return static_cast<Id>(function_.locals.size() - 1);
}

Id Lowering::local_of(const clang::VarDecl* variable) {
  const auto at = locals_.find(variable);
  if (at != locals_.end()) return at->second;
  return locals_[variable] = new_local(variable->getType());
}

std::string Lowering::name_of_element(clang::QualType type) const {
  return context_.getBaseElementType(type).getCanonicalType().getUnqualifiedType().getAsString();
}

void Lowering::visit(const clang::Stmt* statement) {
  if (statement == nullptr) return;
  if (const auto* const expression = clang::dyn_cast<clang::Expr>(statement))
    return evaluate(expression);
  switch (statement->getStmtClass()) {
    case clang::Stmt::DeclStmtClass:
      for (const clang::Decl* each : clang::cast<clang::DeclStmt>(statement)->decls())
        declare(each);
      return;
    case clang::Stmt::ReturnStmtClass:
      return answer(clang::cast<clang::ReturnStmt>(statement));
    case clang::Stmt::IfStmtClass: {
      const auto* const choice = clang::cast<clang::IfStmt>(statement);
      if (!choice->isConstexpr() || choice->getCond()->isValueDependent()) break;
      visit(choice->getInit());
      if (const auto taken = choice->getNondiscardedCase(context_)) visit(*taken);
      return;
    }
    case clang::Stmt::CXXTryStmtClass: {
      const auto* const attempt = clang::cast<clang::CXXTryStmt>(statement);
      // That of a constructor or a destructor throws again by itself.
      const bool is_of_object =
          attempt == decl_->getBody() &&
          clang::isa<clang::CXXConstructorDecl, clang::CXXDestructorDecl>(decl_);
      const bool guarded = catches_all(attempt) && !is_of_object;
      if (guarded) ++guards_;
      visit(attempt->getTryBlock());
      if (guarded) --guards_;
      for (unsigned i = 0; i < attempt->getNumHandlers(); ++i) {
        const clang::CXXCatchStmt* const handler = attempt->getHandler(i);
        if (const clang::VarDecl* const caught = handler->getExceptionDecl()) catch_into(caught);
        visit(handler->getHandlerBlock());
      }
      return;
    }
    case clang::Stmt::GCCAsmStmtClass:
    case clang::Stmt::MSAsmStmtClass:
      reason(Kind::kAssembler, statement->getBeginLoc(), "assembler");
      break;
    case clang::Stmt::CapturedStmtClass:
    case clang::Stmt::CoroutineBodyStmtClass:
    case clang::Stmt::CoreturnStmtClass:
    case clang::Stmt::SEHTryStmtClass:
    case clang::Stmt::ObjCAtTryStmtClass:
      reason(Kind::kUnsupported, statement->getBeginLoc(), statement->getStmtClassName());
      return;
    default:
      if (std::string_view(statement->getStmtClassName()).starts_with("OMP")) {
        reason(Kind::kUnsupported, statement->getBeginLoc(), "OpenMP");
        return;
      }
      break;
  }
  for (const clang::Stmt* child : statement->children()) visit(child);
}

void Lowering::catch_into(const clang::VarDecl* caught) {
  const Id address = address_of_local(local_of(caught));
  const Id exception = new_temporary(context_.VoidPtrTy);
  store(exception,
        outside(Kind::kUnknownPointer, "a pointer in what is caught", caught->getLocation()), {});
  store(address, caught->getType()->isReferenceType() ? exception : content(exception), {});
  const auto* const copy =
      caught->getInit() != nullptr
          ? clang::dyn_cast<clang::CXXConstructExpr>(caught->getInit()->IgnoreImplicit())
          : nullptr;
  if (copy != nullptr && !copy->getConstructor()->isTrivial())
    call_function(copy->getConstructor(), {address, exception}, context_.VoidTy,
                  caught->getLocation());
  if (caught->needsDestruction(context_) == clang::QualType::DK_cxx_destructor)
    call_function(caught->getType()->getAsCXXRecordDecl()->getDestructor(), {address},
                  context_.VoidTy, caught->getLocation());
}

void Lowering::answer(const clang::ReturnStmt* statement) {
  const clang::Expr* const value = statement->getRetValue();
  if (value == nullptr) return;
  const bool reference = decl_->getReturnType()->isReferenceType();
  const Id answered = reference ? address_of(value) : value_of(value);
  if (answered != kNone && holds_pointers(decl_->getReturnType()))
    add({.what = Fact::kReturn, .from = answered});
}

void Lowering::visit_sizes(clang::QualType type) {
  while (type->isVariablyModifiedType()) {
    if (const auto* const array = context_.getAsVariableArrayType(type)) {
      if (array->getSizeExpr() != nullptr) value_of(array->getSizeExpr());
      type = array->getElementType();
    } else if (const clang::ArrayType* const constant = context_.getAsArrayType(type)) {
      type = constant->getElementType();
    } else if (!type->getPointeeType().isNull()) {
      type = type->getPointeeType();
    } else {
      reason(Kind::kUnsupported, decl_->getLocation(), "a type of variable size");
      return;
    }
  }
}

void Lowering::declare(const clang::Decl* decl) {
  if (const auto* const name = clang::dyn_cast<clang::TypedefNameDecl>(decl))
    return visit_sizes(name->getUnderlyingType());
  const auto* const variable = clang::dyn_cast<clang::VarDecl>(decl);
  if (variable == nullptr) return;
  if (const auto* const parts = clang::dyn_cast<clang::DecompositionDecl>(variable)) {
    declare_variable(variable);
    for (const clang::BindingDecl* each : parts->bindings())
      if (const clang::VarDecl* const holder = each->getHoldingVar()) declare_variable(holder);
    return;
  }
  declare_variable(variable);
}

void Lowering::declare_variable(const clang::VarDecl* variable) {
  const clang::Expr* const init = variable->getInit();
  const clang::SourceLocation at = variable->getLocation();
  visit_sizes(variable->getType());
  if (!variable->hasLocalStorage()) {
    // Made the first time that somebody comes here.
    const bool is_dependent = init != nullptr && init->isValueDependent();
    if (variable->isStaticLocal() && init != nullptr && !is_dependent &&
        (!variable->hasConstantInitialization() || variable->needsDestruction(context_) != 0)) {
      reason(
          variable->getTLSKind() != clang::VarDecl::TLS_None ? Kind::kThreadLocal : Kind::kGlobal,
          at, variable->getQualifiedNameAsString());
      initialize(told(), init);
    }
    return;
  }
  const Id address = address_of_local(local_of(variable));
  const bool is_found_by_compiler = variable->isConstexpr() && !holds_pointers(variable->getType());
  if (init != nullptr && !is_found_by_compiler) {
    if (variable->getType()->isReferenceType()) {
      store(address, address_of(init), at);
    } else {
      initialize(address, init);
    }
  }
  if (variable->hasAttr<clang::AsmLabelAttr>()) reason(Kind::kAssembler, at, "");
  end(variable);
  if (const auto* const cleanup = variable->getAttr<clang::CleanupAttr>())
    call_function(cleanup->getFunctionDecl(), {address}, context_.VoidTy, at);
}

void Lowering::end(const clang::VarDecl* variable) {
  if (variable->needsDestruction(context_) != clang::QualType::DK_cxx_destructor) return;
  const clang::CXXRecordDecl* const record =
      context_.getBaseElementType(variable->getType())->getAsCXXRecordDecl();
  call_function(record->getDestructor(), {address_of_local(local_of(variable))}, context_.VoidTy,
                variable->getLocation());
}

void lower_required(Unit& unit) {
  while (const clang::FunctionDecl* const next = unit.next_required()) {
    const clang::FunctionDecl* definition = nullptr;
    const clang::FunctionDecl* const body = next->hasBody(definition) ? definition : next;
    Function function = Lowering(unit, body).lower();
    std::vector<Function>& bodies = unit.program.functions[function.key];
    bodies.push_back(std::move(function));
  }
}

}  // namespace perdura::source
