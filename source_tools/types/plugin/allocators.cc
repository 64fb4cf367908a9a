#include "allocators.hpp"

#include <vector>

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>

#include "records.hpp"

namespace perdura::types {

using namespace clang;

namespace {

std::string listed_name(const FunctionDecl* function) {
  return function->isExternC() ? function->getName().str() : function->getQualifiedNameAsString();
}

bool is_integer(const FunctionDecl* function, int i) {
  return i < static_cast<int>(function->getNumParams()) &&
         function->getParamDecl(static_cast<unsigned>(i))->getType()->isIntegerType();
}

}  // namespace

bool Allocators::has(const FunctionDecl* function) const {
  if (function->getIdentifier() == nullptr) return false;
  for (const FunctionDecl* each : function->redecls())
    if (has_annotation(each, "perdura_allocator")) return true;
  return is_listed(function);
}

bool Allocators::is_listed(const FunctionDecl* function) const {
  return !settings_.allocators.empty() && settings_.allocators.count(listed_name(function)) != 0;
}

int Allocators::size_argument(const FunctionDecl* function) {
  const auto [known, is_new] = size_arguments_.emplace(function->getCanonicalDecl(), -1);
  if (is_new) known->second = find_size_argument(function);
  return known->second;
}

int Allocators::find_size_argument(const FunctionDecl* function) {
  const std::string name = "'" + function->getNameAsString() + "'";
  if (!function->getReturnType()->isPointerType()) {
    messages_.list(function->getLocation(), name +
                                                " is named an allocator and returns no pointer: "
                                                "each word of what it gives out may be one");
    return -1;
  }
  for (const FunctionDecl* each : function->redecls())
    if (const auto* sized = each->getAttr<AllocSizeAttr>())
      return static_cast<int>(sized->getElemSizeParam().getASTIndex());
  if (is_listed(function)) {
    const int listed = settings_.allocators.at(listed_name(function));
    if (listed >= 0 && !is_integer(function, listed)) {
      messages_.refuse(function->getLocation(),
                       name + " has no integer as its argument " + std::to_string(listed) +
                           ", which the file of allocators says is its size; the "
                           "first one is 0");
      return -1;
    }
    if (listed >= 0) return listed;
  }
  return likely_size_argument(function, name);
}

int Allocators::likely_size_argument(const FunctionDecl* function, const std::string& name) {
  std::vector<int> sizes;
  std::vector<int> integers;
  for (int i = 0; i < static_cast<int>(function->getNumParams()); ++i) {
    if (!is_integer(function, i)) continue;
    integers.push_back(i);
    const QualType type = function->getParamDecl(static_cast<unsigned>(i))->getType();
    if (context_.hasSameUnqualifiedType(type, context_.getSizeType())) sizes.push_back(i);
  }
  if (sizes.size() == 1) return sizes[0];
  if (integers.size() > 1)
    messages_.list(function->getLocation(),
                   "several arguments of " + name + " may be its size: taken is " +
                       std::to_string(integers[0]) +
                       ", where the first one is 0; say __attribute__((alloc_size(…)))");
  return integers.empty() ? -1 : integers[0];
}

bool Allocators::can_be_tagged(const CallExpr* call, const FunctionDecl* callee) {
  const auto* const method = dyn_cast<CXXMethodDecl>(callee);
  if (isa<CXXMemberCallExpr>(call) || (method != nullptr && method->isInstance())) return false;
  return llvm::all_of(callee->parameters(), [](const ParmVarDecl* parameter) {
    const QualType type = parameter->getType();
    return type->isReferenceType() ||
           (type->isScalarType() && !type->isMemberFunctionPointerType());
  });
}

}  // namespace perdura::types
