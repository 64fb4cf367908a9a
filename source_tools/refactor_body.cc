// What the braces of a method have, as far as it changes where the method becomes a static function
// of the object's memory and a context: uses of the object, of arguments, and calls.
#include <clang/AST/CXXInheritance.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>

#include "keys.hpp"
#include "refactor_places.hpp"

namespace perdura::source {

using namespace clang;

const Expr* object_of(const Expr* expression) {
  while (true) {
    expression = expression->IgnoreParenImpCasts();
    const auto* const unary = dyn_cast<UnaryOperator>(expression);
    if (unary == nullptr || unary->getOpcode() != UO_Deref) return expression;
    expression = unary->getSubExpr();
  }
}

namespace {

class Visitor : public RecursiveASTVisitor<Visitor> {
 public:
  Visitor(const Places& places, const FunctionDecl* function, Body& body)
      : places_(places), function_(function), body_(body) {
    if (const auto* const method = dyn_cast<CXXMethodDecl>(function))
      class_ = method->getParent()->getCanonicalDecl();
  }

  bool TraverseStmt(Stmt* statement) {
    if (statement == nullptr) return true;
    above_.push_back(statement);
    const bool result = RecursiveASTVisitor::TraverseStmt(statement);
    above_.pop_back();
    return result;
  }
  bool TraverseNestedNameSpecifierLoc(NestedNameSpecifierLoc name) {
    if (name) see(name.getLocalBeginLoc());
    return RecursiveASTVisitor::TraverseNestedNameSpecifierLoc(name);
  }
  bool VisitTypeLoc(TypeLoc type) {
    see(type.getBeginLoc());
    if (const IdentifierInfo* const name = type.getType().getBaseTypeIdentifier())
      body_.words.insert(name->getName().str());
    return true;
  }

  bool VisitLambdaExpr(LambdaExpr* lambda) {
    std::size_t i = 0;
    for (const Expr* each : lambda->capture_inits()) {
      const LambdaCapture& capture = *(lambda->capture_begin() + i++);
      if (capture.isExplicit()) see(capture.getLocation());
      if (capture.capturesThis()) {
        if (each != nullptr) known_.insert(each->IgnoreParenImpCasts());
        if (!capture.isExplicit()) continue;  // what is in its braces says what it needs
        if (capture.getCaptureKind() == LCK_StarThis || lambda->getCaptureDefault() == LCD_ByCopy) {
          refuse(capture.getLocation(),
                 "a lambda captures the object: write [&], or hand over what it needs");
        } else {
          add_capture(lambda, capture.getLocation());
        }
      } else if (capture.isExplicit() && capture.capturesVariable()) {
        if (lambda->isInitCapture(&capture)) check_name(capture.getCapturedVar());
        add_use(capture.getLocation(), capture.getCapturedVar(), true);
      }
    }
    if (const FunctionTemplateDecl* const generic =
            lambda->getLambdaClass()->getDependentLambdaCallOperator())
      for (const FunctionDecl* each : generic->specializations())
        for (const ParmVarDecl* parameter : each->parameters())
          converts_to_anything_ |= has_conversion_template(parameter->getType());
    return true;
  }
  bool TraverseDecltypeTypeLoc(DecltypeTypeLoc type) {
    ++decltypes_;
    const bool result = RecursiveASTVisitor::TraverseDecltypeTypeLoc(type);
    --decltypes_;
    return result;
  }

  bool VisitMemberExpr(MemberExpr* member) {
    see(member->getMemberLoc());
    const ValueDecl* const decl = member->getMemberDecl();
    const Expr* const base = object_of(member->getBase());
    const auto* const method = dyn_cast<CXXMethodDecl>(decl);
    if (!isa<CXXThisExpr>(base)) {
      if (method != nullptr && !method->isStatic() && is_of_objects(method->getParent()))
        refuse(member->getMemberLoc(), "calls " + method->getNameAsString() + kNoOtherObject);
      if (is_field_of_pobase(decl))
        refuse(member->getMemberLoc(),
               "uses the memory of another object: hand over what is there as an argument");
      return true;
    }
    if (is_of_local_class(cast<CXXThisExpr>(base))) return true;
    known_.insert(base);
    if (is_field_of_pobase(decl)) {
      body_.uses_root = true;
      if (is_evaluated()) body_.roots.push_back(places_.spot(member->getMemberLoc()).offset);
      if (!is_read(member))
        refuse(
            member->getMemberLoc(),
            "changes poroot, which is the library's, or hands it on by its address: keep another "
            "pointer, or an index");
      if (!member->isImplicitAccess() || member->hasQualifier())
        erase(member->getBeginLoc(), member->getMemberLoc());
    } else if (method != nullptr && !method->isStatic()) {
      inner_call(member, method);
    } else if (isa<FieldDecl>(decl)) {
      refuse(member->getMemberLoc(), "uses the member " + decl->getNameAsString() +
                                         ", which is not in the memory at poroot: keep it there");
    } else if (!member->isImplicitAccess()) {
      if (member->hasQualifier())
        erase(member->getBeginLoc(), member->getQualifierLoc().getBeginLoc());
      else of_class_.push_back(member);
    }
    return true;
  }

  bool VisitUnresolvedMemberExpr(UnresolvedMemberExpr* member) {
    body_.unresolved.push_back(
        {member->getMemberName().getAsString(), places_.spot(member->getMemberLoc())});
    refuse(member->getMemberLoc(),
           "which " + member->getMemberName().getAsString() +
               " is called depends on the arguments of the template: give the methods different "
               "names");
    return true;
  }
  bool VisitCXXDependentScopeMemberExpr(CXXDependentScopeMemberExpr* member) {
    if (!member->isImplicitAccess() && !isa<CXXThisExpr>(object_of(member->getBase()))) return true;
    refuse(member->getMemberLoc(), "what " + member->getMember().getAsString() +
                                       " is depends on the arguments of the template: let the "
                                       "class derive from POBase alone");
    return true;
  }

  bool VisitCXXThisExpr(CXXThisExpr* expression) {
    if (!expression->isImplicit()) see(expression->getLocation());
    if (!is_of_local_class(expression) && !known_.contains(expression))
      refuse(expression->getBeginLoc(),
             "uses the object itself (this): a persistent function has the memory at poroot alone");
    return true;
  }

  bool VisitDeclRefExpr(DeclRefExpr* use) {
    see(use->getLocation());
    body_.words.insert(use->getNameInfo().getAsString());
    if (const auto* const method = dyn_cast<CXXMethodDecl>(use->getDecl());
        method != nullptr && !method->isStatic() && is_of_objects(method->getParent()))
      refuse(use->getLocation(), "takes the address of the method " + method->getNameAsString() +
                                     ", which is one no more: call it by its name");
    add_use(use->getLocation(), use->getDecl(), changes(use));
    return true;
  }

  bool VisitOverloadExpr(OverloadExpr* use) {
    see(use->getNameLoc());
    body_.words.insert(use->getName().getAsString());
    return true;
  }
  bool VisitOffsetOfExpr(OffsetOfExpr* offset) {
    for (unsigned i = 0; i < offset->getNumComponents(); ++i)
      see(offset->getComponent(i).getEndLoc());
    return true;
  }
  bool VisitLabelStmt(LabelStmt* label) {
    see(label->getIdentLoc());
    return true;
  }
  bool VisitGotoStmt(GotoStmt* jump) {
    see(jump->getLabelLoc());
    return true;
  }
  bool VisitAddrLabelExpr(AddrLabelExpr* address) {
    see(address->getLabelLoc());
    return true;
  }

  bool VisitPredefinedExpr(PredefinedExpr* name) {
    // assert() says where it is, and that may change.
    const SourceManager& sources = places_.context().getSourceManager();
    if (sources.isInSystemMacro(name->getLocation())) return true;
    const bool is_plain = name->getIdentKind() == PredefinedIdentKind::Func ||
                          name->getIdentKind() == PredefinedIdentKind::Function;
    (is_plain ? body_.refusals_if_renamed : body_.refusals)
        .push_back({places_.spot(name->getLocation()),
                    PredefinedExpr::getIdentKindName(name->getIdentKind()).str() +
                        " is another text in a function with a context: write the text"});
    return true;
  }
  bool VisitCXXDefaultArgExpr(CXXDefaultArgExpr* argument) {
    const auto* const place =
        dyn_cast<SourceLocExpr>(argument->getExpr()->IgnoreUnlessSpelledInSource());
    if (place == nullptr) return true;
    if (place->getIdentKind() == SourceLocIdentKind::Function ||
        place->getIdentKind() == SourceLocIdentKind::FuncSig ||
        place->getIdentKind() == SourceLocIdentKind::SourceLocStruct)
      refuse(argument->getUsedLocation(),
             "asks for the place of a call, which has another name in a function with a context: "
             "write the text");
    return true;
  }

  bool VisitNamedDecl(NamedDecl* named) {
    see(named->getLocation());
    body_.locals.insert(named->getNameAsString());
    return true;
  }
  bool VisitVarDecl(VarDecl* variable) {
    check_name(variable);
    return true;
  }
  bool VisitBindingDecl(BindingDecl* binding) {
    check_name(binding);
    return true;
  }

  /// Static members of which `this->` goes. Behind a variable of the same name they are the
  /// class's.
  void name_static_members() {
    for (const MemberExpr* each : of_class_) {
      const std::size_t before = body_.edits.size();
      erase(each->getBeginLoc(), each->getMemberLoc());
      if (body_.edits.size() > before &&
          body_.locals.contains(each->getMemberDecl()->getNameAsString()))
        body_.edits.back().text += class_->getNameAsString() + "::";
    }
  }

  /// Names that would be changed and are in no expression: a macro leaves them out.
  void refuse_what_is_left_out(const std::vector<Token>& tokens, Spot first) {
    std::set<std::string> names = {"this", "poroot"};
    for (const ParmVarDecl* each : function_->parameters()) names.insert(each->getNameAsString());
    if (class_ != nullptr)
      for (const CXXMethodDecl* each : class_->getDefinition()->methods())
        if (!each->isStatic() && each->getDeclName().isIdentifier())
          names.insert(each->getNameAsString());
    const StringRef text = places_.text(function_->getLocation());
    std::string before;
    for (const Token& each : tokens) {
      const bool is_other = before == "." || before == "->" || before == "::";
      before = each.text;
      if (each.is_comment || is_other || !names.contains(each.text) || seen_.contains(each.begin))
        continue;
      Spot at = first;
      const StringRef lines = text.slice(first.offset, each.begin);
      at.line += static_cast<unsigned>(lines.count('\n'));
      at.column =
          static_cast<unsigned>(each.begin - (text.take_front(each.begin).rfind('\n') + 1)) + 1;
      body_.refusals.push_back({at, each.text +
                                        " is in what a macro leaves out (as assert does with "
                                        "NDEBUG), and could not be changed: compile it in"});
    }
  }

 private:
  static bool is_of_objects(const CXXRecordDecl* record) {
    return is_persistent_class(record) || is_pobase(record);
  }
  /// `this` of a class that is in the braces.
  bool is_of_local_class(const CXXThisExpr* expression) const {
    const CXXRecordDecl* const of = expression->getType()->getPointeeCXXRecordDecl();
    return of != nullptr && of->isLocalClass() != nullptr && of->getCanonicalDecl() != class_;
  }
  void see(SourceLocation at) { seen_.insert(places_.spot(at).offset); }
  static bool is_field_of_pobase(const ValueDecl* decl) {
    const auto* const field = dyn_cast<FieldDecl>(decl);
    const auto* const of = field == nullptr ? nullptr : dyn_cast<CXXRecordDecl>(field->getParent());
    return of != nullptr && is_pobase(of) && field->getName() == "poroot";
  }

  void check_name(const ValueDecl* variable) {
    if (variable->getNameAsString() == "poroot")
      refuse(variable->getLocation(), "a variable is called poroot: give it another name");
  }

  /// Whether the value of poroot is taken there, and nothing could change it. `above_` ends with
  /// the use.
  bool is_read(const MemberExpr* use) const {
    std::size_t i = above_.size() - 1;
    const auto is_result = [&] {  // of what is around, which may be changed in its place
      if (isa<ParenExpr, ConditionalOperator>(above_[i - 1])) return true;
      const auto* const comma = dyn_cast<BinaryOperator>(above_[i - 1]);
      return comma != nullptr && comma->isCommaOp() && comma->getRHS() == above_[i];
    };
    while (i > 0 && is_result()) --i;
    if (i == 0) return true;
    const Stmt* const around = above_[i - 1];
    // As it is written in braces; it is visited once more as it is meant.
    const auto* const list = dyn_cast<InitListExpr>(around);
    if (list != nullptr && list->getSyntacticForm() != nullptr &&
        !llvm::is_contained(list->inits(), above_[i]))
      return true;
    if (const auto* const cast = dyn_cast<CastExpr>(around);
        cast != nullptr &&
        (cast->getCastKind() == CK_LValueToRValue || cast->getCastKind() == CK_ToVoid ||
         (cast->getCastKind() == CK_NoOp && cast->getType().isConstQualified())))
      return true;
    if (isa<UnaryExprOrTypeTraitExpr>(around)) return true;
    if (const auto* const lambda = dyn_cast<LambdaExpr>(around))
      return std::ranges::any_of(lambda->captures(), [&](const LambdaCapture& each) {
        if (!lambda->isInitCapture(&each) || each.getCapturedVar()->getType()->isReferenceType())
          return false;
        const Expr* const from = cast<VarDecl>(each.getCapturedVar())->getInit();
        return from != nullptr && from->IgnoreParenImpCasts() == use;
      });
    if (const auto* const binary = dyn_cast<BinaryOperator>(around))
      return !binary->isAssignmentOp() || binary->getLHS() != above_[i];
    // In a template nothing is converted yet.
    const auto* const cast = dyn_cast<ExplicitCastExpr>(around);
    if (cast != nullptr && cast->getTypeAsWritten()->isReferenceType()) return false;
    if (const auto* const call = dyn_cast<CallExpr>(around)) return takes_value(call, above_[i]);
    const auto* const expression = dyn_cast<Expr>(around);
    return expression != nullptr && !isa<UnaryOperator>(expression) &&
           expression->isInstantiationDependent();
  }

  /// Of a call of which a template's argument says what it calls: none of those that it may be has
  /// this argument by a reference.
  static bool takes_value(const CallExpr* call, const Stmt* argument) {
    const auto at = std::find(call->arg_begin(), call->arg_end(), argument);
    if (at == call->arg_end()) return true;  // it is what is called
    const auto number = static_cast<unsigned>(at - call->arg_begin());
    const auto takes = [&](const NamedDecl* named) {
      const FunctionDecl* const function = named->getUnderlyingDecl()->getAsFunction();
      if (function == nullptr) return false;
      if (number >= function->getNumParams()) return true;
      const QualType type = function->getParamDecl(number)->getType();
      return !type->isReferenceType() || type.getNonReferenceType().isConstQualified();
    };
    const Expr* const callee = call->getCallee()->IgnoreParenImpCasts();
    if (const auto* const several = dyn_cast<OverloadExpr>(callee))
      return several->getNumDecls() != 0 && std::ranges::all_of(several->decls(), takes);
    const auto* const one = dyn_cast<DeclRefExpr>(callee);
    return one != nullptr && takes(one->getDecl());
  }

  /// What is not needs no capture of what it names.
  bool is_evaluated() const {
    return decltypes_ == 0 && std::ranges::none_of(above_, [](const Stmt* each) {
             return isa<UnaryExprOrTypeTraitExpr, CXXNoexceptExpr, RequiresExpr>(each);
           });
  }

  /// [this]: with the comma, where that has to go as well.
  void add_capture(const LambdaExpr* lambda, SourceLocation at) {
    const auto name = range(at);
    const auto list = range(lambda->getIntroducerRange());
    const auto braces = range(lambda->getBody()->getSourceRange());
    if (!name || !list || !braces) return;
    Body::Capture found{.begin = name->first,
                        .end = name->second,
                        .without_begin = name->first,
                        .without_end = name->second,
                        .lambda_begin = braces->first,
                        .lambda_end = braces->second};
    unsigned comma = 0;  // the last one before it
    for (const Token& each : places_.tokens(at, list->first, list->second)) {
      if (each.is_comment) continue;
      if (each.end <= name->first) comma = each.text == "," ? each.begin : 0;
      if (each.begin < name->second) continue;
      if (each.text == ",") found.without_end = each.end;
      else if (comma != 0) found.without_begin = comma;
      break;
    }
    body_.captures.push_back(found);
  }

  void refuse(SourceLocation at, const std::string& why) {
    body_.refusals.push_back({places_.spot(at), why});
  }
  std::optional<std::pair<unsigned, unsigned>> range(SourceRange of) {
    auto found = places_.range(of);
    if (!found)
      refuse(of.getBegin(),
             "has to be changed, and is in a macro: write out what the macro stands for");
    return found;
  }
  void replace(SourceRange of, const std::string& text) {
    if (const auto at = range(of)) body_.edits.push_back({at->first, at->second, text});
  }
  /// Up to the token at `end`, but for comments.
  void erase(SourceLocation begin, SourceLocation end) {
    if (begin == end) return;
    const auto first = range(begin);
    const auto last = range(end);
    if (first && last)
      body_.edits.push_back(
          {first->first, last->first, places_.comments(begin, first->first, last->first)});
  }
  bool is_in_noexcept() const {
    for (std::size_t i = 0; i < above_.size(); ++i) {
      if (isa<CXXNoexceptExpr>(above_[i])) return true;
      const auto* const requires_expression = dyn_cast<RequiresExpr>(above_[i]);
      if (requires_expression == nullptr || i + 1 == above_.size()) continue;
      for (const concepts::Requirement* each : requires_expression->getRequirements()) {
        const auto* const of = dyn_cast<concepts::ExprRequirement>(each);
        if (of != nullptr && !of->isExprSubstitutionFailure() && of->hasNoexceptRequirement() &&
            of->getExpr() == above_[i + 1])
          return true;
      }
    }
    return false;
  }

  void inner_call(const MemberExpr* member, const CXXMethodDecl* method) {
    const std::string name = method->getNameAsString();
    if (StringRef(name).starts_with("simpo_")) {
      refuse(member->getMemberLoc(), "calls " + name +
                                         ", which logs a call of its own: call the function " +
                                         name.substr(6) + "(poroot, ...) with a context");
      return;
    }
    const bool is_inherited = as_written(method)->getParent()->getCanonicalDecl() != class_;
    if (is_inherited) check_derivation(member, method);
    if (is_inherited && (!is_persistent_class(method->getParent()) ||
                         places_.is_system(method->getParent()->getLocation()))) {
      refuse(member->getMemberLoc(), is_pobase(method->getParent())
                                         ? "calls " + name + " of POBase: leave that to who calls"
                                         : "calls " + name + " of the base class " +
                                               method->getParent()->getNameAsString() +
                                               ", which does not derive from POBase: move it here");
      return;
    }
    const CallExpr* const call = call_of(member);
    if (call == nullptr || method->getPrimaryTemplate() != nullptr) {
      refuse(member->getMemberLoc(),
             call == nullptr ? "uses the method " + name + " without a call"
                             : "calls " + name + ", a template: write a method for each type");
      return;
    }
    if (method->isVirtual() && !member->hasQualifier() && !method->hasAttr<FinalAttr>() &&
        !class_->isEffectivelyFinal())
      refuse(member->getMemberLoc(),
             "calls " + name + ", which is virtual: make the class or the method final");
    const auto callee = range(member->getSourceRange());
    const auto only_name = range(member->getMemberLoc());
    const auto close = range(call->getRParenLoc());
    if (!callee || !only_name || !close) return;
    InnerCall found{
        .callee = place_key(places_, method),
        .begin = callee->first,
        .name = only_name->first,
        .end = callee->second,
        .open = 0,
        .close = close->first,
        .arguments = 0,
        .converts = false,
        .comments = places_.comments(member->getMemberLoc(), callee->first, callee->second),
        .asks_noexcept = is_noexcept(method) && is_in_noexcept(),
        .is_evaluated = is_evaluated(),
        .of_const = object_of(member->getBase())->getType()->getPointeeType().isConstQualified(),
        .at = places_.spot(member->getMemberLoc())};
    for (const Token& each :
         places_.tokens(member->getMemberLoc(), callee->second, close->first + 1)) {
      if (each.text != "(") continue;
      found.open = each.end;
      break;
    }
    add_arguments(call, method, is_inherited, found);
    // A macro may use what it is handed more than once.
    const bool is_known = std::ranges::any_of(body_.calls, [&](const InnerCall& each) {
      return each.begin == found.begin && each.end == found.end && each.callee == found.callee;
    });
    if (!is_known) body_.calls.push_back(std::move(found));
  }

  /// Whether parentheses convert the argument, and braces perhaps do not.
  bool converts(const Expr* argument, const ParmVarDecl* parameter) const {
    return class_->isDependentContext() || argument->isTypeDependent()
               ? !is_of_type(argument, parameter)
               : narrows(argument);
  }

  static bool has_conversion_template(QualType type) {
    type = type.getNonReferenceType();
    const CXXRecordDecl* record = type->getAsCXXRecordDecl();
    if (record == nullptr)
      if (const auto* const of = type->getAs<TemplateSpecializationType>())
        if (const auto* const generic =
                dyn_cast_or_null<ClassTemplateDecl>(of->getTemplateName().getAsTemplateDecl()))
          record = generic->getTemplatedDecl();
    if (record == nullptr || !record->hasDefinition()) return false;
    record = record->getDefinition();
    return std::ranges::any_of(record->decls(),
                               [](const Decl* each) {
                                 const auto* const generic = dyn_cast<FunctionTemplateDecl>(each);
                                 return generic != nullptr &&
                                        isa<CXXConversionDecl>(generic->getTemplatedDecl());
                               }) ||
           std::ranges::any_of(record->bases(), [](const CXXBaseSpecifier& each) {
             return has_conversion_template(each.getType());
           });
  }
  /// Whether the argument may be of a class that has a template of conversions: then parentheses
  /// around it would call that for the context itself.
  bool may_become_anything(const Expr* argument) const {
    argument = argument->IgnoreImplicit();
    if (has_conversion_template(argument->getType())) return true;
    if (!argument->isTypeDependent()) return false;
    if (converts_to_anything_) return true;
    const ClassTemplateDecl* const generic = class_->getDescribedClassTemplate();
    if (generic == nullptr) return false;
    for (const ClassTemplateSpecializationDecl* each : generic->specializations())
      for (const TemplateArgument& of : each->getTemplateArgs().asArray())
        if (of.getKind() == TemplateArgument::Type && has_conversion_template(of.getAsType()))
          return true;
    return false;
  }

  /// Which calls the member. `above_` ends with that.
  const CallExpr* call_of(const MemberExpr* member) const {
    for (std::size_t i = above_.size(); i-- > 0;) {
      if (above_[i] == member || isa<ParenExpr, ImplicitCastExpr>(above_[i])) continue;
      const auto* const call = dyn_cast<CallExpr>(above_[i]);
      return call != nullptr && object_of(call->getCallee()) == member ? call : nullptr;
    }
    return nullptr;
  }

  void add_arguments(const CallExpr* call, const CXXMethodDecl* method, bool is_inherited,
                     InnerCall& found) {
    for (unsigned i = 0; i < call->getNumArgs(); ++i) {
      const Expr* const argument = call->getArg(i);
      if (const auto* const otherwise = dyn_cast<CXXDefaultArgExpr>(argument)) {
        // Its names may be others here.
        for (unsigned left_out = i; left_out < call->getNumArgs(); ++left_out) {
          const auto* const each = dyn_cast<CXXDefaultArgExpr>(call->getArg(left_out));
          if (each == nullptr) continue;
          found.converts |= converts(each->getExpr(), method->getParamDecl(left_out));
          if (names_another(each->getExpr(), is_inherited))
            refuse(call->getBeginLoc(),
                   "leaves out the argument " + otherwise->getParam()->getNameAsString() +
                       ", which is made of a name that is another one here: say it in the call");
        }
        break;
      }
      ++found.arguments;
      found.converts |= converts(argument, method->getParamDecl(i));
    }
    if (found.converts && method->getNumParams() == 1 && found.arguments == 1 &&
        may_become_anything(call->getArg(0)))
      found.refused =
          "is handed what converts to anything, and would become the context: "
          "convert it before";
  }

  /// What is called behind the name of the base class must know that one.
  void check_derivation(const MemberExpr* member, const CXXMethodDecl* method) {
    CXXBasePaths paths;
    if (!class_->isDerivedFrom(method->getParent(), paths)) return;
    for (const CXXBasePath& path : paths)
      for (const CXXBasePathElement& each : path)
        if (each.Class->getCanonicalDecl() != class_ &&
            each.Base->getAccessSpecifier() == AS_private)
          refuse(member->getMemberLoc(),
                 "calls " + method->getNameAsString() + " of a base class from which " +
                     each.Class->getNameAsString() + " derives in private: derive in public");
  }

  /// Whether a name of the expression may mean something else in this function.
  bool names_another(const Stmt* statement, bool of_other_class) const {
    if (statement == nullptr) return false;
    if (of_other_class && isa<DeclRefExpr>(statement)) return true;
    const auto* const reference = dyn_cast<DeclRefExpr>(statement);
    const NamedDecl* const named = reference != nullptr ? reference->getDecl() : nullptr;
    if (named != nullptr && isa<ParmVarDecl>(named)) return true;
    if (const auto* const trait = dyn_cast<UnaryExprOrTypeTraitExpr>(statement))
      return !trait->isArgumentType() && names_another(trait->getArgumentExpr(), of_other_class);
    if (named != nullptr && is_declared_here(function_, named)) return true;
    return std::ranges::any_of(statement->children(), [&](const Stmt* each) {
      return names_another(each, of_other_class);
    });
  }
  static bool is_declared_here(const DeclContext* context, const NamedDecl* name) {
    return std::ranges::any_of(context->decls(), [&](const Decl* each) {
      const auto* const named = dyn_cast<NamedDecl>(each);
      return named != nullptr && named != name && named->getDeclName() == name->getDeclName();
    });
  }

  /// In a template nothing is converted yet.
  bool is_of_type(const Expr* argument, const ParmVarDecl* parameter) const {
    return isa<InitListExpr>(argument) ||
           places_.context().hasSameUnqualifiedType(argument->getType(), parameter->getType());
  }
  bool narrows(const Expr* argument) const {
    const auto* const cast = dyn_cast<ImplicitCastExpr>(argument);
    if (cast == nullptr || cast->isTypeDependent() || cast->isValueDependent()) return false;
    const QualType to = cast->getType();
    const QualType from = cast->getSubExpr()->getType();
    const ASTContext& context = places_.context();
    switch (cast->getCastKind()) {
      case CK_IntegralCast: {
        if (const auto value = cast->getSubExpr()->getIntegerConstantExpr(context)) {
          Expr::EvalResult result;
          if (cast->EvaluateAsInt(result, context))
            return llvm::APSInt::compareValues(*value, result.Val.getInt()) != 0;
        }
        const bool from_signed = from->isSignedIntegerOrEnumerationType();
        const bool to_signed = to->isSignedIntegerOrEnumerationType();
        const auto from_bits = context.getIntWidth(from);
        const auto to_bits = context.getIntWidth(to);
        if (from_signed == to_signed) return to_bits < from_bits;
        return from_signed || to_bits <= from_bits;
      }
      case CK_FloatingCast:
        return context.getTypeSize(to) < context.getTypeSize(from);
      case CK_IntegralToFloating:
      case CK_FloatingToIntegral:
      case CK_IntegralToBoolean:
      case CK_FloatingToBoolean:
      case CK_PointerToBoolean:
      case CK_MemberPointerToBoolean:
        return true;
      default:
        return false;
    }
  }

  void add_use(SourceLocation at, const ValueDecl* decl, bool changes) {
    const auto* const parameter = dyn_cast<ParmVarDecl>(decl);
    if (parameter == nullptr) return;
    const auto parameters = function_->parameters();
    const auto* const found = std::ranges::find(parameters, parameter);
    if (found == parameters.end()) return;
    const auto number = static_cast<std::size_t>(found - parameters.begin());
    // A macro of the program's own may make text of it, or paste it: it keeps its name.
    if (at.isMacroID() && !places_.is_system(places_.body_of_macro(at))) {
      body_.uses.push_back({number, 0, 0, true});
      return;
    }
    if (const auto where = range(at))
      body_.uses.push_back({number, where->first, where->second, changes});
  }

  /// Whether an argument may be changed by this use of it. `above_` ends with the use.
  bool changes(const DeclRefExpr* use) const {
    if (decltypes_ > 0) return true;  // is asked whether it is const
    if (use->getType().isConstQualified()) return false;
    const Stmt* below = use;
    for (std::size_t i = above_.size() - 1; i-- > 0; below = above_[i]) {
      const Stmt* const each = above_[i];
      if (isa<UnaryExprOrTypeTraitExpr>(each)) return false;
      if (isa<ParenExpr>(each)) continue;
      if (const auto* const cast = dyn_cast<ImplicitCastExpr>(each)) {
        if (cast->getCastKind() == CK_LValueToRValue) return false;
        if (cast->getCastKind() == CK_NoOp && cast->getType().isConstQualified()) return false;
        if (cast->getCastKind() == CK_UncheckedDerivedToBase ||
            cast->getCastKind() == CK_DerivedToBase ||
            cast->getCastKind() == CK_ArrayToPointerDecay)
          continue;
        return true;
      }
      if (const auto* const member = dyn_cast<MemberExpr>(each)) {
        const auto* const method = dyn_cast<CXXMethodDecl>(member->getMemberDecl());
        if (method != nullptr) return !method->isConst();
        continue;
      }
      const auto* const element = dyn_cast<ArraySubscriptExpr>(each);
      if (element != nullptr && element->getBase() == below) continue;
      return true;
    }
    return true;
  }

  const Places& places_;
  const FunctionDecl* function_;
  const CXXRecordDecl* class_ = nullptr;
  Body& body_;
  std::vector<const Stmt*> above_;
  unsigned decltypes_ = 0;                   ///< how many are around
  bool converts_to_anything_ = false;        ///< what a generic lambda is called with
  std::set<unsigned> seen_;                  ///< offsets of names
  std::vector<const MemberExpr*> of_class_;  ///< static members, of `this`
  std::set<const Expr*> known_;              ///< uses of `this` that are taken care of
};

}  // namespace

Body body_of(const Places& places, const FunctionDecl* definition) {
  Body body;
  const Stmt* const braces = definition->getBody();
  body.file = places.spot(definition->getLocation()).file;
  const auto range = places.range(braces->getSourceRange());
  if (!range || isa<CXXTryStmt>(braces)) {
    body.refusals.push_back({places.spot(definition->getLocation()),
                             !range ? "its braces are in a macro: write them out"
                                    : "its body is a try block: put it into braces"});
    return body;
  }
  body.begin = range->first;
  body.end = range->second;
  for (const ParmVarDecl* each : definition->parameters())
    body.locals.insert(each->getNameAsString());
  Visitor visitor(places, definition, body);
  if (const auto* const constructor = dyn_cast<CXXConstructorDecl>(definition))
    for (CXXCtorInitializer* each : constructor->inits())
      if (each->isWritten()) visitor.TraverseStmt(each->getInit());
  visitor.TraverseStmt(const_cast<Stmt*>(braces));
  visitor.name_static_members();
  const std::vector<Token> tokens = places.tokens(braces->getBeginLoc(), body.begin, body.end);
  bool has_directives = false;
  for (const Token& each : tokens) {
    if (each.is_comment) continue;
    body.words.insert(each.text);
    if (each.text != "#" || !each.begins_line) continue;
    has_directives = true;
    Spot at = places.spot(definition->getLocation());
    const llvm::StringRef before =
        places.text(definition->getLocation()).slice(at.offset, each.begin);
    at.line += static_cast<unsigned>(before.count('\n'));
    at.column = 1;
    body.refusals.push_back(
        {at,
         "a directive of the preprocessor is in the method, and what it leaves "
         "out is not seen: put it around whole functions that are not methods"});
  }
  if (!has_directives && !definition->isDependentContext())
    visitor.refuse_what_is_left_out(tokens, places.spot(definition->getLocation()));
  return body;
}

}  // namespace perdura::source
