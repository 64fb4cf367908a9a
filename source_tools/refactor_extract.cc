// From a translation unit to what refactor needs of it.
#include <clang/AST/Attr.h>
#include <clang/AST/DeclFriend.h>
#include <clang/AST/DeclLookups.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>
#include <functional>
#include <set>

#include "keys.hpp"
#include "refactor_places.hpp"

namespace perdura::source {

using namespace clang;

Spot Places::spot(SourceLocation location) const {
  if (location.isInvalid()) return {};
  location = sources_.getFileLoc(location);
  const auto [file, offset] = sources_.getDecomposedLoc(location);
  Spot found;
  if (const OptionalFileEntryRef entry = sources_.getFileEntryRefForID(file)) {
    const StringRef real = entry->getFileEntry().tryGetRealPathName();
    found.file = (real.empty() ? entry->getName() : real).str();
  }
  found.offset = offset;
  found.line = sources_.getLineNumber(file, offset);
  found.column = sources_.getColumnNumber(file, offset);
  return found;
}

bool Places::is_system(SourceLocation location) const {
  return sources_.isInSystemHeader(sources_.getExpansionLoc(location));
}

std::optional<std::pair<unsigned, unsigned>> Places::range(SourceRange range) const {
  for (SourceLocation each : {range.getBegin(), range.getEnd()})
    if (each.isInvalid() || (each.isMacroID() && !sources_.isMacroArgExpansion(each)) ||
        makes_text(each))
      return std::nullopt;
  const CharSourceRange found = Lexer::makeFileCharRange(CharSourceRange::getTokenRange(range),
                                                         sources_, context_.getLangOpts());
  if (found.isInvalid()) return std::nullopt;
  return std::pair(sources_.getFileOffset(found.getBegin()),
                   sources_.getFileOffset(found.getEnd()));
}

SourceLocation Places::body_of_macro(SourceLocation location) const {
  return sources_.getSpellingLoc(
      sources_.getSLocEntry(sources_.getFileID(location)).getExpansion().getExpansionLocStart());
}

bool Places::makes_text(SourceLocation location) const {
  for (; sources_.isMacroArgExpansion(location);
       location = sources_.getImmediateSpellingLoc(location)) {
    const SourceLocation at = body_of_macro(location);
    if (sources_.isInSystemHeader(at)) continue;  // what assert says may change
    const auto [file, offset] = sources_.getDecomposedLoc(at);
    const StringRef text = sources_.getBufferData(file);
    std::size_t begin = text.rfind('\n', offset);
    while (begin != StringRef::npos && text.take_front(begin).rtrim('\r').ends_with("\\"))
      begin = text.rfind('\n', begin);
    std::size_t end = text.find('\n', offset);
    while (end != StringRef::npos && text.take_front(end).rtrim('\r').ends_with("\\"))
      end = text.find('\n', end + 1);
    const StringRef line = text.slice(begin == StringRef::npos ? 0 : begin + 1, end).ltrim();
    if (line.drop_front(std::min<std::size_t>(1, line.size())).contains('#')) return true;
  }
  return false;
}

StringRef Places::text(SourceLocation location) const {
  return sources_.getBufferData(sources_.getFileID(sources_.getFileLoc(location)));
}

std::vector<Token> Places::tokens(SourceLocation in, unsigned begin, unsigned end) const {
  const FileID file = sources_.getFileID(sources_.getFileLoc(in));
  const StringRef text = sources_.getBufferData(file);
  Lexer lexer(sources_.getLocForStartOfFile(file), context_.getLangOpts(), text.begin(),
              text.begin() + begin, text.end());
  lexer.SetCommentRetentionState(true);
  std::vector<Token> found;
  while (true) {
    clang::Token token;
    lexer.LexFromRawLexer(token);
    const unsigned at = sources_.getFileOffset(token.getLocation());
    if (token.is(tok::eof) || at >= end) return found;
    found.push_back({at, at + token.getLength(), text.substr(at, token.getLength()).str(),
                     token.is(tok::comment), token.isAtStartOfLine()});
  }
}

std::string Places::comments(SourceLocation in, unsigned begin, unsigned end) const {
  std::string found;
  for (const Token& each : tokens(in, begin, end))
    if (each.is_comment) found += each.text + (each.text.starts_with("//") ? "\n" : " ");
  return found;
}

namespace {

/// The path to a pointer in the type: "" where it is one itself, or there is none.
bool has_pointer(QualType type, std::string& path) {
  type = type.getCanonicalType();
  if (type->isAnyPointerType() || type->isMemberPointerType() || type->isReferenceType() ||
      type->isNullPtrType())
    return true;
  if (const ArrayType* const array = type->getAsArrayTypeUnsafe())
    return has_pointer(array->getElementType(), path);
  const CXXRecordDecl* const record = type->getAsCXXRecordDecl();
  if (record == nullptr || !record->hasDefinition()) return false;
  for (const CXXBaseSpecifier& each : record->getDefinition()->bases())
    if (has_pointer(each.getType(), path)) return true;
  for (const FieldDecl* each : record->getDefinition()->fields()) {
    if (!has_pointer(each->getType(), path)) continue;
    path = each->getNameAsString() + (path.empty() ? std::string() : "." + path);
    return true;
  }
  return false;
}

/// What keeps a call from having a copy of an argument as the caller has it; "": nothing.
std::string why_not_copied(const CXXRecordDecl* record) {
  bool has_copy = false;
  for (const Decl* each : record->decls()) {
    const auto* const generic = dyn_cast<FunctionTemplateDecl>(each);
    const auto* const made =
        dyn_cast<CXXConstructorDecl>(generic != nullptr ? generic->getTemplatedDecl() : each);
    if (made == nullptr) continue;
    if (generic != nullptr) {
      // Taken for a copy of what is not const, unless the library has seen to that.
      if (made->getMinRequiredArguments() <= 1 && made->getNumParams() >= 1 &&
          !made->isInStdNamespace()) {
        const auto* const reference = made->getParamDecl(0)->getType()->getAs<ReferenceType>();
        if (reference != nullptr && !reference->getPointeeType().isConstQualified())
          return "has a constructor that is a template and may take its copies";
      }
      continue;
    }
    unsigned qualifiers = 0;
    if (!made->isCopyConstructor(qualifiers)) continue;
    const bool is_plain = (qualifiers & Qualifiers::Const) != 0;
    if (!is_plain) return "has a constructor that copies what is not const in another way";
    if (made->isExplicit() || made->isDeleted() || made->getAccess() != AS_public)
      return "has no constructor that copies it";
    has_copy = true;
  }
  const bool is_implicit =
      record->needsImplicitCopyConstructor() && !record->defaultedCopyConstructorIsDeleted();
  return has_copy || is_implicit ? "" : "has no constructor that copies it";
}

}  // namespace

std::string Places::why_not_logged(QualType type, const std::string& name, bool references) const {
  PrintingPolicy policy(context_.getPrintingPolicy());
  policy.SuppressTagKeyword = true;
  policy.Bool = true;
  const std::string said = type.getAsString(policy);
  const std::string of = name.empty() ? "an argument" : "the argument " + name;
  if (const auto* const decayed = dyn_cast<DecayedType>(type.getTypePtr());
      decayed != nullptr && decayed->getOriginalType()->isArrayType()) {
    const std::string element =
        decayed->getOriginalType()->getAsArrayTypeUnsafe()->getElementType().getAsString(policy);
    return of +
           " is an array, of which a call has the address alone: hand over a fixed array in a "
           "struct, as struct Name { " +
           element + " values[4]; }";
  }
  if (type->isReferenceType() && !references) {
    return of + " is a reference (" + said + "): hand it over by value";
  }
  type = type.getNonReferenceType();
  if (type->isFunctionPointerType())
    return of + " is a pointer to a function (" + said +
           "): hand over a number, and choose among functions by it";
  if (type->isPointerType() && type->getPointeeType()->isAnyCharacterType())
    return of + " is a pointer (" + said +
           "): hand over a fixed array in a struct, as struct Name { char text[32]; }";
  if (type->isAnyPointerType() || type->isMemberPointerType() || type->isNullPtrType())
    return of + " is a pointer (" + said +
           "): hand over the value, or the index of what it leads to in the object";
  if (type->isDependentType()) return "";
  std::string bare = type.getUnqualifiedType().getCanonicalType().getAsString(policy);
  if (bare.starts_with("std::basic_string<") || bare.starts_with("std::__cxx11::basic_string<") ||
      bare.starts_with("std::basic_string_view<"))
    return of + " is a " + (bare.find("string_view") != bare.npos ? "std::string_view" : "string") +
           ", which keeps its text elsewhere: hand over a fixed array in a struct, as struct Name "
           "{ char text[32]; }";
  if (!type.isTriviallyCopyableType(context_))
    return of + " is not trivially copyable (" + said +
           "): hand over a struct of numbers and fixed arrays";
  if (const CXXRecordDecl* const record = type->getAsCXXRecordDecl();
      record != nullptr && record->hasDefinition())
    if (const std::string why = why_not_copied(record->getDefinition()); !why.empty())
      return of + " " + why + " (" + said + "): hand over a struct of numbers and fixed arrays";
  std::string path;
  if (has_pointer(type, path))
    return of + " has a pointer in it (" + said + ", " + path +
           "): hand over a struct of numbers and fixed arrays";
  if (context_.getTypeSizeInChars(type).getQuantity() > (1 << 20))
    return of + " has more than 1 MiB (" + said + "): hand it over in parts";
  return "";
}

bool is_persistent_class(const CXXRecordDecl* record) {
  if (record == nullptr || !record->hasDefinition()) return false;
  for (const CXXBaseSpecifier& base : record->getDefinition()->bases()) {
    const CXXRecordDecl* const of = base.getType()->getAsCXXRecordDecl();
    if (of != nullptr && (is_pobase(of) || is_persistent_class(of))) return true;
  }
  return false;
}

bool is_noexcept(const CXXMethodDecl* method) {
  const ExceptionSpecificationType type =
      method->getType()->castAs<FunctionProtoType>()->getExceptionSpecType();
  return type != EST_None && type != EST_NoexceptFalse && type != EST_Dynamic && type != EST_MSAny;
}

const CXXMethodDecl* as_written(const CXXMethodDecl* method) {
  if (const FunctionDecl* const pattern = method->getTemplateInstantiationPattern())
    if (const auto* const of = dyn_cast<CXXMethodDecl>(pattern)) method = of;
  return method->getCanonicalDecl();
}

std::string place_key(const Places& places, const CXXMethodDecl* method) {
  const Spot at = places.spot(as_written(method)->getLocation());
  return at.file + ":" + std::to_string(at.offset);
}

namespace {

constexpr const char* kInAMacro = "is in a macro: write out what that stands for";

class Extractor : public RecursiveASTVisitor<Extractor> {
 public:
  Extractor(ASTContext& context, Model& model) : places_(context), unit_(context), model_(model) {}

  /// What a template calls is known of its instances.
  bool shouldVisitTemplateInstantiations() const { return true; }

  bool TraverseDecl(Decl* decl) {
    if (decl == nullptr) return true;
    if (!isa<TranslationUnitDecl>(decl) && !isa<NamespaceDecl>(decl) &&
        places_.is_system(decl->getLocation()))
      return true;
    const auto* const method = dyn_cast<CXXMethodDecl>(decl);
    const bool is_method = method != nullptr && is_ours(method->getParent());
    if (is_method) {
      add_definition(method);
      check_specialization(method);
    }
    // Its own object's methods are the body's matter (refactor_body.cc). It may call others'.
    const CXXMethodDecl* const within = std::exchange(within_, is_method ? method : within_);
    const auto* const variable = dyn_cast<VarDecl>(decl);
    const bool is_constant =
        isa<StaticAssertDecl>(decl) || (variable != nullptr && variable->isConstexpr());
    const bool is_question = isa<NonTypeTemplateParmDecl, TemplateTypeParmDecl, ConceptDecl>(decl);
    if (const auto* const generic = dyn_cast<TemplateDecl>(decl))
      if (const TemplateParameterList* const of = generic->getTemplateParameters())
        clauses_.insert(of->getRequiresClause());
    if (const auto* const function = dyn_cast<FunctionDecl>(decl))
      clauses_.insert(function->getTrailingRequiresClause());
    constants_ += is_constant;
    questions_ += is_question;
    const bool result = RecursiveASTVisitor::TraverseDecl(decl);
    constants_ -= is_constant;
    questions_ -= is_question;
    within_ = within;
    return result;
  }

  bool TraverseStmt(Stmt* statement) {
    if (statement == nullptr) return true;
    const bool is_block = isa<CompoundStmt>(statement);
    const bool is_noexcept = isa<CXXNoexceptExpr>(statement);
    const bool is_constant = isa<ConstantExpr>(statement);
    const bool is_question =
        isa<RequiresExpr, UnaryExprOrTypeTraitExpr, CXXNoexceptExpr>(statement) ||
        clauses_.contains(statement);
    // A lambda with `auto` is a template of its own, whatever block it is in.
    const auto* const lambda = dyn_cast<LambdaExpr>(statement);
    const bool is_template = lambda != nullptr && lambda->isGenericLambda();
    const unsigned blocks_around = is_template ? std::exchange(blocks_, 0) : blocks_;
    constants_ += is_constant;
    blocks_ += is_block;
    noexcepts_ += is_noexcept;
    questions_ += is_question;
    const bool result = RecursiveASTVisitor::TraverseStmt(statement);
    constants_ -= is_constant;
    blocks_ = blocks_around;
    noexcepts_ -= is_noexcept;
    questions_ -= is_question;
    return result;
  }
  bool TraverseDecltypeTypeLoc(DecltypeTypeLoc type) {
    ++questions_;
    const bool result = RecursiveASTVisitor::TraverseDecltypeTypeLoc(type);
    --questions_;
    return result;
  }
  bool TraverseTemplateArgumentLoc(const TemplateArgumentLoc& argument) {
    ++questions_;
    const bool result = RecursiveASTVisitor::TraverseTemplateArgumentLoc(argument);
    --questions_;
    return result;
  }
  bool TraverseConceptExprRequirement(concepts::ExprRequirement* requirement) {
    noexcepts_ += requirement->hasNoexceptRequirement();
    const bool result = RecursiveASTVisitor::TraverseConceptExprRequirement(requirement);
    noexcepts_ -= requirement->hasNoexceptRequirement();
    return result;
  }

  /// A visitor sees the body of a generic lambda as it is written, and no instances of it.
  bool VisitLambdaExpr(LambdaExpr* lambda) {
    const FunctionTemplateDecl* const call =
        lambda->getLambdaClass()->getDependentLambdaCallOperator();
    if (call == nullptr) return true;
    for (FunctionDecl* each : call->specializations())
      if (each->getBody() != nullptr) TraverseStmt(each->getBody());
    return true;
  }

  bool VisitCXXRecordDecl(CXXRecordDecl* record) {
    if (!record->isThisDeclarationADefinition()) return true;
    const CXXRecordDecl* const pattern = record->getTemplateInstantiationPattern();
    if (pattern == nullptr) {
      if (is_ours(record)) add_class(record);
      else if (derives_from_template_of_ours(record)) refuse_base(record);
    } else if (is_ours(record)) {
      if (!is_ours(pattern)) refuse_base(pattern);
      else check_name(record, pattern);
    }
    return true;
  }

  bool TraverseFieldDecl(FieldDecl* member) {
    const FieldDecl* const around = std::exchange(member_, member);
    const bool result = RecursiveASTVisitor::TraverseFieldDecl(member);
    member_ = around;
    return result;
  }

  bool VisitMemberExpr(MemberExpr* member) {
    const auto* const method = dyn_cast<CXXMethodDecl>(member->getMemberDecl());
    if (method == nullptr || method->isStatic() || !is_ours(method->getParent())) {
      others_.insert(member->getMemberLoc().getRawEncoding());
      return true;
    }
    Caller caller = caller_of(method, member->getMemberLoc());
    if (isa<CXXThisExpr>(object_of(member->getBase()))) {
      if (within_ != nullptr || member_ == nullptr) return true;
      caller.in_class = true;
      caller.refused =
          "is called where a member of the class is initialized: call it in the constructor";
      add(caller, member->getMemberLoc());
      return true;
    }
    const QualType base = member->getBase()->IgnoreParenImpCasts()->getType();
    const QualType object = member->isArrow() ? base->getPointeeType() : base;
    if (object.isConstQualified())
      caller.refused =
          "is called of a const object, and calls that are logged change it: take "
          "the object without const";
    if (noexcepts_ > 0 && is_noexcept(method))
      caller.refused =
          "is asked for noexcept here, which a call that is logged is not: leave the question out";
    if (constants_ > 0 && method->isConstexpr())
      caller.refused =
          "is called here when the program is compiled, and calls that are logged are made when it "
          "runs: ask a static function";
    add(caller, member->getMemberLoc());
    return true;
  }
  bool VisitDeclRefExpr(DeclRefExpr* use) {
    const auto* const method = dyn_cast<CXXMethodDecl>(use->getDecl());
    if (method == nullptr || method->isStatic() || !is_ours(method->getParent())) return true;
    Caller caller = caller_of(method, use->getLocation());
    caller.refused =
        "has its address taken, and is a static function from now on: call it, by a "
        "lambda if need be";
    add(caller, use->getLocation());
    return true;
  }
  bool VisitUsingDecl(UsingDecl* declaration) {
    for (const UsingShadowDecl* each : declaration->shadows()) {
      const auto* const method = dyn_cast<CXXMethodDecl>(each->getTargetDecl());
      if (method == nullptr || method->isStatic() || !is_ours(method->getParent())) continue;
      Caller caller = caller_of(method, declaration->getLocation());
      caller.in_class = isa<CXXRecordDecl>(declaration->getDeclContext());
      add(caller, declaration->getLocation());
    }
    return true;
  }
  bool VisitCXXDependentScopeMemberExpr(CXXDependentScopeMemberExpr* member) {
    dependent_.insert(member->getMemberLoc().getRawEncoding());
    mention(member->getMember(), member->getMemberLoc());
    return true;
  }
  bool VisitDependentScopeDeclRefExpr(DependentScopeDeclRefExpr* use) {
    mention(use->getDeclName(), use->getLocation());
    return true;
  }
  bool VisitUnresolvedMemberExpr(UnresolvedMemberExpr* member) {
    mention(member->getMemberName(), member->getMemberLoc());
    return true;
  }
  bool VisitCallExpr(CallExpr* call) {
    const FunctionDecl* const callee = call->getDirectCallee();
    if (callee == nullptr || callee->getIdentifier() == nullptr ||
        callee->getName() != "pthread_create" || call->getNumArgs() != 4)
      return true;
    const auto name = places_.range(call->getCallee()->getSourceRange());
    const auto close = places_.range(call->getRParenLoc());
    ThreadStart start{.at = places_.spot(call->getBeginLoc())};
    if (name && close) {
      start.at.offset = name->first;
      start.name_end = name->second;
      start.close = close->first;
    } else {
      start.in_a_macro = true;
    }
    if (within_ != nullptr && becomes_static(within_)) start.within = place_key(places_, within_);
    for (const Decl* each : places_.context().getTranslationUnitDecl()->lookup(
             &places_.context().Idents.get("POBase")))
      start.is_known |= isa<CXXRecordDecl>(each);
    model_.threads.insert(start);
    return true;
  }

 private:
  bool is_ours(const CXXRecordDecl* record) const {
    return is_persistent_class(record) && !places_.is_system(record->getLocation());
  }

  /// Of a class by an argument of a template nobody knows what it has before there is one.
  void refuse_base(const CXXRecordDecl* record) {
    const bool has_methods = std::ranges::any_of(record->methods(), [](const CXXMethodDecl* each) {
      return !each->isStatic() && !each->isImplicit() && each->getDeclName().isIdentifier() &&
             !each->getName().starts_with("simpo");
    });
    if (has_methods)
      refuse("", record->getLocation(),
             record->getQualifiedNameAsString() +
                 ": derives from what depends on the arguments of the template, and that derives "
                 "from POBase: derive from a class by its name");
  }
  bool derives_from_template_of_ours(const CXXRecordDecl* record) const {
    return std::ranges::any_of(record->bases(), [&](const CXXBaseSpecifier& each) {
      const auto* const of = each.getType()->getAs<TemplateSpecializationType>();
      const auto* const generic =
          of == nullptr
              ? nullptr
              : dyn_cast_or_null<ClassTemplateDecl>(of->getTemplateName().getAsTemplateDecl());
      return generic != nullptr && is_ours(generic->getTemplatedDecl());
    });
  }
  /// Also by the arguments of its template.
  static bool is_of_unnamed_namespace(const CXXRecordDecl* record) {
    const Linkage linkage = record->getLinkageInternal();
    return record->isInAnonymousNamespace() || linkage == Linkage::Internal ||
           linkage == Linkage::UniqueExternal;
  }
  /// Of an instance of a class template.
  void check_name(const CXXRecordDecl* record, const CXXRecordDecl* pattern) {
    const auto* const instance = dyn_cast<ClassTemplateSpecializationDecl>(record);
    if (instance == nullptr || !is_of_unnamed_namespace(instance)) return;
    const SourceLocation at = instance->getPointOfInstantiation();
    refuse(
        key_of(pattern->getDefinition()), at.isValid() ? at : record->getLocation(),
        record->getQualifiedNameAsString() +
            ": an argument of the template is in an unnamed namespace, and a log knows functions "
            "by their names: give the namespace a name");
  }
  /// A method of some instance that is written, or instantiated, by itself.
  void check_specialization(const CXXMethodDecl* method) {
    const auto* const pattern =
        dyn_cast_or_null<CXXMethodDecl>(method->getInstantiatedFromMemberFunction());
    if (pattern == nullptr) return;
    const TemplateSpecializationKind kind = method->getTemplateSpecializationKind();
    const auto* const of = dyn_cast<ClassTemplateSpecializationDecl>(method->getParent());
    const bool is_by_itself =
        kind == TSK_ExplicitInstantiationDeclaration || kind == TSK_ExplicitInstantiationDefinition
            ? of != nullptr && of->getSpecializationKind() == TSK_ImplicitInstantiation
            : kind == TSK_ExplicitSpecialization;
    if (!is_by_itself) return;
    refuse(place_key(places_, pattern),
           kind == TSK_ExplicitSpecialization ? method->getLocation()
                                              : method->getPointOfInstantiation(),
           unit_.signature_of(pattern) +
               ": is written or instantiated here for some arguments of the template: do that with "
               "the class");
  }
  void refuse(const std::string& key, SourceLocation at, const std::string& text) {
    model_.refusals.insert({key, Refusal{places_.spot(at), text}});
  }

  static bool becomes_static(const CXXMethodDecl* method) {
    return !method->isStatic() && !isa<CXXConstructorDecl, CXXDestructorDecl>(method);
  }
  Caller caller_of(const CXXMethodDecl* method, SourceLocation at) {
    Caller caller;
    caller.callee = place_key(places_, method);
    caller.at = places_.spot(at);
    if (within_ == nullptr || !becomes_static(within_)) return caller;
    caller.within = place_key(places_, within_);
    caller.signature = unit_.signature_of(as_written(within_));
    return caller;
  }
  /// Whether there is such a member may choose an overload or a specialization, and no instance is
  /// left that says of what it was asked. Not so in blocks.
  void mention(DeclarationName name, SourceLocation at) {
    if (blocks_ == 0 && questions_ > 0 && name.isIdentifier())
      mentions_.emplace(at.getRawEncoding(), Mention{name.getAsString(), places_.spot(at)});
  }
  void add(Caller& caller, SourceLocation at) {
    if (const auto name = places_.range(at)) {
      caller.begin = name->first;
      caller.end = name->second;
    } else {
      caller.refused = "is called in a macro: write out what the macro stands for";
    }
    caller.in_class |= within_ != nullptr;
    callers_.emplace(at.getRawEncoding(), caller);
  }

  std::string key_of(const CXXRecordDecl* record) {
    const Spot at = places_.spot(record->getLocation());
    return at.file + ":" + std::to_string(at.offset);
  }

  ModelClass* class_of(const CXXRecordDecl* record) {
    const CXXRecordDecl* const pattern = record->getTemplateInstantiationPattern();
    if (pattern != nullptr) record = pattern;
    record = record->getDefinition();
    const auto at = model_.classes.find(key_of(record));
    return at == model_.classes.end() ? nullptr : &at->second;
  }

  void add_class(const CXXRecordDecl* record) {
    ModelClass found;
    found.name = record->getQualifiedNameAsString();
    found.at = places_.spot(record->getLocation());
    const auto refuse = [&](SourceLocation at, const std::string& why) {
      found.refusals.push_back({places_.spot(at), why});
    };
    for (const char* name : {"context", "call", "dhint", "poroot", "defer", "inst", "ALL"})
      if (places_.context().Idents.get(name).hasMacroDefinition())
        refuse(record->getLocation(), std::string("a macro is called ") + name +
                                          ", as what is written here: give it another name");
    const auto braces = places_.range(record->getBraceRange());
    bool found_conditional = false;
    if (!braces) {
      refuse(record->getLocation(), "the class is in a macro: write out what that stands for");
      model_.classes.emplace(key_of(record), std::move(found));
      return;
    }
    found.open = braces->first + 1;
    found.close = braces->second - 1;
    if (is_of_unnamed_namespace(record))
      refuse(record->getLocation(),
             "the class is in an unnamed namespace, and a log knows functions by their names: give "
             "the namespace a name");
    if (record->isLocalClass() != nullptr || record->getIdentifier() == nullptr)
      refuse(record->getLocation(),
             "the class has no name that other functions know: put it outside of the function");
    for (const CXXBaseSpecifier& each : record->bases()) {
      const CXXRecordDecl* const base = each.getType()->getAsCXXRecordDecl();
      if (base == nullptr || !is_ours(base)) continue;
      const CXXRecordDecl* const pattern = base->getTemplateInstantiationPattern();
      found.bases.push_back(key_of((pattern != nullptr ? pattern : base)->getDefinition()));
    }
    if (std::ranges::count_if(record->bases(), [](const CXXBaseSpecifier& each) {
          const CXXRecordDecl* const base = each.getType()->getAsCXXRecordDecl();
          return base != nullptr && (is_pobase(base) || is_persistent_class(base));
        }) > 1)
      refuse(record->getLocation(),
             "the class derives from POBase more than once, and a function has one poroot: derive "
             "from it once");
    for (const Token& each : places_.tokens(record->getLocation(), found.open, found.close)) {
      if (!each.is_comment) found.words.insert(each.text);
      if (found_conditional || each.text != "#" || !each.begins_line) continue;
      const StringRef rest = places_.text(record->getLocation()).substr(each.end).ltrim(" \t");
      if (!rest.starts_with("if") && !rest.starts_with("el")) continue;
      Spot at = found.at;
      at.line += static_cast<unsigned>(
          places_.text(record->getLocation()).slice(at.offset, each.begin).count('\n'));
      at.column = 1;
      found.refusals.push_back({at,
                                "what the class has depends on a macro here, and what is left out "
                                "is not seen: make two classes of it"});
      found_conditional = true;
    }
    for (const Decl* each : record->decls()) add_member(found, each);
    add_names_of_bases(record, found.names_outside);
    for (const char* name : {"defer", "inst"})
      if (found.names.contains(name) || found.names_outside.contains(name))
        refuse(record->getLocation(), std::string("the class or a base class has a member ") +
                                          name + ", as POBase has: give it another name");
    for (const DeclContext* each = record->getDeclContext(); each->isRecord();
         each = each->getParent()) {
      add_names_in(cast<CXXRecordDecl>(each), found.names_outside);
      add_names_of_bases(cast<CXXRecordDecl>(each), found.names_outside);
    }
    model_.classes.emplace(key_of(record), std::move(found));
  }

  static void add_names_in(const CXXRecordDecl* record, std::set<std::string>& names) {
    const auto all = record->lookups();
    for (auto at = all.begin(); at != all.end(); ++at)
      if (at.getLookupName().isIdentifier()) names.insert(at.getLookupName().getAsString());
  }
  /// But for those of classes that are in the model.
  void add_names_of_bases(const CXXRecordDecl* record, std::set<std::string>& names) const {
    for (const CXXBaseSpecifier& each : record->bases()) {
      const CXXRecordDecl* const base = each.getType()->getAsCXXRecordDecl();
      if (base == nullptr || !base->hasDefinition() || is_pobase(base)) continue;
      if (!is_ours(base)) add_names_in(base->getDefinition(), names);
      add_names_of_bases(base->getDefinition(), names);
    }
  }

  void add_member(ModelClass& found, const Decl* each) {
    if (each->isImplicit()) return;
    if (const auto* const access = dyn_cast<AccessSpecDecl>(each)) {
      found.section.reset();
      found.functions_only = true;
      const auto colon = places_.range(access->getColonLoc());
      if (access->getAccess() == AS_private && colon) found.section = colon->second;
      return;
    }
    const auto* const generic = dyn_cast<FunctionTemplateDecl>(each);
    const auto* method =
        dyn_cast<CXXMethodDecl>(generic != nullptr ? generic->getTemplatedDecl() : each);
    if (method == nullptr) {
      if (!isa<FriendDecl>(each)) found.functions_only = false;
      if (const auto* const named = dyn_cast<NamedDecl>(each))
        found.names.insert(named->getNameAsString());
      return;
    }
    if (isa<CXXConstructorDecl, CXXDestructorDecl>(method) || method->isDeleted() ||
        method->isDefaulted())
      return;
    if (method->isStatic()) {
      found.names.insert(method->getNameAsString());
      return;
    }
    found.methods.emplace(place_key(places_, method), described(method, generic != nullptr));
  }

  ModelMethod described(const CXXMethodDecl* method, bool is_generic) {
    ModelMethod found;
    found.name = method->getNameAsString();
    found.signature = unit_.signature_of(method);
    found.at = places_.spot(method->getLocation());
    found.is_public = method->getAccess() == AS_public;
    found.is_const = method->isConst();
    found.is_virtual = method->isVirtual();
    found.returns = !method->getReturnType()->isVoidType();
    const auto both = [&](const std::string& why) {
      found.refusals.push_back({found.at, why});
      found.static_refusals.push_back({found.at, why});
    };
    if (is_generic)
      found.refusals.push_back({found.at,
                                "a template cannot be called later: write a method for "
                                "each type"});
    if (!method->getDeclName().isIdentifier())
      found.refusals.push_back({found.at,
                                "an operator cannot be called later: write a method with "
                                "a name"});
    if (method->isVariadic()) both("has any number of arguments (...): write a method for each");
    if (method->getRefQualifier() != RQ_None || method->isVolatile())
      both("is of a kind of object alone (&, && or volatile): write it without that");
    if (method->getTrailingRequiresClause() != nullptr) both("has a requires clause: leave it out");
    if (method->isConsteval()) both("is consteval: write constexpr, or leave it out");
    for (const CXXMethodDecl* each : method->overridden_methods())
      found.overrides.push_back(
          {is_ours(each->getParent()) ? place_key(places_, each) : "",
           each->getParent()->getNameAsString() + "::" + each->getNameAsString()});
    if (method->isPureVirtual()) both("has no body (= 0): write it in the class that has it");
    check_names(method, found);
    check_result(method, found);
    describe_text(method, found);
    return found;
  }

  /// With the same arguments, perhaps without those that have defaults.
  static bool may_be_called_alike(const CXXMethodDecl* a, const CXXMethodDecl* b) {
    const unsigned count = std::max(a->getMinRequiredArguments(), b->getMinRequiredArguments());
    if (count > std::min(a->getNumParams(), b->getNumParams())) return false;
    for (unsigned i = 0; i < count; ++i) {
      const QualType one = a->getParamDecl(i)->getType().getCanonicalType().getUnqualifiedType();
      const QualType other = b->getParamDecl(i)->getType().getCanonicalType().getUnqualifiedType();
      // In a template they may be the same of some arguments, and another number converts to both.
      if (one != other && !one->isDependentType() && !other->isDependentType() &&
          !(one->isArithmeticType() && other->isArithmeticType()))
        return false;
    }
    return true;
  }

  /// What is written behind the class's names must find those of POBase, and its own.
  void check_names(const CXXMethodDecl* method, ModelMethod& found) {
    static const std::set<std::string> kOfPOBase = {"defer", "inst", "sync", "poid", "poroot"};
    if (kOfPOBase.contains(found.name))
      found.refusals.push_back({found.at, "is called as what POBase has: give it another name"});
    for (const ParmVarDecl* each : method->parameters()) {
      const std::string name = each->getNameAsString();
      if (name == found.name || name == "defer" || name == "inst" || name == "ALL" ||
          name == "poroot")
        found.refusals.push_back(
            {places_.spot(each->getLocation()),
             "the argument " + name + " hides what its call needs: give it another name"});
    }
    std::vector<const CXXMethodDecl*> others(method->getParent()->method_begin(),
                                             method->getParent()->method_end());
    // In a base class it would override what it does not now, or be overridden.
    const auto add_virtual = [&](const CXXRecordDecl* base) {
      if (is_ours(base))
        for (const CXXMethodDecl* each : base->methods())
          if (each->isVirtual()) others.push_back(each);
      return true;
    };
    method->getParent()->forallBases(add_virtual);
    for (const CXXMethodDecl* other : others) {
      const bool inherited = other->getParent() != method->getParent();
      if (other != method && other->getDeclName() == method->getDeclName() &&
          (inherited ? method->isConst() != other->isConst()
                     : method->isConst() && !other->isConst()) &&
          may_be_called_alike(method, other))
        found.twins.push_back(place_key(places_, other));
    }
  }

  void check_result(const CXXMethodDecl* method, ModelMethod& found) {
    const QualType type = method->getReturnType();
    if (type->isVoidType() || type->isDependentType()) return;
    const std::string said = type.getAsString(unit_.policy());
    std::string path;
    if (type->isReferenceType() || type->isAnyPointerType()) {
      found.refusals.push_back({found.at, "answers with an address (" + said +
                                              "), and what it leads to changes with later calls: "
                                              "answer with a value, or make the method private"});
    } else if (type->isUndeducedType()) {
      found.refusals.push_back(
          {found.at, "what it answers is not said here (auto): name the type"});
    } else if (!type.isTriviallyCopyableType(places_.context())) {
      found.refusals.push_back({found.at, "answers with what is not trivially copyable (" + said +
                                              "): answer with a struct of numbers and fixed "
                                              "arrays"});
    } else if (has_pointer(type, path)) {
      found.refusals.push_back({found.at, "answers with an address (" + said + ", " + path +
                                              "), and what it leads to changes with later calls: "
                                              "answer with values, or make the method private"});
    } else if (places_.context().getTypeSizeInChars(type).getQuantity() > 48) {
      found.refusals.push_back(
          {found.at, "answers with " +
                         std::to_string(places_.context().getTypeSizeInChars(type).getQuantity()) +
                         " bytes (" + said + "), and an instant has at most 48: answer in parts"});
    }
  }

  std::vector<Argument> arguments_of(const FunctionDecl* function) {
    std::vector<Argument> all;
    for (const ParmVarDecl* each : function->parameters()) {
      Argument found;
      found.name = each->getNameAsString();
      found.at = places_.spot(each->getLocation());
      found.is_const = each->getType().isConstQualified();
      const QualType written = each->getOriginalType();
      found.refused =
          places_.why_not_logged(written->isArrayType() ? each->getType() : written, found.name);
      const auto begin = places_.range(each->getBeginLoc());
      const auto name = places_.range(each->getLocation());
      const auto whole = places_.range(each->getSourceRange());
      if (!begin || !name || !whole) {
        if (found.refused.empty()) found.refused = "an argument is in a macro: write it out";
        all.push_back(std::move(found));
        continue;
      }
      const StringRef text = places_.text(each->getLocation());
      unsigned type_end = found.name.empty() ? whole->second : name->first;
      if (each->hasDefaultArg()) {
        const auto otherwise = places_.range(each->getDefaultArgRange());
        if (otherwise) found.otherwise = text.slice(otherwise->first, otherwise->second).str();
        else if (found.refused.empty())
          found.refused = "what " + found.name + " is otherwise is in a macro: write it out";
        if (found.name.empty())
          for (const Token& token :
               places_.tokens(each->getLocation(), begin->first, whole->second))
            if (token.text == "=") {
              type_end = token.begin;
              break;
            }
      }
      found.name_at = begin->first;
      for (const Token& token : places_.tokens(each->getLocation(), begin->first, type_end))
        if (!token.is_comment) found.name_at = token.end;
      found.type = type_text(each, begin->first, found.name_at);
      if (found.refused.empty() && (found.type.empty() || each->isParameterPack()))
        found.refused = each->isParameterPack()
                            ? "takes any number of arguments: write a method for each"
                            : "an argument has parentheses around its name: leave them out";
      all.push_back(std::move(found));
    }
    return all;
  }

  /// The token of (void).
  std::optional<Edit> nothing_between(const CXXMethodDecl* method, unsigned open, unsigned close) {
    if (method->getNumParams() > 0) return std::nullopt;
    for (const Token& each : places_.tokens(method->getLocation(), open, close))
      if (!each.is_comment) return Edit{each.begin, each.end, ""};
    return std::nullopt;
  }

  /// With the spaces before them, but for the line's end that ends a comment. What is behind an
  /// arrow is of the result.
  Edits dropped(const CXXMethodDecl* method, unsigned begin, unsigned end) {
    const StringRef text = places_.text(method->getLocation());
    Edits found;
    int nested = 0;
    bool was_line_comment = false;
    bool is_result = false;
    for (const Token& each : places_.tokens(method->getLocation(), begin, end)) {
      const bool behind_line_comment = std::exchange(
          was_line_comment, each.is_comment && StringRef(each.text).starts_with("//"));
      nested += each.text == "(" ? 1 : each.text == ")" ? -1 : 0;
      if (nested == 0 && each.text == "->") is_result = true;
      if (nested != 0 ||
          (each.text != "override" && each.text != "final" && (each.text != "const" || is_result)))
        continue;
      unsigned first = each.begin;
      while (!behind_line_comment && first > begin && isspace(text[first - 1])) --first;
      found.push_back({first, each.end, ""});
    }
    return found;
  }

  /// Behind what ends at `last`, with a space where there is something in between.
  static void append(std::string& text, const Token& token, unsigned last) {
    if (!text.empty() && token.begin > last) text += ' ';
    text += token.text;
  }

  /// Without const, comments and attributes; "" where these tokens alone are no type.
  std::string type_text(const ParmVarDecl* parameter, unsigned begin, unsigned end) {
    std::string text;
    unsigned last = begin;
    unsigned brackets = 0;
    int angles = 0;
    int parentheses = 0;
    for (const Token& each : places_.tokens(parameter->getLocation(), begin, end)) {
      const bool is_outside = angles == 0 && parentheses == 0;
      const bool is_const = each.text == "const" && is_outside;
      parentheses += each.text == "(" ? 1 : each.text == ")" ? -1 : 0;
      if (parentheses == 0)
        angles += each.text == "<" ? 1 : each.text == ">" ? -1 : each.text == ">>" ? -2 : 0;
      if (each.is_comment || is_const || each.text == "register") continue;
      if (each.text == "[" && is_outside) ++brackets;
      if (brackets == 0) append(text, each, last);
      if (each.text == "]" && is_outside) --brackets;
      last = each.end;
    }
    return angles == 0 && parentheses == 0 ? text : "";
  }

  void describe_text(const CXXMethodDecl* method, ModelMethod& found) {
    const FunctionTypeLoc type = method->getFunctionTypeLoc();
    const auto fail = [&](const std::string& why) {
      found.is_written = false;
      found.refusals.push_back({found.at, why});
      found.static_refusals.push_back({found.at, why});
    };
    if (type.isNull()) return fail("is declared by the name of a type: write its arguments out");
    const auto begin = places_.range(method->getBeginLoc());
    const auto name = places_.range(method->getLocation());
    const auto open = places_.range(type.getLParenLoc());
    const auto close = places_.range(type.getRParenLoc());
    if (!begin || !name || !open || !close) return fail(kInAMacro);
    const StringRef text = places_.text(method->getLocation());
    found.begin = begin->first;
    for (const Attr* each : method->attrs()) {
      if (each->isImplicit() || !each->isStandardAttributeSyntax() || isa<AnnotateAttr>(each))
        continue;
      const auto at = places_.range(each->getRange());
      if (!at || isa<FinalAttr, OverrideAttr>(each)) continue;
      const StringRef before = text.take_front(at->first);
      if (before.substr(before.rfind("[[")).contains("using"))
        return fail("has attributes of a [[using ...]]: write the namespace before each");
      found.attributes += "[[" + text.slice(at->first, at->second).str() + "]] ";
    }
    found.begin = with_attributes(method, text, found.begin);
    found.specifiers = begin->first;
    found.open = open->second;
    found.close = close->first;
    found.nothing = nothing_between(method, found.open, found.close);
    found.arguments = arguments_of(method);
    if (found.arguments.empty())
      found.comments += places_.comments(method->getLocation(), found.open, found.close);
    check_uses_of_arguments(method, found);
    // Before the name.
    unsigned last = found.begin;
    for (const Token& each : places_.tokens(method->getLocation(), found.begin, found.open)) {
      if (each.is_comment) found.comments += each.text + "\n";
      if (each.is_comment || each.begin < begin->first || each.begin >= name->first) continue;
      if (each.text == "virtual") found.before += "virtual ";
      else if (each.text != "inline" && each.text != "constexpr") append(found.result, each, last);
      last = each.end;
    }
    if (std::ranges::count(found.result, '(') != std::ranges::count(found.result, ')'))
      return fail("has parentheses around its name: leave them out");
    if (found.result == "auto") found.result = method->getReturnType().getAsString(unit_.policy());
    if (const std::string why = describe_tail(method, found); !why.empty()) return fail(why);
    if (method->doesThisDeclarationHaveABody()) {
      found.body = body_of(places_, method);
      found.end = found.body->end;
      for (const Token& each :
           places_.tokens(method->getLocation(), found.end, static_cast<unsigned>(text.size()))) {
        if (each.text == ";") found.end = each.end;  // one too many
        break;
      }
    }
  }

  /// What stands behind the arguments. Returns why that cannot be changed; "": it can.
  std::string describe_tail(const CXXMethodDecl* method, ModelMethod& found) {
    const bool has_body = method->doesThisDeclarationHaveABody();
    found.tail_end = found.close + 1;
    unsigned limit = static_cast<unsigned>(places_.text(method->getLocation()).size());
    if (has_body) {
      const auto body = places_.range(method->getBody()->getBeginLoc());
      if (!body) return kInAMacro;
      limit = body->first;
    }
    std::string keeps;
    unsigned last = found.close;
    int nested = 0;
    int angles = 0;
    bool in_noexcept = false;
    for (const Token& each : places_.tokens(method->getLocation(), found.close + 1, limit)) {
      if (each.text == ";" && nested == 0) {
        limit = each.begin;
        break;
      }
      if (each.is_comment) {
        found.comments += each.text + "\n";
        continue;
      }
      nested += each.text == "(" ? 1 : each.text == ")" ? -1 : 0;
      if (each.text == "noexcept" || each.text == "throw") in_noexcept = true;
      else if (in_noexcept && nested == 0 && each.text != ")") in_noexcept = false;
      if (in_noexcept) append(keeps, each, last);
      last = each.end;
      if (each.text == "override" || each.text == "final") found.after += " " + each.text;
      angles += each.text == "<" ? 1 : each.text == ">" ? -1 : each.text == ">>" ? -2 : 0;
      if (each.text == "," && nested == 0 && angles == 0)
        found.refusals.push_back({found.at, "is declared with others: write a line for each"});
    }
    found.noexcept_text = keeps.empty() ? "" : " " + keeps;
    found.dropped = dropped(method, found.close + 1, limit);
    const std::size_t specifiers = std::size_t{method->isConst()} +
                                   std::size_t{method->hasAttr<OverrideAttr>()} +
                                   std::size_t{method->hasAttr<FinalAttr>()};
    const bool is_quiet =
        method->getType()->castAs<FunctionProtoType>()->getExceptionSpecType() != EST_None;
    if (found.dropped.size() != specifiers)
      return "has const, override or final in a macro: write out what that stands for";
    if (is_quiet != !keeps.empty())
      found.refusals.push_back(
          {found.at, "has noexcept in a macro: write out what that stands for"});
    found.tail_end = limit;
    found.end = limit + 1;
    return "";
  }

  /// What is said of the function, and names what it has no more.
  void check_uses_of_arguments(const CXXMethodDecl* method, ModelMethod& found) {
    struct Uses : RecursiveASTVisitor<Uses> {
      bool arguments = false;
      bool object = false;
      bool VisitDeclRefExpr(DeclRefExpr* use) {
        arguments |= isa<ParmVarDecl>(use->getDecl());
        return true;
      }
      bool VisitCXXThisExpr(CXXThisExpr*) { return !(object = true); }
    } uses;
    const auto* const type = method->getType()->castAs<FunctionProtoType>();
    if (type->getNoexceptExpr() != nullptr) uses.TraverseStmt(type->getNoexceptExpr());
    uses.TraverseTypeLoc(method->getFunctionTypeLoc().getReturnLoc());
    const std::string why =
        " is named in its result or its noexcept, and is not there later: write the type, or the "
        "value";
    if (uses.arguments) found.refusals.push_back({found.at, "an argument" + why});
    if (uses.object) {
      found.refusals.push_back({found.at, "the object" + why});
      found.static_refusals.push_back({found.at, "the object" + why});
    }
  }

  /// Where the declaration begins with the attributes before it.
  unsigned with_attributes(const CXXMethodDecl* method, StringRef text, unsigned begin) {
    for (const Attr* each : method->attrs()) {
      const auto at = places_.range(each->getRange());
      if (each->isImplicit() || !at || at->first >= begin) continue;
      const std::size_t bracket = text.take_front(at->first).rfind("[[");
      if (bracket == StringRef::npos || text.slice(bracket, at->first).contains("]]")) continue;
      begin = std::min(begin, static_cast<unsigned>(bracket));
    }
    return begin;
  }

  void add_definition(const CXXMethodDecl* method) {
    if (!method->doesThisDeclarationHaveABody() || method->isDefaulted() ||
        method->isTemplateInstantiation())
      return;
    // Those in the class are described with it.
    if (isa<CXXConstructorDecl, CXXDestructorDecl>(method) || method->isStatic() ||
        method->isOutOfLine())
      pending_.push_back(method);
  }

 public:
  /// When all classes and calls are known.
  void finish() {
    for (auto& [at, mention] : mentions_)
      if (!callers_.contains(at) && !others_.contains(at)) model_.mentions.insert(mention);
    for (auto& [at, caller] : callers_) {
      model_.callers.insert(caller);
    }
    for (const unsigned at : others_) {
      if (!dependent_.contains(at)) continue;
      const Spot spot = places_.spot(SourceLocation::getFromRawEncoding(at));
      model_.others.insert({spot.file, spot.offset});
    }
    for (const CXXMethodDecl* method : pending_) {
      ModelClass* const of = class_of(method->getParent());
      if (of == nullptr) continue;
      if (isa<CXXConstructorDecl, CXXDestructorDecl>(method) || method->isStatic()) {
        const Spot at = places_.spot(method->getLocation());
        of->others.emplace(at.offset, body_of(places_, method));
        continue;
      }
      const auto found = of->methods.find(place_key(places_, method));
      if (found != of->methods.end()) add_outer(method, found->second);
    }
  }

 private:
  void add_outer(const CXXMethodDecl* method, ModelMethod& found) {
    if (!found.is_written) return;
    const FunctionTypeLoc type = method->getFunctionTypeLoc();
    const auto name = places_.range(method->getLocation());
    const auto open = places_.range(type.isNull() ? SourceLocation() : type.getLParenLoc());
    const auto close = places_.range(type.isNull() ? SourceLocation() : type.getRParenLoc());
    const auto body = places_.range(method->getBody()->getBeginLoc());
    const auto refuse = [&](const std::string& why) {
      const Refusal refusal{places_.spot(method->getLocation()), why};
      found.refusals.push_back(refusal);
      found.static_refusals.push_back(refusal);
    };
    if (!name || !open || !close || !body) return refuse(kInAMacro);
    found.outer = OuterDefinition{
        .at = places_.spot(method->getLocation()),
        .name_begin = name->first,
        .name_end = name->second,
        .open = open->second,
        .close = close->first,
        .nothing = nothing_between(method, open->second, close->first),
        .tail_end = body->first,
        .arguments = arguments_of(method),
        .comments = places_.comments(method->getLocation(), open->second, close->first),
        .dropped = dropped(method, close->second, body->first)};
    if (found.outer->dropped.size() != std::size_t{method->isConst()})
      refuse("has const in a macro: write out what that stands for");
    for (const ParmVarDecl* each : method->parameters())
      if (each->hasDefaultArg() && !each->hasInheritedDefaultArg())
        found.refusals.push_back({places_.spot(each->getLocation()),
                                  "the argument " + each->getNameAsString() +
                                      " has its default here: write that in the class"});
    found.body = body_of(places_, method);
  }

  Places places_;
  Unit unit_;
  Model& model_;
  const CXXMethodDecl* within_ = nullptr;      ///< of a class of objects
  const FieldDecl* member_ = nullptr;          ///< that is initialized in its class
  unsigned blocks_ = 0;                        ///< how many are around
  unsigned noexcepts_ = 0;                     ///< operators and requirements that are around
  unsigned questions_ = 0;                     ///< requires-expressions, decltypes and the like
  unsigned constants_ = 0;                     ///< of what is known when the program is compiled
  std::set<const Stmt*> clauses_;              ///< of requires
  std::map<unsigned, Mention> mentions_;       ///< by their places
  std::multimap<unsigned, Caller> callers_;    ///< by their places
  std::set<unsigned> others_;                  ///< places of calls of other classes' methods
  std::set<unsigned> dependent_;               ///< places of calls in templates
  std::vector<const CXXMethodDecl*> pending_;  ///< until all classes are known
};

/// Whether a name that is made for a method of the model could be the same (refactor_generate.cc).
bool may_be_made(StringRef name, const Model& model) {
  if (name.starts_with("simpo_") || name.contains("Context") || name == "ALL") return true;
  return std::ranges::any_of(model.classes, [&](const auto& each) {
    return std::ranges::any_of(each.second.methods, [&](const auto& method) {
      return name.starts_with(method.second.name + "_");
    });
  });
}

void add_names_of(const DeclContext* context, Model& model) {
  const bool is_global = context->isTranslationUnit();
  const auto all = context->lookups();
  for (auto at = all.begin(); at != all.end(); ++at) {
    const DeclarationName name = at.getLookupName();
    if (name.isIdentifier() && name.getAsIdentifierInfo() != nullptr &&
        may_be_made(name.getAsIdentifierInfo()->getName(), model) &&
        !(is_global && name.getAsString() == "ALL"))  // which is the library's
      model.names.insert(name.getAsString());
  }
}

void add_names(const ASTContext& context, Model& model) {
  std::vector<const DeclContext*> to_see = {context.getTranslationUnitDecl()};
  while (!to_see.empty()) {
    const DeclContext* const each = to_see.back();
    to_see.pop_back();
    add_names_of(each, model);
    for (const Decl* decl : each->decls())
      if (isa<NamespaceDecl, LinkageSpecDecl>(decl)) to_see.push_back(cast<DeclContext>(decl));
  }
  for (const auto& each : context.Idents)
    if (each.getValue()->hadMacroDefinition() && may_be_made(each.getKey(), model))
      model.names.insert(each.getKey().str());
}

}  // namespace

Model extract_model(ASTContext& context) {
  Model model;
  Extractor extractor(context, model);
  extractor.TraverseDecl(context.getTranslationUnitDecl());
  extractor.finish();
  if (!model.classes.empty()) add_names(context, model);
  return model;
}

void Model::join(Model&& unit) {
  for (auto& [key, each] : unit.classes) {
    const auto [at, is_new] = classes.try_emplace(key, std::move(each));
    if (is_new) continue;
    for (auto& [name, method] : each.methods) {
      ModelMethod& known = at->second.methods[name];
      if (!known.body && method.body) known = std::move(method);
    }
    at->second.others.merge(each.others);
  }
  callers.merge(unit.callers);
  others.merge(unit.others);
  mentions.merge(unit.mentions);
  refusals.merge(unit.refusals);
  names.merge(unit.names);
  threads.merge(unit.threads);
}

}  // namespace perdura::source
