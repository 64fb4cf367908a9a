#include "buffers.hpp"

#include <llvm/ADT/STLExtras.h>

#include "deduce.hpp"

namespace perdura::types {

using namespace clang;

const Decl* canonical(const Decl* decl) {
  const auto* const parameter = dyn_cast<ParmVarDecl>(decl);
  const auto* const function =
      parameter != nullptr ? dyn_cast<FunctionDecl>(parameter->getDeclContext()) : nullptr;
  if (function == nullptr) return decl->getCanonicalDecl();
  // `using Base::Base`
  if (const auto* constructor = dyn_cast<CXXConstructorDecl>(function);
      constructor != nullptr && constructor->isInheritingConstructor())
    return canonical(constructor->getInheritedConstructor().getConstructor()->getParamDecl(
        parameter->getFunctionScopeIndex()));
  return function->getCanonicalDecl()->getParamDecl(parameter->getFunctionScopeIndex());
}

unsigned Buffers::number_of(const Decl* taker) {
  unsigned& number = numbers_[taker];
  if (number == 0) {
    Taker& made = takers_.emplace_back();
    made.is_cast = is_beside_pointers(taker);
    made.is_anywhere = is_of_several_files(taker);
    number = static_cast<unsigned>(takers_.size());
  }
  return number;
}

void Buffers::note_method(const CXXMethodDecl* method) {
  for (const CXXMethodDecl* each : method->overridden_methods()) {
    note_flow(canonical(method), canonical(each));
    for (unsigned i = 0; i < method->getNumParams() && i < each->getNumParams(); ++i)
      note_flow(canonical(each->getParamDecl(i)), canonical(method->getParamDecl(i)));
  }
  if (method->getParent()->isLambda()) note_by_pointer(method, function_type_of(method));
}

void Buffers::note_by_pointer(const FunctionDecl* function, QualType type) {
  note_flow(canonical(function), any_of(type));
  for (unsigned i = 0; i < function->getNumParams(); ++i)
    note_flow(argument_of(type, i), canonical(function->getParamDecl(i)));
}

/// Whichever file's code is there makes what all of them have.
bool Buffers::is_of_several_files(const Decl* taker) const {
  const auto* const variable = dyn_cast<VarDecl>(taker);
  if (variable == nullptr || !variable->hasGlobalStorage() || variable->isImplicit()) return false;
  const GVALinkage linkage = context_.GetGVALinkageForVariable(variable);
  return linkage == GVA_DiscardableODR || linkage == GVA_StrongODR;
}

const Decl* Buffers::stand_in(const void* of, unsigned part) {
  VarDecl*& made = stand_ins_[{of, part}];
  if (made == nullptr)
    made = VarDecl::Create(context_, context_.getTranslationUnitDecl(), {}, {}, nullptr,
                           context_.VoidPtrTy, nullptr, SC_Extern);
  return made;
}

const Decl* Buffers::anywhere() {
  const Decl* const decl = stand_in(this);
  takers_[number_of(decl) - 1].is_anywhere = true;
  return decl;
}

const Decl* Buffers::any_of(QualType type, unsigned part) {
  if (type->isFunctionProtoType()) type = context_.getFunctionTypeWithExceptionSpec(type, EST_None);
  return stand_in(type.getCanonicalType().getTypePtr(), part);
}

/// That of a pointer to a function which a lambda becomes.
QualType Buffers::function_type_of(const CXXMethodDecl* method) const {
  const auto* const type = method->getType()->castAs<FunctionProtoType>();
  return context_.getFunctionType(type->getReturnType(), type->getParamTypes(),
                                  FunctionProtoType::ExtProtoInfo());
}

QualType Buffers::type_by_pointer(const Expr* by_pointer) {
  QualType type = by_pointer->getType();
  if (const auto* of = dyn_cast<BinaryOperator>(by_pointer); of != nullptr && of->isPtrMemOp()) {
    type = of->getRHS()->getType();
    const auto* const member = type->getAs<MemberPointerType>();
    if (member != nullptr && member->isMemberFunctionPointer()) type = member->getPointeeType();
  } else if (!type->getPointeeType().isNull()) {
    type = type->getPointeeType();
  }
  return type;
}

/// Members of a union that are pointers are each other.
bool Buffers::is_beside_pointers(const Decl* taker) {
  const auto* const member = dyn_cast<FieldDecl>(taker);
  if (member == nullptr || !member->getParent()->isUnion()) return false;
  return llvm::any_of(member->getParent()->fields(), [&](const FieldDecl* each) {
    const QualType to = each->getType()->getPointeeType();
    return !to.isNull() && is_known(to) && records_.of(to)->has_pointers();
  });
}

void Buffers::widen() {
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [number_from, number_to] : flows_) {
      Taker& from = takers_[number_from - 1];
      const Taker& to = takers_[number_to - 1];
      grew |= (to.is_cast && !from.is_cast) || (to.is_anywhere && !from.is_anywhere);
      from.is_cast |= to.is_cast;
      from.is_anywhere |= to.is_anywhere;
    }
  }
  for (const Taker& taker : takers_)
    for (const std::string& name : taker.marks) {
      Marked& mark = marked().at(name);
      // Numbers that nobody casts are no buffer.
      if (!taker.is_cast && !(taker.is_anywhere && mark.record->size == 1)) continue;
      mark.record = records_.words();
      mark.shape = 0;
      mark.is_buffer = true;
    }
}

}  // namespace perdura::types
