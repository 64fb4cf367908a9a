// perdura refactor --methods: states of perdura::Objects get their perdura::Methods, which say what
// each method is; and these become noexcept.
#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RecursiveASTVisitor.h>

#include <algorithm>
#include <mutex>

#include "refactor_places.hpp"

namespace perdura::source {
namespace {

using namespace clang;

struct StateMethod {
  std::string name;
  Spot at;
  Spot defined;
  std::vector<Spot> without_noexcept;  ///< where it would be said
  std::vector<Refusal> refusals;
};

struct State {
  std::string name;
  Spot at;
  Spot behind;               ///< it, and the namespaces that it is in
  bool is_known = false;     ///< perdura::Methods is there
  bool has_methods = false;  ///< a specialisation for it
  bool has_attributes = false;
  std::vector<Refusal> refusals;
  std::map<std::string, StateMethod> methods;  ///< by place
};
using States = std::map<std::string, State>;

class StateFinder : public RecursiveASTVisitor<StateFinder> {
 public:
  explicit StateFinder(ASTContext& context) : places_(context) {}

  bool TraverseDecl(Decl* decl) {
    if (decl != nullptr && !isa<TranslationUnitDecl>(decl) && !isa<NamespaceDecl>(decl) &&
        places_.is_system(decl->getLocation()))
      return true;
    return RecursiveASTVisitor::TraverseDecl(decl);
  }

  bool VisitClassTemplateDecl(ClassTemplateDecl* generic) {
    is_known_ |= generic->getQualifiedNameAsString() == "perdura::Methods";
    return true;
  }
  bool VisitClassTemplateSpecializationDecl(ClassTemplateSpecializationDecl* special) {
    if (special->getQualifiedNameAsString() != "perdura::Methods") return true;
    is_known_ = true;
    if (const CXXRecordDecl* const state =
            special->getTemplateArgs()[0].getAsType()->getAsCXXRecordDecl())
      specialised_.insert(key_of(state));
    return true;
  }

  bool VisitCXXRecordDecl(CXXRecordDecl* record) {
    if (!record->isThisDeclarationADefinition() || record->isImplicit() ||
        record->getIdentifier() == nullptr || record->isLambda() ||
        isa<ClassTemplateSpecializationDecl>(record) || is_persistent_class(record))
      return true;
    State found;
    found.name = record->getQualifiedNameAsString();
    found.at = places_.spot(record->getLocation());
    found.behind = behind(record);
    const auto refuse = [&](const std::string& why) {
      found.refusals.push_back({found.at, found.name + ": " + why});
    };
    if (record->isDependentContext())
      refuse("a template is no state: write perdura::Methods of each of its instances");
    else if (!places_.context().getRecordType(record).isTriviallyCopyableType(places_.context()))
      refuse(
          "is not trivially copyable, and a state is copied as it lies: keep numbers and fixed "
          "arrays in it");
    if (record->isInAnonymousNamespace() || record->isLocalClass() != nullptr)
      refuse("has no name that a later build knows: put it into a namespace that has one");
    if (record->getAccess() == AS_private || record->getAccess() == AS_protected)
      refuse("is private in its class: make it public");
    for (const Decl* each : record->decls()) {
      const auto* const method = dyn_cast<CXXMethodDecl>(each);
      if (method != nullptr && !method->isImplicit() && !method->isStatic() &&
          !isa<CXXConstructorDecl, CXXDestructorDecl>(method) && !method->isDefaulted() &&
          !method->isDeleted())
        add_method(found, record, method);
    }
    states.emplace(key_of(record), std::move(found));
    return true;
  }

  States finish() {
    for (auto& [key, state] : states) {
      state.is_known = is_known_;
      state.has_methods = specialised_.contains(key);
    }
    return std::move(states);
  }

 private:
  std::string key_of(const CXXRecordDecl* record) const {
    const CXXRecordDecl* const definition = record->getDefinition();
    const Spot at = places_.spot((definition != nullptr ? definition : record)->getLocation());
    return at.file + ":" + std::to_string(at.offset);
  }

  Spot behind(const CXXRecordDecl* record) const {
    const Decl* outermost = record;
    while (const DeclContext* const above = outermost->getLexicalDeclContext()) {
      if (isa<TranslationUnitDecl>(above)) break;
      outermost = Decl::castFromDeclContext(above);
    }
    Spot at = places_.spot(outermost->getEndLoc());
    const StringRef text = places_.text(outermost->getEndLoc());
    ++at.offset;
    if (isa<CXXRecordDecl>(outermost))
      for (const Token& each :
           places_.tokens(outermost->getEndLoc(), at.offset, static_cast<unsigned>(text.size())))
        if (each.text == ";") {
          at.offset = each.end;
          break;
        }
    const StringRef rest = text.substr(at.offset).take_until([](char c) { return c == '\n'; });
    if (rest.trim().empty() || rest.trim().starts_with("//"))
      at.offset += static_cast<unsigned>(rest.size());
    return at;
  }

  void add_method(State& state, const CXXRecordDecl* record, const CXXMethodDecl* method) {
    StateMethod found;
    found.name = method->getNameAsString();
    found.at = places_.spot(method->getLocation());
    found.defined = found.at;
    const auto refuse = [&](const Spot& at, const std::string& why) {
      found.refusals.push_back({at, state.name + "::" + found.name + ": " + why});
    };
    for (const FunctionDecl* each : method->redecls()) {
      if (each->doesThisDeclarationHaveABody()) found.defined = places_.spot(each->getLocation());
      for (const auto* attribute : each->specific_attrs<AnnotateAttr>())
        state.has_attributes |= attribute->getAnnotation().starts_with("perdura::");
      add_noexcept(found, each);
    }
    std::size_t same = 0;
    for (const NamedDecl* each : record->lookup(method->getDeclName()))
      same += isa<CXXMethodDecl, FunctionTemplateDecl>(each);
    if (same > 1)
      refuse(found.at,
             "there are several of this name, and Methods names one: give them different "
             "names");
    for (const ParmVarDecl* each : method->parameters()) {
      const QualType type = each->getOriginalType();
      const bool is_copied =
          type->isReferenceType() &&
          (type->isRValueReferenceType() || type.getNonReferenceType().isConstQualified());
      const std::string why = places_.why_not_logged(type->isArrayType() ? each->getType() : type,
                                                     each->getNameAsString(), is_copied);
      if (!why.empty()) refuse(places_.spot(each->getLocation()), why);
    }
    state.methods.emplace(found.at.text(), std::move(found));
  }

  void add_noexcept(StateMethod& found, const FunctionDecl* decl) const {
    const auto* const type = decl->getType()->getAs<FunctionProtoType>();
    const FunctionTypeLoc written = decl->getFunctionTypeLoc();
    if (type == nullptr || written.isNull() || type->hasExceptionSpec()) return;
    const auto close = places_.range(written.getRParenLoc());
    if (!close) return;
    Spot at = places_.spot(written.getRParenLoc());
    at.offset = close->second;
    for (const Token& each :
         places_.tokens(written.getRParenLoc(), at.offset,
                        static_cast<unsigned>(places_.text(written.getRParenLoc()).size()))) {
      if (each.text != "const" && each.text != "&" && each.text != "&&") break;
      at.offset = each.end;
    }
    found.without_noexcept.push_back(at);
  }

  States states;
  Places places_;
  bool is_known_ = false;
  std::set<std::string> specialised_;
};

void join(States& all, States&& unit) {
  for (auto& [key, each] : unit) {
    const auto [at, is_new] = all.try_emplace(key, each);
    if (is_new) continue;
    at->second.has_methods |= each.has_methods;
    at->second.is_known &= each.is_known;
    for (auto& [place, method] : each.methods) {
      StateMethod& known = at->second.methods[place];
      if (known.defined == known.at) known.defined = method.defined;
      for (const Spot& missing : method.without_noexcept)
        if (std::ranges::find(known.without_noexcept, missing) == known.without_noexcept.end())
          known.without_noexcept.push_back(missing);
    }
  }
}

void refuse(Refactored& result, const std::vector<Refusal>& refusals) {
  for (const Refusal& each : refusals) result.refusals.push_back(each.at.text() + ": " + each.text);
}

/// The lines of one state.
void write_state(const State& state, const std::map<std::string, const Classified*>& verdicts,
                 const Program& program, std::map<std::string, Edits>& edits, Refactored& result) {
  refuse(result, state.refusals);
  std::string lines;
  std::vector<const StateMethod*> in_order;
  for (const auto& [place, each] : state.methods) in_order.push_back(&each);
  std::ranges::sort(in_order, {}, [](const StateMethod* each) { return each->at; });
  for (const StateMethod* each : in_order) {
    auto at = verdicts.find(each->defined.text());
    if (at == verdicts.end()) at = verdicts.find(each->at.text());
    if (at == verdicts.end()) continue;
    const Method& method = at->second->method;
    const Judgement& judgement = at->second->judgement;
    const Verdict verdict = method.said != Verdict::kNothing ? method.said : judgement.verdict;
    if (verdict != Verdict::kDeferrable && verdict != Verdict::kInstant) continue;
    refuse(result, each->refusals);
    for (const Reason& reason : judgement.reasons)
      if (reason.kind == Kind::kThrows)
        result.refusals.push_back(text_of(program, reason.at) + ": " + method.signature + ": " +
                                  sentence(reason) +
                                  ", and nobody would catch that: " + remedy(reason.kind));
    lines += std::string(lines.empty() ? "" : ", ") +
             "perdura::" + (verdict == Verdict::kDeferrable ? "Deferrable<&" : "Instant<&") +
             state.name + "::" + each->name + ">";
    for (const Spot& missing : each->without_noexcept)
      edits[missing.file].push_back({missing.offset, missing.offset, " noexcept"});
    result.done.push_back(
        {state.name, method.signature, each->name, "", "", name_of(verdict), each->at});
  }
  if (lines.empty()) return;
  Edits& there = edits[state.behind.file];
  there.push_back({state.behind.offset, state.behind.offset,
                   "\n\ntemplate <>\nstruct perdura::Methods<" + state.name +
                       "> : perdura::MethodList<" + lines + "> {};"});
  if (state.is_known) return;
  const std::string text = text_of_file(state.behind.file, result.wrong);
  if (text.find("#include <perdura/objects.hpp>") != text.npos) return;
  const unsigned behind = behind_includes(text, state.behind.offset);
  const Edit include{behind, behind, "\n#include <perdura/objects.hpp>\n"};
  if (std::ranges::find(there, include) == there.end()) there.push_back(include);
}

}  // namespace

Refactored write_methods(const Sources& sources, const std::vector<std::string>& classes) {
  Refactored result;
  States states;
  Directives directives;
  std::mutex mutex;
  result.wrong = parse(sources, directives, [&](ASTContext& context, std::size_t) {
    StateFinder finder(context);
    finder.TraverseDecl(context.getTranslationUnitDecl());
    States unit = finder.finish();
    const std::lock_guard lock(mutex);
    join(states, std::move(unit));
  });
  Judged judged;
  std::set<std::string> missing(classes.begin(), classes.end());
  std::vector<const State*> wanted;
  for (const auto& [key, state] : states) {
    const bool is_named = std::ranges::find(classes, state.name) != classes.end();
    missing.erase(state.name);
    if (state.has_methods || (!is_named && !(classes.empty() && state.has_attributes))) continue;
    judged.classes.insert(state.name);
    wanted.push_back(&state);
  }
  if (!result.wrong.empty()) return result;
  for (const std::string& each : missing)
    result.wrong.push_back("there is no class " + each + " in these sources, without POBase");
  const Classification found = classify(sources, judged);
  result.wrong.insert(result.wrong.end(), found.wrong.begin(), found.wrong.end());
  if (!result.wrong.empty()) return result;
  result.refusals = found.objections;
  std::map<std::string, const Classified*> verdicts;
  for (const Classified& each : found.methods)
    verdicts.emplace(text_of(found.program, each.method.place), &each);
  std::map<std::string, Edits> edits;
  for (const State* each : wanted) write_state(*each, verdicts, found.program, edits, result);
  std::ranges::sort(result.refusals);
  make(edits, result);
  return result;
}

}  // namespace perdura::source
