#include "constants.hpp"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>

namespace perdura::source {

using namespace clang;

bool holds_pointers(QualType type, unsigned depth) {
  type = type.getCanonicalType();
  if (type->isDependentType() || depth > 64) return true;
  if (type->isReferenceType() || type->isAnyPointerType() || type->isMemberFunctionPointerType() ||
      type->isBlockPointerType() || type->isNullPtrType() || type->isFunctionType())
    return true;
  if (const auto* const array = dyn_cast<clang::ArrayType>(type))
    return holds_pointers(array->getElementType(), depth + 1);
  if (const auto* const atomic = dyn_cast<AtomicType>(type))
    return holds_pointers(atomic->getValueType(), depth + 1);
  const auto* const record = type->getAsRecordDecl();
  if (record == nullptr) return false;
  const RecordDecl* const definition = record->getDefinition();
  if (definition == nullptr) return true;
  // To its virtual functions or bases.
  if (const auto* const of_cpp = dyn_cast<CXXRecordDecl>(definition);
      of_cpp != nullptr && of_cpp->isDynamicClass())
    return true;
  for (const FieldDecl* field : definition->fields())
    if (holds_pointers(field->getType(), depth + 1)) return true;
  if (const auto* const of_cpp = dyn_cast<CXXRecordDecl>(definition))
    for (const CXXBaseSpecifier& base : of_cpp->bases())
      if (holds_pointers(base.getType(), depth + 1)) return true;
  return false;
}

bool is_byte(QualType type) {
  return type->isCharType() || type->isStdByteType() || type->isChar8Type();
}

bool holds_bytes(QualType type, unsigned depth) {
  type = type.getCanonicalType();
  if (type->isDependentType() || depth > 64 || is_byte(type)) return true;
  if (const auto* const array = dyn_cast<clang::ArrayType>(type))
    return holds_bytes(array->getElementType(), depth + 1);
  const auto* const record = type->getAsRecordDecl();
  const RecordDecl* const definition = record != nullptr ? record->getDefinition() : nullptr;
  if (definition == nullptr) return record != nullptr;
  for (const FieldDecl* field : definition->fields())
    if (holds_bytes(field->getType(), depth + 1)) return true;
  if (const auto* const of_cpp = dyn_cast<CXXRecordDecl>(definition))
    for (const CXXBaseSpecifier& base : of_cpp->bases())
      if (holds_bytes(base.getType(), depth + 1)) return true;
  return false;
}

namespace {

bool has_volatile_members(const RecordDecl* record, const ASTContext& context) {
  const auto is_one = [&](QualType type) {
    const QualType element = context.getBaseElementType(type);
    const RecordDecl* const inner = element->getAsRecordDecl();
    const RecordDecl* const definition = inner != nullptr ? inner->getDefinition() : nullptr;
    return type.isVolatileQualified() || element.isVolatileQualified() ||
           (definition != nullptr && has_volatile_members(definition, context));
  };
  for (const FieldDecl* field : record->fields())
    if (is_one(field->getType())) return true;
  if (const auto* const of_cpp = dyn_cast<CXXRecordDecl>(record))
    for (const CXXBaseSpecifier& base : of_cpp->bases())
      if (is_one(base.getType())) return true;
  return false;
}

/// Neither volatile nor with members that are, or that are mutable.
bool is_constant_type(QualType type, const ASTContext& context) {
  const QualType element = context.getBaseElementType(type);
  if (!element.isConstQualified() || type.isVolatileQualified() || element.isVolatileQualified())
    return false;
  const RecordDecl* const record = element->getAsRecordDecl();
  if (record == nullptr) return true;
  const RecordDecl* const definition = record->getDefinition();
  const auto* const of_cpp = dyn_cast_or_null<CXXRecordDecl>(definition);
  return definition != nullptr && (of_cpp == nullptr || !of_cpp->hasMutableFields()) &&
         !has_volatile_members(definition, context);
}

}  // namespace

bool is_constant(const VarDecl* variable, ASTContext& context) {
  const QualType type = variable->getType();
  // Of a weak one the linker may take another.
  if (type->isReferenceType() || variable->isWeak()) return false;
  if (!is_constant_type(variable->isConstexpr() ? type.withConst() : type, context)) return false;
  const VarDecl* initialized = nullptr;
  const Expr* const init = variable->getAnyInitializer(initialized);
  if (init == nullptr || init->isValueDependent()) return false;
  if (initialized->evaluateValue() == nullptr) return false;
  return initialized->hasConstantInitialization();
}

bool is_constant_elsewhere(const VarDecl* variable) {
  QualType type = variable->getType();
  while (type->isArrayType()) type = type->castAsArrayTypeUnsafe()->getElementType();
  return variable->getAnyInitializer() == nullptr && variable->isExternallyVisible() &&
         type.isConstQualified() && !type.isVolatileQualified() && !type->isRecordType() &&
         !type->isReferenceType();
}

namespace {

void add_content(Unit& unit, const APValue& value, const ValueDecl* of,
                 std::vector<Target>& content);

/// What lives as long as a constant and is one too, the numbers of an initializer list, is taken as
/// a part of it. False: it is none.
bool add_temporary(Unit& unit, const Expr* expression, const ValueDecl* of,
                   std::vector<Target>& content) {
  const auto* const temporary = dyn_cast_or_null<MaterializeTemporaryExpr>(expression);
  if (temporary == nullptr || temporary->getStorageDuration() != SD_Static ||
      !is_constant_type(temporary->getType(), unit.context()))
    return false;
  const APValue* const value = temporary->getOrCreateValue(false);
  if (value == nullptr || !value->hasValue()) return false;
  const auto* const argument = dyn_cast<TemplateParamObjectDecl>(of);
  content.push_back({Target::kConstant, argument != nullptr
                                            ? constant_of(unit, argument)
                                            : constant_of(unit, cast<VarDecl>(of))});
  add_content(unit, *value, of, content);
  return true;
}

void add_content(Unit& unit, const APValue& value, const ValueDecl* of,
                 std::vector<Target>& content) {
  switch (value.getKind()) {
    case APValue::LValue: {
      const APValue::LValueBase base = value.getLValueBase();
      if (!base) return;
      if (const auto* const decl = base.dyn_cast<const ValueDecl*>()) {
        if (const auto* const variable = dyn_cast<VarDecl>(decl)) {
          if (is_constant(variable, unit.context()) || is_constant_elsewhere(variable)) {
            content.push_back({Target::kConstant, constant_of(unit, variable)});
          } else {
            const bool of_thread = variable->getTLSKind() != VarDecl::TLS_None;
            content.push_back({Target::kOutside,
                               unit.program.outside({of_thread ? Kind::kThreadLocal : Kind::kGlobal,
                                                     variable->getQualifiedNameAsString(),
                                                     unit.place(variable->getLocation())})});
          }
          return;
        }
        if (const auto* const function = dyn_cast<FunctionDecl>(decl)) {
          content.push_back(function_of(unit, function, of->getLocation()));
          return;
        }
        if (const auto* const argument = dyn_cast<TemplateParamObjectDecl>(decl)) {
          content.push_back({Target::kConstant, constant_of(unit, argument)});
          return;
        }
      }
      const auto* const expression = base.dyn_cast<const Expr*>();
      if (expression != nullptr && isa<clang::StringLiteral, PredefinedExpr>(expression)) {
        content.push_back({Target::kConstant, literal_of(unit)});
        return;
      }
      if (add_temporary(unit, expression, of, content)) return;
      content.push_back(
          {Target::kOutside, unit.program.outside({Kind::kUnknownPointer, of->getNameAsString(),
                                                   unit.place(of->getLocation())})});
      return;
    }
    case APValue::MemberPointer:
      if (const auto* const method = dyn_cast_or_null<CXXMethodDecl>(value.getMemberPointerDecl()))
        content.push_back(function_of(unit, method, of->getLocation()));
      return;
    case APValue::Struct:
      for (unsigned i = 0; i < value.getStructNumBases(); ++i)
        add_content(unit, value.getStructBase(i), of, content);
      for (unsigned i = 0; i < value.getStructNumFields(); ++i)
        add_content(unit, value.getStructField(i), of, content);
      return;
    case APValue::Union:
      add_content(unit, value.getUnionValue(), of, content);
      return;
    case APValue::Array:
      for (unsigned i = 0; i < value.getArrayInitializedElts(); ++i)
        add_content(unit, value.getArrayInitializedElt(i), of, content);
      if (value.hasArrayFiller()) add_content(unit, value.getArrayFiller(), of, content);
      return;
    default:
      return;
  }
}

/// Several variables may be one constant, of which nobody knows which is meant: those of one name
/// that an expansion of a macro defines.
void extend(Unit& unit, Id constant, const APValue& value, const ValueDecl* of) {
  std::vector<Target> content;
  add_content(unit, value, of, content);
  std::vector<Target>& all = unit.program.constants[constant].content;
  all.insert(all.end(), content.begin(), content.end());
}

}  // namespace

Id constant_of(Unit& unit, const VarDecl* variable) {
  variable = variable->getCanonicalDecl();
  const Id id = unit.program.constant(unit.key_of(variable));
  if (!unit.begin_content(variable)) return id;
  unit.program.constants[id].otherwise = unit.program.outside(
      {Kind::kGlobal, variable->getQualifiedNameAsString(), unit.place(variable->getLocation())});
  if (!is_constant(variable, unit.context())) return id;
  unit.program.constants[id].is_defined = true;
  if (holds_pointers(variable->getType())) {
    const VarDecl* initialized = nullptr;
    variable->getAnyInitializer(initialized);
    if (const APValue* const value = initialized->evaluateValue())
      extend(unit, id, *value, variable);
  }
  return id;
}

Id constant_of(Unit& unit, const TemplateParamObjectDecl* argument) {
  const Id id = unit.program.constant(unit.key_of(argument));
  if (!unit.begin_content(argument)) return id;
  unit.program.constants[id].is_defined = true;
  extend(unit, id, argument->getValue(), argument);
  return id;
}

Id literal_of(Unit& unit) { return unit.program.constant(""); }

Id type_info_of(Unit& unit) {
  const Id literal = literal_of(unit);
  const Id id = unit.program.constant("typeid");
  Constant& all = unit.program.constants[id];
  all.is_defined = true;
  if (all.content.empty()) all.content.push_back({Target::kConstant, literal});
  return id;
}

Target function_of(Unit& unit, const FunctionDecl* function, SourceLocation at) {
  const auto outside = [&](Kind kind) {
    return Target{Target::kOutside,
                  unit.program.outside({kind, unit.name_of_function(function), unit.place(at)})};
  };
  const auto* const method = dyn_cast<CXXMethodDecl>(function);
  if (method != nullptr && method->isVirtual() && !is_final(method)) return outside(Kind::kVirtual);
  if (is_replaceable(function)) return outside(Kind::kIndirect);
  // Clang gives it an empty body.
  if (method != nullptr && method->isLambdaStaticInvoker())
    return {Target::kFunction, invoker_of(unit, method->getParent())};
  const FunctionDecl* definition = nullptr;
  if (function->hasBody(definition)) unit.require(definition);
  return {Target::kFunction, unit.program.function(unit.key_of(function))};
}

}  // namespace perdura::source
