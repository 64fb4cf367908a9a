#include "extract.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/Mangle.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Basic/Builtins.h>
#include <clang/Basic/SourceManager.h>

#include <map>
#include <set>
#include <utility>

#include "constants.hpp"
#include "keys.hpp"
#include "lower.hpp"

namespace perdura::source {
namespace {

using namespace clang;

class Finder : public RecursiveASTVisitor<Finder> {
 public:
  Finder(Unit& unit, const Judged& judged) : unit_(unit), judged_(judged) {}

  bool shouldVisitTemplateInstantiations() const { return true; }

  bool TraverseDecl(Decl* decl) {
    // What system headers have is taken from there when somebody calls it.
    if (decl != nullptr && !isa<TranslationUnitDecl>(decl) &&
        decl->getLexicalDeclContext()->isFileContext() && !isa<NamespaceDecl>(decl) &&
        unit_.is_in_system_header(decl->getLocation()) && !is_methods(decl))
      return true;
    return RecursiveASTVisitor::TraverseDecl(decl);
  }

  bool VisitFunctionDecl(FunctionDecl* function) {
    if (function->doesThisDeclarationHaveABody() && !function->isDependentContext()) {
      unit_.require(function);
      if (judged_.all_functions && !isa<CXXMethodDecl>(function)) add_function(function);
    }
    return true;
  }

  bool VisitVarDecl(VarDecl* variable) {
    // Of a unit that only declares it.
    if (variable->hasGlobalStorage() && variable->isExternallyVisible() &&
        !variable->getDeclContext()->isDependentContext() &&
        !variable->getType()->isDependentType() &&
        variable->isThisDeclarationADefinition() != VarDecl::DeclarationOnly &&
        is_constant(variable, unit_.context()))
      constant_of(unit_, variable);
    return true;
  }

  bool VisitCXXRecordDecl(CXXRecordDecl* record) {
    if (!record->isThisDeclarationADefinition() || record->isLambda()) return true;
    const bool of_memory = derives_from_pobase(record);
    if (record->isDependentContext()) {
      const ClassTemplateDecl* const of = record->getDescribedClassTemplate();
      if (!of_memory || of == nullptr || of->spec_begin() != of->spec_end()) return true;
    }
    if (of_memory || judged_.classes.contains(record->getQualifiedNameAsString()))
      add_methods(record, record, of_memory, {});
    return true;
  }

  bool VisitClassTemplateSpecializationDecl(ClassTemplateSpecializationDecl* special) {
    if (!is_methods(special) || !special->isThisDeclarationADefinition()) return true;
    const CXXRecordDecl* const state =
        special->getTemplateArgs()[0].getAsType()->getAsCXXRecordDecl();
    if (state == nullptr || !state->hasDefinition()) return true;
    std::map<const CXXMethodDecl*, Verdict> said;
    for (const CXXBaseSpecifier& base : special->bases()) {
      const auto* const list =
          dyn_cast_or_null<ClassTemplateSpecializationDecl>(base.getType()->getAsCXXRecordDecl());
      if (list == nullptr) continue;
      for (const TemplateArgument& each : list->getTemplateArgs().asArray()) {
        if (each.getKind() == TemplateArgument::Pack) {
          for (const TemplateArgument& line : each.pack_elements()) add_line(line, said);
        } else {
          add_line(each, said);
        }
      }
    }
    std::set<const CXXRecordDecl*> seen;
    add_methods_and_bases(state->getDefinition(), state->getDefinition(), said, seen,
                          unit_.place(special->getLocation()));
    return true;
  }

 private:
  static bool is_methods(const Decl* decl) {
    const auto* const special = dyn_cast<ClassTemplateSpecializationDecl>(decl);
    return special != nullptr && special->getName() == "Methods" &&
           special->getQualifiedNameAsString() == "perdura::Methods";
  }

  static void add_line(const TemplateArgument& line,
                       std::map<const CXXMethodDecl*, Verdict>& said) {
    if (line.getKind() != TemplateArgument::Type) return;
    const auto* const kind =
        dyn_cast_or_null<ClassTemplateSpecializationDecl>(line.getAsType()->getAsCXXRecordDecl());
    if (kind == nullptr || kind->getTemplateArgs().size() == 0) return;
    const TemplateArgument& method = kind->getTemplateArgs()[0];
    if (method.getKind() != TemplateArgument::Declaration) return;
    const auto* const decl = dyn_cast<CXXMethodDecl>(method.getAsDecl());
    if (decl == nullptr) return;
    if (kind->getName() == "Deferrable") said[decl->getCanonicalDecl()] = Verdict::kDeferrable;
    if (kind->getName() == "Instant") said[decl->getCanonicalDecl()] = Verdict::kInstant;
  }

  void add_methods_and_bases(const CXXRecordDecl* record, const CXXRecordDecl* owner,
                             const std::map<const CXXMethodDecl*, Verdict>& said,
                             std::set<const CXXRecordDecl*>& seen, Place said_at) {
    if (!seen.insert(record).second) return;
    add_methods(record, owner, false, said, said_at);
    for (const CXXBaseSpecifier& base : record->bases()) {
      const CXXRecordDecl* const of = base.getType()->getAsCXXRecordDecl();
      if (of != nullptr && of->hasDefinition())
        add_methods_and_bases(of->getDefinition(), owner, said, seen, said_at);
    }
  }

  void add_methods(const CXXRecordDecl* record, const CXXRecordDecl* owner, bool of_memory,
                   const std::map<const CXXMethodDecl*, Verdict>& said, Place said_at = {}) {
    const auto add = [&](const CXXMethodDecl* method) {
      const auto at = said.find(method->getCanonicalDecl());
      add_method(method, owner, of_memory, at == said.end() ? Verdict::kNothing : at->second,
                 said_at);
    };
    for (const Decl* each : record->decls()) {
      if (const auto* const method = dyn_cast<CXXMethodDecl>(each)) {
        add(method);
      } else if (const auto* const generic = dyn_cast<FunctionTemplateDecl>(each)) {
        bool instantiated = false;
        for (const FunctionDecl* instance : generic->specializations()) {
          if (const auto* const method = dyn_cast<CXXMethodDecl>(instance)) {
            add(method);
            instantiated = true;
          }
        }
        const auto* const method = dyn_cast<CXXMethodDecl>(generic->getTemplatedDecl());
        if (!instantiated && method != nullptr) add(method);
      }
    }
  }

  void add_method(const CXXMethodDecl* method, const CXXRecordDecl* owner, bool of_memory,
                  Verdict said, Place said_at) {
    if (method->isImplicit() || method->isStatic() || method->isDeleted() ||
        method->isDefaulted() || isa<CXXConstructorDecl, CXXDestructorDecl>(method))
      return;
    if (method->getAccess() != AS_public && !judged_.private_too && said == Verdict::kNothing)
      return;
    // What refactor has made of others.
    if (of_memory && method->getDeclName().isIdentifier() && method->getName().starts_with("simpo"))
      return;
    Method found = described(method);
    found.owner = unit_.name_of_type(owner);
    found.of_memory = of_memory;
    found.is_const = method->isConst();
    for (std::size_t i = 0; i < found.parameters.size(); ++i) {
      const QualType type = method->getParamDecl(static_cast<unsigned>(i))->getType();
      found.parameters[i].is_reference = type->isReferenceType();
      found.parameters[i].is_owned = type->isRValueReferenceType();
      found.parameters[i].is_copied =
          !of_memory && type->isReferenceType() &&
          (type->isRValueReferenceType() || type.getNonReferenceType().isConstQualified());
    }
    found.said = said;
    found.said_at = said_at;
    for (const FunctionDecl* each : method->redecls()) {
      for (const auto* attribute : each->specific_attrs<AnnotateAttr>()) {
        const bool deferrable = attribute->getAnnotation() == "perdura::deferrable";
        if (!deferrable && attribute->getAnnotation() != "perdura::instant") continue;
        found.said = deferrable ? Verdict::kDeferrable : Verdict::kInstant;
        found.said_at = unit_.place(attribute->getLocation());
      }
    }
    unit_.program.methods.emplace(found.key, std::move(found));
  }

  void add_function(const FunctionDecl* function) {
    Method found = described(function);
    unit_.program.methods.emplace(found.key, std::move(found));
  }

  Method described(const FunctionDecl* function) {
    Method found;
    found.key = unit_.key_of(function);
    found.name = function->getNameAsString();
    found.signature = unit_.signature_of(function);
    const FunctionDecl* definition = nullptr;
    found.has_body = function->hasBody(definition) && !function->isDependentContext();
    found.place = unit_.place((found.has_body ? definition : function)->getLocation());
    for (const FunctionDecl* each : function->redecls())
      if (const Place place = unit_.place(each->getLocation()); place != found.place)
        found.other_places.push_back(place);
    found.returns = !function->getReturnType()->isVoidType();
    found.is_variadic = function->isVariadic();
    found.answers_address = holds_pointers(function->getReturnType());
    for (const ParmVarDecl* each : function->parameters())
      found.parameters.push_back(
          {.type = each->getType().getAsString(unit_.policy()), .name = each->getNameAsString()});
    if (found.has_body) unit_.require(function);
    return found;
  }

  Unit& unit_;
  const Judged& judged_;
};

}  // namespace

Program extract(ASTContext& context, const Judged& judged) {
  Unit unit(context);
  Finder(unit, judged).TraverseDecl(context.getTranslationUnitDecl());
  lower_required(unit);
  return std::move(unit.program);
}

}  // namespace perdura::source
