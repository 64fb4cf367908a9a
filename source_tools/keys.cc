#include "keys.hpp"

#include <set>

#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/Basic/SourceManager.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/raw_ostream.h>

namespace perdura::source {

using namespace clang;

bool is_pobase(const CXXRecordDecl* record) {
  return record->getIdentifier() != nullptr && record->getName() == "POBase" &&
         record->getDeclContext()->getRedeclContext()->isTranslationUnit();
}

bool derives_from_pobase(const CXXRecordDecl* record) {
  if (record == nullptr || !record->hasDefinition()) return false;
  for (const CXXBaseSpecifier& base : record->bases()) {
    const CXXRecordDecl* const of = base.getType()->getAsCXXRecordDecl();
    if (of != nullptr && (is_pobase(of) || derives_from_pobase(of))) return true;
  }
  return false;
}

bool is_final(const CXXMethodDecl* method) {
  return method->hasAttr<FinalAttr>() || method->getParent()->isEffectivelyFinal();
}

bool is_replaceable(const FunctionDecl* function) {
  for (const FunctionDecl* each : function->redecls())
    if (each->hasAttr<WeakAttr>() || each->hasAttr<GNUInlineAttr>() || each->isMultiVersion() ||
        each->hasAttr<IFuncAttr>() || each->hasAttr<AliasAttr>())
      return true;
  return false;
}

Unit::Unit(ASTContext& context)
    : context_(context), names_(context), policy_(context.getPrintingPolicy()) {
  policy_.SuppressTagKeyword = true;
  policy_.Bool = true;
}

std::string Unit::file_of(SourceLocation location) const {
  const SourceManager& sources = context_.getSourceManager();
  const OptionalFileEntryRef file =
      sources.getFileEntryRefForID(sources.getFileID(sources.getExpansionLoc(location)));
  if (!file) return "";
  const StringRef real = file->getFileEntry().tryGetRealPathName();
  return (real.empty() ? file->getName() : real).str();
}

std::string Unit::key_of(const FunctionDecl* function) {
  function = function->getCanonicalDecl();
  const auto at = keys_.find(function);
  if (at != keys_.end()) return at->second;
  std::string key;
  if (const auto* const destructor = dyn_cast<CXXDestructorDecl>(function))
    key = names_.getName(destructor) + "~";
  else key = names_.getName(function);
  // What cannot be mangled has an address in this unit alone.
  if (key.empty() || function->isDependentContext())
    key += "#" + std::to_string(reinterpret_cast<std::uintptr_t>(function));
  if (!function->isExternallyVisible() || key.find('#') != std::string::npos) {
    const FunctionDecl* const definition = function->getDefinition();
    key = file_of((definition != nullptr ? definition : function)->getLocation()) + ":" + key;
  }
  return keys_[function] = key;
}

std::string Unit::key_of(const VarDecl* variable) {
  variable = variable->getCanonicalDecl();
  const auto at = keys_.find(variable);
  if (at != keys_.end()) return at->second;
  std::string key = names_.getName(variable);
  if (!variable->isExternallyVisible())
    key = file_of(variable->getLocation()) + ":" +
          std::to_string(context_.getSourceManager().getFileOffset(
              context_.getSourceManager().getExpansionLoc(variable->getLocation()))) +
          ":" + key;
  // Several functions may come of one expansion, with one of the name each.
  if (const auto* const of = dyn_cast_or_null<FunctionDecl>(variable->getParentFunctionOrMethod()))
    key += " of " + key_of(of);
  return keys_[variable] = key;
}

std::string Unit::key_of(const TemplateParamObjectDecl* argument) {
  std::string key = "argument " + argument->getType().getCanonicalType().getAsString(policy_);
  llvm::raw_string_ostream stream(key);
  argument->printAsInit(stream, policy_);
  return key;
}

std::string Unit::name_of_function(const FunctionDecl* function) const {
  if (const auto* const method = dyn_cast<CXXMethodDecl>(function))
    if (method->getParent()->isLambda()) return "a lambda";
  std::string name;
  llvm::raw_string_ostream stream(name);
  function->getNameForDiagnostic(stream, policy_, true);
  return name;
}

std::string Unit::name_of_type(const TagDecl* type) const {
  return context_.getTypeDeclType(type).getAsString(policy_);
}

std::string Unit::signature_of(const FunctionDecl* function) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  function->getNameForDiagnostic(stream, policy_, true);
  stream << '(';
  for (unsigned i = 0; i < function->getNumParams(); ++i)
    stream << (i == 0 ? "" : ", ") << function->getParamDecl(i)->getType().getAsString(policy_);
  if (function->isVariadic()) stream << (function->getNumParams() == 0 ? "..." : ", ...");
  stream << ')';
  if (const auto* const method = dyn_cast<CXXMethodDecl>(function))
    stream << (method->isConst() ? " const" : "") << (method->isVolatile() ? " volatile" : "")
           << (method->getRefQualifier() == RQ_LValue   ? " &"
               : method->getRefQualifier() == RQ_RValue ? " &&"
                                                        : "");
  // What tells those apart of one class template's that have it.
  if (const Expr* const required = function->getTrailingRequiresClause()) {
    stream << " requires ";
    required->printPretty(stream, nullptr, policy_);
  }
  return text;
}

Place Unit::place(SourceLocation location) {
  const SourceManager& sources = context_.getSourceManager();
  if (location.isInvalid()) return {};
  const auto [file, offset] = sources.getDecomposedExpansionLoc(location);
  const auto [at, is_new] = files_.emplace(file.getHashValue(), kNone);
  if (is_new) {
    const std::string path = file_of(location);
    if (!path.empty())
      at->second = program.file(path, sources.isInSystemHeader(sources.getExpansionLoc(location)));
  }
  if (at->second == kNone) return {};
  return {at->second, sources.getLineNumber(file, offset), sources.getColumnNumber(file, offset)};
}

bool Unit::is_in_system_header(SourceLocation location) const {
  const SourceManager& sources = context_.getSourceManager();
  return sources.isInSystemHeader(sources.getExpansionLoc(location));
}

bool Unit::is_in_header_of_c(SourceLocation location) const {
  static const std::set<StringRef> kHeaders = {
      "alloca.h",   "assert.h", "complex.h", "ctype.h", "errno.h",  "fenv.h",   "in.h",
      "inttypes.h", "locale.h", "malloc.h",  "math.h",  "setjmp.h", "signal.h", "stdio.h",
      "stdlib.h",   "string.h", "strings.h", "time.h",  "unistd.h", "wchar.h",  "wctype.h"};
  const SourceManager& sources = context_.getSourceManager();
  const StringRef file = sources.getFilename(sources.getExpansionLoc(location));
  const auto [folder, name] = file.rsplit('/');
  return is_in_system_header(location) && (kHeaders.contains(name) || folder.ends_with("/bits"));
}

void Unit::require(const FunctionDecl* function) {
  if (known_.insert(key_of(function)).second) required_.push_back(function);
}

const FunctionDecl* Unit::next_required() {
  if (required_.empty()) return nullptr;
  const FunctionDecl* const next = required_.front();
  required_.pop_front();
  return next;
}

}  // namespace perdura::source
