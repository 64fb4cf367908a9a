#include "deduce.hpp"

#include <algorithm>

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

namespace perdura::types {

using namespace clang;

namespace {

constexpr int kDepthMax = 64;

QualType plain(QualType type) { return type.getCanonicalType().getUnqualifiedType(); }

QualType element(const ASTContext& context, QualType type) {
  type = plain(type);
  while (const ArrayType* const array = context.getAsArrayType(type))
    type = plain(array->getElementType());
  return type;
}

uint64_t bytes(const ASTContext& context, QualType type) {
  return static_cast<uint64_t>(context.getTypeSizeInChars(type).getQuantity());
}

bool is_for_pointers(const ASTContext& context, QualType type) {
  return is_integer_for_pointers(context.getBaseElementType(type));
}

Size said(const ASTContext& context, Size::Form form, QualType type) {
  Size size;
  size.form = form;
  size.types.push_back(element(context, type));
  size.has_integers_for_pointers = is_for_pointers(context, type);
  return size;
}

Size joined(Size a, const Size& b, Size::Form form) {
  for (const QualType type : b.types)
    if (std::find(a.types.begin(), a.types.end(), type) == a.types.end()) a.types.push_back(type);
  a.form = a.types.empty() ? Size::Form::kUnknown : form;
  a.is_elsewhere |= b.is_elsewhere;
  a.has_integers_for_pointers |= b.has_integers_for_pointers;
  return a;
}

Size form_of(const ASTContext& context, const Expr* size, int depth) {
  size = size->IgnoreParenCasts();
  if (depth > kDepthMax) return {};
  if (const auto* trait = dyn_cast<UnaryExprOrTypeTraitExpr>(size)) {
    if (trait->getKind() != UETT_SizeOf || trait->getTypeOfArgument()->isDependentType()) return {};
    const QualType type = trait->getTypeOfArgument().getNonReferenceType();
    const bool is_array = context.getAsArrayType(type) != nullptr;
    return said(context, is_array ? Size::Form::kArray : Size::Form::kOne, type);
  }
  if (const auto* offset = dyn_cast<OffsetOfExpr>(size))
    return said(context, Size::Form::kMore, offset->getTypeSourceInfo()->getType());
  if (const auto* operation = dyn_cast<BinaryOperator>(size)) {
    if (operation->isComparisonOp() || operation->isAssignmentOp()) return {};
    if (operation->getOpcode() == BO_Comma) return form_of(context, operation->getRHS(), depth + 1);
    Size a = form_of(context, operation->getLHS(), depth + 1);
    Size b = form_of(context, operation->getRHS(), depth + 1);
    if (operation->getOpcode() == BO_Mul) return product(std::move(a), std::move(b));
    const bool is_behind = a.form == Size::Form::kUnknown;
    Size all = joined(std::move(a), b, Size::Form::kMore);
    all.is_elsewhere |= is_behind;
    return all;
  }
  if (const auto* choice = dyn_cast<ConditionalOperator>(size)) {
    Size either = joined(form_of(context, choice->getTrueExpr(), depth + 1),
                         form_of(context, choice->getFalseExpr(), depth + 1), Size::Form::kMore);
    either.is_elsewhere = true;
    return either;
  }
  if (const auto* name = dyn_cast<DeclRefExpr>(size)) {
    const auto* const variable = dyn_cast<VarDecl>(name->getDecl());
    if (variable == nullptr || variable->getInit() == nullptr || isa<ParmVarDecl>(variable))
      return {};
    Size first = form_of(context, variable->getInit(), depth + 1);
    // What became of it since is not looked at: it may be another type's.
    if (!variable->getType().isConstQualified() && first.form != Size::Form::kUnknown) {
      first.form = Size::Form::kMore;
      first.is_elsewhere = true;
    }
    return first;
  }
  return {};
}

/// Whether all members of `part` are the first ones of `whole`, by their names and types, as where
/// a macro declares what structures have in common.
bool has_members_of(const RecordDecl* whole, const RecordDecl* part) {
  if (whole->isUnion() || part->isUnion() || part->field_empty()) return false;
  auto at = whole->field_begin();
  for (const FieldDecl* field : part->fields()) {
    if (at == whole->field_end() || at->getDeclName() != field->getDeclName() ||
        plain(at->getType()) != plain(field->getType()) || at->isBitField() || field->isBitField())
      return false;
    ++at;
  }
  return true;
}

/// Whether an object of `whole` begins with one of `part`, as derived structures do.
bool begins_with(const ASTContext& context, QualType whole, QualType part) {
  const RecordDecl* const wanted =
      part->isRecordType() ? part->getAsRecordDecl()->getDefinition() : nullptr;
  for (int depth = 0; depth < kDepthMax; ++depth) {
    if (whole == part) return true;
    const auto* const record = whole->getAs<RecordType>();
    if (record == nullptr || record->getDecl()->getDefinition() == nullptr) return false;
    const RecordDecl* const decl = record->getDecl()->getDefinition();
    if (wanted != nullptr && has_members_of(decl, wanted)) return true;
    if (const auto* cxx = dyn_cast<CXXRecordDecl>(decl);
        cxx != nullptr && cxx->getNumBases() != 0) {
      whole = plain(cxx->bases_begin()->getType());
      continue;
    }
    if (decl->field_empty()) return false;
    whole = element(context, decl->field_begin()->getType());
  }
  return false;
}

/// A type whose last member is a flexible array, or one that C programs take for one.
Deduced shaped(Records& records, QualType type, Size::Form form) {
  const RecordPtr record = records.of(type);
  if (!record->refused.empty()) return {nullptr, 0, record->refused};
  if (form == Size::Form::kOne || form == Size::Form::kArray)
    return {record, record->has_tail() ? 1u : 0u, {}};
  // A structure that ends with a flexible array of what holds no pointers needs no tail. Where that
  // is one in another structure or a union, nobody knows what is in it.
  if (const auto* structure = type->getAs<RecordType>()) {
    const FieldDecl* last = nullptr;
    for (const FieldDecl* field : structure->getDecl()->getDefinition()->fields()) last = field;
    if (last != nullptr && last->getType()->isIncompleteArrayType()) return {record, 1, {}};
  }
  return {records.with_more(record), 1, {}};
}

}  // namespace

bool is_known(QualType type) {
  return !type.isNull() && !type->isVoidType() && !type->isFunctionType() &&
         !type->isDependentType() && !type->isIncompleteType() && !type->isSizelessType();
}

Size product(Size a, Size b) {
  if (a.form == Size::Form::kUnknown) std::swap(a, b);
  a.constant *= b.constant;
  if (b.form == Size::Form::kUnknown) {
    if (a.form == Size::Form::kOne) a.form = Size::Form::kArray;
    return a;
  }
  return joined(std::move(a), b, Size::Form::kMore);
}

Size size_of(const ASTContext& context, const Expr* size) {
  Size found = form_of(context, size, 0);
  Expr::EvalResult value;
  if (!size->isValueDependent() && !size->isTypeDependent() && size->EvaluateAsInt(value, context))
    found.constant = value.Val.getInt().getZExtValue();
  if (found.form == Size::Form::kMore && found.types.size() == 1 && is_known(found.types[0])) {
    const uint64_t one = bytes(context, found.types[0]);
    const bool has_word_behind = found.constant >= one + kWord;
    if (found.constant >= one && !has_word_behind) found.form = Size::Form::kOne;
  }
  return found;
}

namespace {

/// Where nothing but the size says what it is, and what it says of `sizes` may be the object.
Deduced of_size(Records& records, const std::vector<QualType>& sizes, const Size& size) {
  // Which of several is the object nobody sees, nor whether what is counted in numbers or pointers
  // is these alone.
  const bool is_counted = size.form == Size::Form::kOne || size.form == Size::Form::kArray;
  if (sizes.size() > 1 || size.is_elsewhere || (!is_counted && !sizes[0]->isRecordType()))
    return {records.words(), 0, {}};
  return shaped(records, sizes[0], size.form);
}

}  // namespace

Deduced deduce(Records& records, const ASTContext& context, QualType pointee, const Size& size) {
  const bool has_use = is_known(pointee);
  const QualType used = has_use ? element(context, pointee) : QualType();
  std::vector<QualType> sizes;
  for (const QualType type : size.types)
    if (is_known(type)) sizes.push_back(type);
  if (has_use ? is_for_pointers(context, pointee) ||
                    (size.has_integers_for_pointers && !used->isRecordType())
              : size.has_integers_for_pointers && sizes.size() == 1)
    return {records.words(), 0, {}};
  if (!has_use || (is_byte(used) && !sizes.empty() && !is_byte(sizes[0]))) {
    if (sizes.empty())
      return {nullptr, 0,
              pointee.isNull() || pointee->isVoidType() ? "" : "its type is incomplete here"};
    // Which parts of bytes are what nobody sees.
    if (has_use && size.form == Size::Form::kMore) return {records.words(), 0, {}};
    return of_size(records, sizes, size);
  }
  if (is_byte(used)) return {records.of(used), 0, {}};
  const bool is_sized = std::find(sizes.begin(), sizes.end(), used) != sizes.end();
  if (is_sized) return shaped(records, used, sizes.size() > 1 ? Size::Form::kMore : size.form);
  // Scalars are as many as have room, whatever they are counted in.
  const RecordPtr own = records.of(used);
  const bool in_bytes = std::all_of(sizes.begin(), sizes.end(), is_byte);
  if (in_bytes) {
    if (!used->isRecordType()) return {own, 0, {}};
    // A multiple of its size may be a block that has one in front.
    const bool is_one = size.constant == bytes(context, used);
    return shaped(records, used, is_one ? Size::Form::kOne : Size::Form::kMore);
  }
  const auto is_scalar = [](QualType type) { return !type->isRecordType(); };
  if (is_scalar(used) && std::all_of(sizes.begin(), sizes.end(), is_scalar)) {
    const auto is_pointer = [](QualType type) { return type->isAnyPointerType(); };
    if (is_pointer(used) == is_pointer(sizes[0]) && sizes.size() == 1) return {own, 0, {}};
  }
  if (used->isRecordType()) {
    const auto begins = [&](QualType type) { return begins_with(context, type, used); };
    const auto whole = std::find_if(sizes.begin(), sizes.end(), begins);
    if (whole != sizes.end()) {
      const bool is_one_of = size.is_elsewhere || std::count_if(whole, sizes.end(), begins) > 1;
      return is_one_of ? shaped(records, used, Size::Form::kMore)
                       : shaped(records, *whole, sizes.size() > 1 ? Size::Form::kMore : size.form);
    }
    for (const QualType type : sizes)
      if (begins_with(context, used, type)) return shaped(records, used, Size::Form::kMore);
  }
  return {records.words(), 0,
          "it is used as '" + own->name + "' and sized as '" + records.of(sizes[0])->name +
              "': each word of it may be a pointer"};
}

}  // namespace perdura::types
