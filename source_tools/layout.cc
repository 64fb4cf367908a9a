#include "layout.hpp"

#include <algorithm>

#include "constants.hpp"
#include "keys.hpp"

namespace perdura::source {

bool is_persistent(clang::QualType type) {
  const clang::CXXRecordDecl* const record = type->getAsCXXRecordDecl();
  return record != nullptr && (is_pobase(record) || derives_from_pobase(record));
}

bool is_poroot(const clang::ValueDecl* member) {
  const auto* const field = clang::dyn_cast<clang::FieldDecl>(member);
  const auto* const record =
      field != nullptr ? clang::dyn_cast<clang::CXXRecordDecl>(field->getParent()) : nullptr;
  return record != nullptr && field->getName() == "poroot" && is_pobase(record);
}

bool is_empty(clang::QualType type) {
  const clang::CXXRecordDecl* const record = type->getAsCXXRecordDecl();
  if (record == nullptr || !record->hasDefinition()) return false;
  if (record->isDynamicClass()) return false;
  return std::ranges::all_of(
             record->bases(),
             [](const clang::CXXBaseSpecifier& base) { return is_empty(base.getType()); }) &&
         std::ranges::all_of(record->fields(), [](const clang::FieldDecl* field) {
           return is_empty(field->getType());
         });
}

bool is_mixed_union(const clang::RecordDecl* record) {
  if (!record->isUnion()) return false;
  unsigned members = 0;
  bool pointers = false;
  for (const clang::FieldDecl* field : record->fields()) {
    if (is_empty(field->getType())) continue;
    ++members;
    pointers |= holds_pointers(field->getType());
  }
  return members > 1 && pointers;
}

Leads leads_of(clang::QualType type) {
  if (!type->isReferenceType() && !type->isPointerType()) return Leads::kAnywhere;
  const clang::QualType pointee = type->getPointeeType();
  if (pointee->isVoidType() || pointee->isFunctionType()) return Leads::kAnywhere;
  return type->isReferenceType() ? Leads::kByReference : Leads::kToObject;
}

bool is_in_memory(clang::QualType type) { return type->isRecordType() || type->isArrayType(); }

}  // namespace perdura::source
