// Values: where they may lead.
#include "lowering.hpp"

namespace perdura::source {
namespace {

/// The pointer that a `void*` is made of.
const clang::Expr* without_casts(const clang::Expr* pointer) {
  while (const auto* const cast = clang::dyn_cast<clang::CastExpr>(pointer->IgnoreParens())) {
    if (cast->getCastKind() != clang::CK_NoOp && cast->getCastKind() != clang::CK_BitCast) break;
    pointer = cast->getSubExpr();
  }
  return pointer;
}

}  // namespace

bool Lowering::may_throw(const clang::Expr* init) const {
  init = init->IgnoreParens();
  if (const auto* const made = clang::dyn_cast<clang::CXXConstructExpr>(init)) {
    const clang::CXXConstructorDecl* const constructor = made->getConstructor();
    if (!constructor->isTrivial() && !never_throws(constructor)) return true;
    return std::any_of(made->arg_begin(), made->arg_end(),
                       [&](const auto* each) { return each->HasSideEffects(context_); });
  }
  return init->HasSideEffects(context_);
}

void Lowering::evaluate(const clang::Expr* expression) {
  if (expression->isGLValue()) address_of(expression);
  else value_of(expression);
}

Id Lowering::value_of(const clang::Expr* expression) {
  if (expression == nullptr) return kNone;
  const Id value = value_of_any(expression);
  const clang::QualType type = expression->getType();
  if (expression->isPRValue() && type->isPointerType() &&
      type->getPointeeType().getAddressSpace() != clang::LangAS::Default)
    return outside(Kind::kUnknownPointer, "a pointer into another address space",
                   expression->getExprLoc());
  if (value != kNone || expression->isGLValue() ||
      !(type->isAnyPointerType() || type->isMemberFunctionPointerType()))
    return value;
  clang::Expr::EvalResult result;
  if (expression->IgnoreParens()->getStmtClass() == clang::Stmt::CXXThrowExprClass ||
      (!expression->isValueDependent() && expression->EvaluateAsRValue(result, context_) &&
       (result.Val.isNullPointer() ||
        (result.Val.isMemberPointer() && result.Val.getMemberPointerDecl() == nullptr))))
    return null();
  return outside(Kind::kUnknownPointer, "a pointer of which nothing is known",
                 expression->getExprLoc());
}

Id Lowering::value_of_any(const clang::Expr* expression) {
  expression = expression->IgnoreParens();
  if (expression->isGLValue()) {  // of C, and of references that are bound
    const Id address = address_of(expression);
    return address;
  }
  if (const clang::Expr* const other = stands_for(expression)) return value_of(other);
  const clang::SourceLocation at = expression->getExprLoc();
  switch (expression->getStmtClass()) {
    case clang::Stmt::IntegerLiteralClass:
    case clang::Stmt::FloatingLiteralClass:
    case clang::Stmt::ImaginaryLiteralClass:
    case clang::Stmt::FixedPointLiteralClass:
    case clang::Stmt::CharacterLiteralClass:
    case clang::Stmt::CXXBoolLiteralExprClass:
    case clang::Stmt::CXXNullPtrLiteralExprClass:
    case clang::Stmt::GNUNullExprClass:
    case clang::Stmt::TypeTraitExprClass:
    case clang::Stmt::ArrayTypeTraitExprClass:
    case clang::Stmt::ExpressionTraitExprClass:
    case clang::Stmt::SizeOfPackExprClass:
    case clang::Stmt::CXXNoexceptExprClass:
    case clang::Stmt::RequiresExprClass:
    case clang::Stmt::ConceptSpecializationExprClass:
    case clang::Stmt::ImplicitValueInitExprClass:
    case clang::Stmt::CXXScalarValueInitExprClass:
    case clang::Stmt::NoInitExprClass:
    case clang::Stmt::ArrayInitIndexExprClass:
    case clang::Stmt::SourceLocExprClass:
    case clang::Stmt::AddrLabelExprClass:
      return kNone;
    case clang::Stmt::UnaryExprOrTypeTraitExprClass: {
      const auto* const trait = clang::cast<clang::UnaryExprOrTypeTraitExpr>(expression);
      if (!trait->getTypeOfArgument()->isVariablyModifiedType()) return kNone;
      if (trait->isArgumentType()) visit_sizes(trait->getArgumentType());
      else evaluate(trait->getArgumentExpr());
      return kNone;
    }
    case clang::Stmt::OffsetOfExprClass: {
      const auto* const offset = clang::cast<clang::OffsetOfExpr>(expression);
      for (unsigned i = 0; i < offset->getNumExpressions(); ++i) value_of(offset->getIndexExpr(i));
      return kNone;
    }
    case clang::Stmt::DeclRefExprClass:  // an enumerator, or a method that is called
      return clang::isa<clang::EnumConstantDecl, clang::NonTypeTemplateParmDecl>(
                 clang::cast<clang::DeclRefExpr>(expression)->getDecl())
                 ? kNone
                 : address_of_reference(clang::cast<clang::DeclRefExpr>(expression));
    case clang::Stmt::MemberExprClass: {
      const auto* const member = clang::cast<clang::MemberExpr>(expression);
      const Id address = address_of_member(member);
      // Of what is no variable, in C; a method is where it is.
      return clang::isa<clang::FieldDecl>(member->getMemberDecl())
                 ? load(address, expression->getType(), at)
                 : address;
    }
    case clang::Stmt::CXXThisExprClass:
      return value_of_this(at);
    case clang::Stmt::UnaryOperatorClass:
      return value_of_unary(clang::cast<clang::UnaryOperator>(expression));
    case clang::Stmt::BinaryOperatorClass:
    case clang::Stmt::CompoundAssignOperatorClass:
      return value_of_binary(clang::cast<clang::BinaryOperator>(expression));
    case clang::Stmt::CXXRewrittenBinaryOperatorClass:
      return value_of(
          clang::cast<clang::CXXRewrittenBinaryOperator>(expression)->getSemanticForm());
    case clang::Stmt::ConditionalOperatorClass: {
      const auto* const choice = clang::cast<clang::ConditionalOperator>(expression);
      value_of(choice->getCond());
      const Id first = value_of(choice->getTrueExpr());
      return joined(first, value_of(choice->getFalseExpr()));
    }
    case clang::Stmt::BinaryConditionalOperatorClass: {
      const auto* const choice = clang::cast<clang::BinaryConditionalOperator>(expression);
      bind(choice->getOpaqueValue());
      value_of(choice->getCond());
      const Id first = value_of(choice->getTrueExpr());
      return joined(first, value_of(choice->getFalseExpr()));
    }
    case clang::Stmt::OpaqueValueExprClass: {
      const auto bound = opaque_.find(clang::cast<clang::OpaqueValueExpr>(expression));
      if (bound != opaque_.end()) return bound->second;
      return value_of(clang::cast<clang::OpaqueValueExpr>(expression)->getSourceExpr());
    }
    case clang::Stmt::ExprWithCleanupsClass:
      return value_of(clang::cast<clang::ExprWithCleanups>(expression)->getSubExpr());
    case clang::Stmt::ConstantExprClass:
      // Found by the compiler: nothing is done here.
      if (clang::cast<clang::ConstantExpr>(expression)->hasAPValueResult() &&
          !holds_pointers(expression->getType()))
        return kNone;
      return value_of(clang::cast<clang::ConstantExpr>(expression)->getSubExpr());
    case clang::Stmt::VAArgExprClass:
      return value_of_va_arg(clang::cast<clang::VAArgExpr>(expression));
    case clang::Stmt::AtomicExprClass:
      return value_of_atomic(clang::cast<clang::AtomicExpr>(expression));
    case clang::Stmt::StmtExprClass:
      return value_of_statement(clang::cast<clang::StmtExpr>(expression), false);
    case clang::Stmt::CXXThrowExprClass:
      if (const clang::Expr* const thrown =
              clang::cast<clang::CXXThrowExpr>(expression)->getSubExpr()) {
        evaluate(thrown);
        const clang::CXXRecordDecl* const record = thrown->getType()->getAsCXXRecordDecl();
        if (record != nullptr && record->hasDefinition() && !record->hasTrivialDestructor()) {
          // When whatever catches it is left: nothing here catches what that throws.
          const unsigned guards = std::exchange(guards_, 0);
          call_function(record->getDestructor(), {new_temporary(thrown->getType())},
                        context_.VoidTy, at);
          guards_ = guards;
        }
      }
      reason(Kind::kThrows, at, "throw");
      return kNone;
    case clang::Stmt::CXXNewExprClass:
      return value_of_new(clang::cast<clang::CXXNewExpr>(expression));
    case clang::Stmt::CXXDeleteExprClass:
      return value_of_delete(clang::cast<clang::CXXDeleteExpr>(expression));
    case clang::Stmt::CXXPseudoDestructorExprClass:
      value_of(clang::cast<clang::CXXPseudoDestructorExpr>(expression)->getBase());
      return kNone;
    case clang::Stmt::ShuffleVectorExprClass:
    case clang::Stmt::ConvertVectorExprClass:
      for (const clang::Stmt* child : expression->children())
        if (const auto* const each = clang::dyn_cast_or_null<clang::Expr>(child)) value_of(each);
      return kNone;
    case clang::Stmt::InitListExprClass:
      if (!is_in_memory(expression->getType())) {
        const auto* const list = clang::cast<clang::InitListExpr>(expression);
        Id value = kNone;
        for (const clang::Expr* each : list->inits()) value = joined(value, value_of(each));
        return value;
      }
      [[fallthrough]];
    case clang::Stmt::CXXConstructExprClass:
    case clang::Stmt::CXXTemporaryObjectExprClass:
    case clang::Stmt::CXXInheritedCtorInitExprClass:
    case clang::Stmt::CXXBindTemporaryExprClass:
    case clang::Stmt::CXXParenListInitExprClass:
    case clang::Stmt::CXXStdInitializerListExprClass:
    case clang::Stmt::LambdaExprClass:
    case clang::Stmt::ArrayInitLoopExprClass:
    case clang::Stmt::DesignatedInitUpdateExprClass:
    case clang::Stmt::CompoundLiteralExprClass:
      return holds_pointers(expression->getType()) ? content(materialize(expression))
                                                   : (materialize(expression), kNone);
    default:
      break;
  }
  if (const auto* const call = clang::dyn_cast<clang::CallExpr>(expression))
    return value_of_call(call);
  if (const auto* const cast = clang::dyn_cast<clang::CastExpr>(expression))
    return value_of_cast(cast);
  return unsupported(expression);
}

void Lowering::bind(const clang::OpaqueValueExpr* opaque) {
  const clang::Expr* const source = opaque->getSourceExpr();
  opaque_[opaque] = source->isGLValue() ? address_of(source) : value_of(source);
}

Id Lowering::unsupported(const clang::Expr* expression) {
  reason(Kind::kUnsupported, expression->getExprLoc(), expression->getStmtClassName());
  return told();
}

Id Lowering::step(const clang::UnaryOperator* unary) {
  const Id address = address_of(unary->getSubExpr());
  read(address, unary->getExprLoc(), how_changed(unary->getType()));
  write(address, unary->getExprLoc());
  return address;
}

Id Lowering::value_of_unary(const clang::UnaryOperator* unary) {
  const clang::Expr* const sub = unary->getSubExpr();
  switch (unary->getOpcode()) {
    case clang::UO_AddrOf: {
      const clang::Expr* const operand = sub->IgnoreParens();
      if (const auto* const reference = clang::dyn_cast<clang::DeclRefExpr>(operand)) {
        if (clang::isa<clang::FieldDecl, clang::IndirectFieldDecl>(reference->getDecl()))
          return kNone;
        if (const auto* const function = clang::dyn_cast<clang::FunctionDecl>(reference->getDecl()))
          return value_to_function(function, unary->getExprLoc());
      }
      return address_of(operand);
    }
    case clang::UO_PreInc:
    case clang::UO_PreDec:
    case clang::UO_PostInc:
    case clang::UO_PostDec: {
      const Id address = step(unary);
      return holds_pointers(unary->getType()) ? content(address) : kNone;
    }
    case clang::UO_Coawait:
      return unsupported(unary);
    case clang::UO_Extension:
    case clang::UO_Plus:
      return value_of(sub);
    default:
      evaluate(sub);
      return kNone;
  }
}

Id Lowering::assign(const clang::BinaryOperator* binary) {
  const clang::SourceLocation at = binary->getExprLoc();
  const clang::Expr* const left = binary->getLHS();
  const Id value = value_of(binary->getRHS());
  // What is written there is no number of before.
  const bool is_replaced = !binary->isCompoundAssignmentOp() && is_beside_pointers(left);
  const bool replaces = std::exchange(replaces_, is_replaced);
  const Id address = address_of(left);
  replaces_ = replaces;
  if (binary->isCompoundAssignmentOp()) {
    read(address, at, how_changed(left->getType()));
    write(address, at);
  } else {
    store(address, of_pointers(value, left->getType()), at);
  }
  return address;
}

Id Lowering::value_of_binary(const clang::BinaryOperator* binary) {
  if (binary->isAssignmentOp()) {
    const Id address = assign(binary);
    return holds_pointers(binary->getType()) ? content(address) : kNone;
  }
  switch (binary->getOpcode()) {
    case clang::BO_Comma:
      evaluate(binary->getLHS());
      return value_of(binary->getRHS());
    case clang::BO_Add:
    case clang::BO_Sub: {
      if (binary->getType()->isIntegerType() && binary->getLHS()->getType()->isPointerType() &&
          (is_null(binary->getLHS()) || is_null(binary->getRHS())))
        reason(Kind::kAddressAsNumber, binary->getExprLoc(), "");
      const Id left = value_of(binary->getLHS());
      const Id right = value_of(binary->getRHS());
      if (!binary->getType()->isPointerType()) return kNone;
      if (is_null(binary->getLHS()) || is_null(binary->getRHS()))
        return outside(Kind::kUnknownPointer, "a pointer that is made of a number",
                       binary->getExprLoc());
      return joined(left, right);
    }
    case clang::BO_PtrMemD:
    case clang::BO_PtrMemI: {
      value_of(binary->getRHS());
      return binary->getOpcode() == clang::BO_PtrMemD ? address_of(binary->getLHS())
                                                      : value_of(binary->getLHS());
    }
    default:
      value_of(binary->getLHS());
      value_of(binary->getRHS());
      return kNone;
  }
}

bool Lowering::is_null(const clang::Expr* expression) const {
  clang::Expr::EvalResult result;
  return expression->getType()->isPointerType() && !expression->isValueDependent() &&
         expression->EvaluateAsRValue(result, context_) && result.Val.isLValue() &&
         !result.Val.getLValueBase();
}

bool Lowering::is_beside_pointers(const clang::Expr* place) {
  for (;;) {
    place = place->IgnoreParenNoopCasts(context_);
    if (const auto* const member = clang::dyn_cast<clang::MemberExpr>(place)) {
      const auto* const field = clang::dyn_cast<clang::FieldDecl>(member->getMemberDecl());
      if (field != nullptr && is_mixed_union(field->getParent())) return true;
      if (member->isArrow()) return false;
      place = member->getBase();
    } else if (const auto* const element = clang::dyn_cast<clang::ArraySubscriptExpr>(place)) {
      const auto* const decayed =
          clang::dyn_cast<clang::ImplicitCastExpr>(element->getBase()->IgnoreParens());
      if (decayed == nullptr || decayed->getCastKind() != clang::CK_ArrayToPointerDecay)
        return false;
      place = decayed->getSubExpr();
    } else {
      return false;
    }
  }
}

Id Lowering::value_of_cast(const clang::CastExpr* cast) {
  if (const auto* const written = clang::dyn_cast<clang::ExplicitCastExpr>(cast))
    visit_sizes(written->getTypeAsWritten());
  const clang::Expr* const sub = cast->getSubExpr();
  const clang::SourceLocation at = cast->getExprLoc();
  switch (cast->getCastKind()) {
    case clang::CK_LValueToRValue: {
      const auto* const member = clang::dyn_cast<clang::MemberExpr>(sub->IgnoreParens());
      if (member != nullptr && is_poroot(member->getMemberDecl())) {
        const Id base =
            member->isArrow() ? value_of(member->getBase()) : address_of(member->getBase());
        return add({.what = Fact::kLoadPoroot,
                    .to = new_value(),
                    .from = base,
                    .place = unit_.place(member->getMemberLoc())});
      }
      // A constant that is used as a number is none of a variable.
      if (const auto* const reference = clang::dyn_cast<clang::DeclRefExpr>(sub->IgnoreParens()))
        if (reference->isNonOdrUse() != clang::NOUR_None && !holds_pointers(cast->getType()) &&
            !reference->getDecl()->getType()->isReferenceType())
          return kNone;
      return load(address_of(sub), cast->getType(), place_of_access(sub));
    }
    case clang::CK_ArrayToPointerDecay:
    case clang::CK_FunctionToPointerDecay:
    case clang::CK_BuiltinFnToFnPtr:
      return address_of(sub);
    case clang::CK_NullToPointer:
    case clang::CK_NullToMemberPointer:
      evaluate(sub);
      return kNone;
    case clang::CK_IntegralToPointer: {
      value_of(sub);
      clang::Expr::EvalResult number;
      if (!sub->isValueDependent() && sub->EvaluateAsInt(number, context_) &&
          number.Val.getInt().isZero())
        return kNone;
      return outside(Kind::kUnknownPointer, "a pointer that is made of a number", at);
    }
    case clang::CK_PointerToIntegral: {
      evaluate(sub);
      clang::Expr::EvalResult number;
      if (!cast->isValueDependent() && cast->EvaluateAsInt(number, context_)) return kNone;
      reason(Kind::kAddressAsNumber, at, "");
      return kNone;
    }
    case clang::CK_BitCast:
    case clang::CK_ReinterpretMemberPointer: {
      const Id value = value_of(sub);
      const clang::QualType to = cast->getType()->getPointeeType();
      if (cast->getType()->isFunctionPointerType() && !sub->getType()->isFunctionPointerType())
        return outside(Kind::kIndirect, "a function by a pointer", at);
      if (value != kNone && !to.isNull() && !to->isVoidType() && !to->isFunctionType()) {
        const clang::QualType from = sub->getType()->getPointeeType();
        if (from.isNull()) reinterpret(value, name_of_element(to));
        else see_as(value, from, to, at);
      }
      return value;
    }
    case clang::CK_LValueToRValueBitCast: {
      const Id address = address_of(sub);
      const Id value = load(address, sub->getType(), at);
      if (same_type(cast->getType(), sub->getType())) return value;
      // Where there are pointers as well some may have become numbers.
      if (value != kNone && !cast->getType()->isPointerType())
        reason(Kind::kAddressAsNumber, at, "");
      return holds_pointers(cast->getType())
                 ? outside(Kind::kUnknownPointer, "a pointer that is made of other bits", at)
                 : kNone;
    }
    case clang::CK_Dynamic: {
      const Id value = value_of(sub);
      read(value, at);
      follow_to_base(cast, value);
      return value;
    }
    case clang::CK_UserDefinedConversion:
    case clang::CK_ConstructorConversion:
    case clang::CK_DerivedToBase:
    case clang::CK_UncheckedDerivedToBase:
    case clang::CK_BaseToDerived: {
      const Id value = value_of(sub);
      follow_to_base(cast, value);
      return value;
    }
    case clang::CK_NoOp:
    case clang::CK_AddressSpaceConversion:
    case clang::CK_AnyPointerToBlockPointerCast:
    case clang::CK_CPointerToObjCPointerCast:
    case clang::CK_AtomicToNonAtomic:
    case clang::CK_NonAtomicToAtomic:
    case clang::CK_BaseToDerivedMemberPointer:
    case clang::CK_DerivedToBaseMemberPointer:
    case clang::CK_ToUnion:
      return value_of(sub);
    default: {
      // Numbers from numbers; and whether a pointer is null.
      evaluate(sub);
      return holds_pointers(cast->getType()) ? unsupported(cast) : kNone;
    }
  }
}

bool Lowering::same_type(clang::QualType a, clang::QualType b) const {
  return context_.hasSameUnqualifiedType(a.getCanonicalType(), b.getCanonicalType());
}

clang::SourceLocation Lowering::place_of_access(const clang::Expr* expression) {
  return expression->IgnoreParens()->getExprLoc();
}

Id Lowering::value_of_va_arg(const clang::VAArgExpr* argument) {
  const Id list = argument->getSubExpr()->isGLValue() ? address_of(argument->getSubExpr())
                                                      : value_of(argument->getSubExpr());
  // The state of the list; what it leads to is the call's who has made it.
  read(list, argument->getExprLoc(), kReadCopied);
  write(list, argument->getExprLoc());
  visit_sizes(argument->getType());
  return holds_pointers(argument->getType())
             ? outside(Kind::kUnknownPointer, "a pointer among further arguments",
                       argument->getExprLoc())
             : kNone;
}

Id Lowering::value_of_statement(const clang::StmtExpr* statement, bool address) {
  const clang::CompoundStmt* const body = statement->getSubStmt();
  const auto* const result = clang::dyn_cast_or_null<clang::ValueStmt>(body->getStmtExprResult());
  Id value = kNone;
  for (const clang::Stmt* each : body->body()) {
    // Behind its labels and attributes.
    const clang::Expr* const last = each == result ? result->getExprStmt() : nullptr;
    if (last != nullptr && !statement->getType()->isVoidType())
      value = address ? address_of(last) : value_of(last);
    else visit(each);
  }
  return value;
}

Id Lowering::value_of_atomic(const clang::AtomicExpr* atomic) {
  const clang::SourceLocation at = atomic->getExprLoc();
  const Id place = value_of(atomic->getPtr());
  const bool pointers = holds_pointers(atomic->getValueType());
  read(place, at, how_changed(atomic->getValueType()));
  Id value = kNone;
  const auto takes = [&](const clang::Expr* operand) {
    const Id each = operand->isGLValue() ? address_of(operand) : value_of(operand);
    if (operand->getType()->isPointerType() &&
        same_type(operand->getType()->getPointeeType(), atomic->getValueType())) {
      read(each, at, how_changed(atomic->getValueType()));
      write(each, at);
      if (pointers) {
        store(each, content(place), at);
        value = joined(value, content(each));
      }
    } else {
      value = joined(value, each);
    }
  };
  clang::Expr** const operands = const_cast<clang::AtomicExpr*>(atomic)->getSubExprs();
  for (unsigned i = 0; i < atomic->getNumSubExprs(); ++i) {
    if (operands[i] == atomic->getPtr()) continue;
    if (operands[i] == atomic->getOrder() &&
        atomic->getOp() != clang::AtomicExpr::AO__c11_atomic_init) {
      value_of(operands[i]);
      continue;
    }
    takes(operands[i]);
  }
  switch (atomic->getOp()) {
    case clang::AtomicExpr::AO__c11_atomic_load:
    case clang::AtomicExpr::AO__atomic_load:
    case clang::AtomicExpr::AO__atomic_load_n:
      break;
    default:
      store(place, pointers ? value : kNone, at);
  }
  return pointers && holds_pointers(atomic->getType()) ? joined(content(place), value) : kNone;
}

Id Lowering::value_of_new(const clang::CXXNewExpr* expression) {
  const clang::SourceLocation at = expression->getExprLoc();
  if (expression->isArray() && expression->getArraySize().has_value() &&
      *expression->getArraySize() != nullptr)
    value_of(*expression->getArraySize());
  const clang::FunctionDecl* const give = expression->getOperatorNew();
  Id address = kNone;
  if (give->isReservedGlobalPlacementOperator()) {
    const clang::Expr* const place = expression->getPlacementArg(0);
    address = value_of(place);
    // Where a T is by its pointer, another T is no other type: as std::construct_at makes one.
    const clang::QualType there = without_casts(place)->getType()->getPointeeType();
    if (there.isNull() || !same_type(there, expression->getAllocatedType()))
      reinterpret(address, name_of_element(expression->getAllocatedType()));
  } else {
    std::vector<Id> arguments{kNone};
    if (expression->passAlignment()) arguments.push_back(kNone);
    for (const clang::Expr* each : expression->placement_arguments())
      arguments.push_back(each->isGLValue() ? address_of(each) : value_of(each));
    address = call_function(give, arguments, expression->getType(), at);
  }
  if (const clang::Expr* const init = expression->getInitializer()) {
    if (address == kNone) address = told();
    initialize(address, init);
    // When it throws.
    const clang::FunctionDecl* const take = expression->getOperatorDelete();
    if (take != nullptr && !take->isReservedGlobalPlacementOperator() && may_throw(init)) {
      std::vector<Id> arguments{address};
      for (Id i = 1; i < take->getNumParams(); ++i) arguments.push_back(kNone);
      call_function(take, arguments, context_.VoidTy, at);
    }
  }
  return address;
}

Id Lowering::value_of_delete(const clang::CXXDeleteExpr* expression) {
  const clang::SourceLocation at = expression->getExprLoc();
  const Id address = value_of(expression->getArgument());
  const clang::QualType type = expression->getDestroyedType();
  const clang::CXXRecordDecl* const record =
      type.isNull() ? nullptr : context_.getBaseElementType(type)->getAsCXXRecordDecl();
  if (record != nullptr && record->hasDefinition() && !record->hasTrivialDestructor()) {
    const clang::CXXDestructorDecl* const destructor = record->getDestructor();
    if (destructor->isVirtual() && !is_final(destructor))
      reason(Kind::kVirtual, at, unit_.name_of_function(destructor));
    else call_function(destructor, {address}, context_.VoidTy, at);
  }
  if (const clang::FunctionDecl* const take = expression->getOperatorDelete())
    call_function(take, {address}, context_.VoidTy, at);
  else reason(Kind::kMemory, at, "delete");
  return kNone;
}

}  // namespace perdura::source
