// From a translation unit to what refactor needs of it.
#include <clang/AST/Attr.h>
#include <clang/AST/DeclFriend.h>
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
    if (each.isInvalid() || (each.isMacroID() && !sources_.isMacroArgExpansion(each)))
      return std::nullopt;
  const CharSourceRange found = Lexer::makeFileCharRange(CharSourceRange::getTokenRange(range),
                                                         sources_, context_.getLangOpts());
  if (found.isInvalid()) return std::nullopt;
  return std::pair(sources_.getFileOffset(found.getBegin()),
                   sources_.getFileOffset(found.getEnd()));
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
    if (method != nullptr && is_ours(method->getParent())) {
      add_definition(method);
      if (!method->isStatic() && !isa<CXXConstructorDecl, CXXDestructorDecl>(method)) return true;
      // They stay, and may call other objects.
      in_class_ = true;
      const bool result = RecursiveASTVisitor::TraverseDecl(decl);
      in_class_ = false;
      return result;
    }
    return RecursiveASTVisitor::TraverseDecl(decl);
  }

  bool VisitCXXRecordDecl(CXXRecordDecl* record) {
    if (record->isThisDeclarationADefinition() && is_ours(record) &&
        !isa<ClassTemplateSpecializationDecl>(record) &&
        record->getTemplateInstantiationPattern() == nullptr)
      add_class(record);
    return true;
  }

  bool VisitMemberExpr(MemberExpr* member) {
    const auto* const method = dyn_cast<CXXMethodDecl>(member->getMemberDecl());
    if (method == nullptr || method->isStatic()) return true;
    if (!is_ours(method->getParent())) {
      others_.insert(member->getMemberLoc().getRawEncoding());
      return true;
    }
    Caller caller = caller_of(method, member->getMemberLoc());
    if (isa<CXXThisExpr>(member->getBase()->IgnoreParenImpCasts())) return true;
    const QualType base = member->getBase()->IgnoreParenImpCasts()->getType();
    const QualType object = member->isArrow() ? base->getPointeeType() : base;
    if (object.isConstQualified())
      caller.refused =
          "is called of a const object, and calls that are logged change it: take "
          "the object without const";
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
  bool VisitCallExpr(CallExpr* call) {
    const FunctionDecl* const callee = call->getDirectCallee();
    if (callee == nullptr || callee->getIdentifier() == nullptr ||
        callee->getName() != "pthread_create" || call->getNumArgs() != 4)
      return true;
    const auto name = places_.range(call->getCallee()->getSourceRange());
    const auto close = places_.range(call->getRParenLoc());
    if (!name || !close) return true;
    ThreadStart start{
        .at = places_.spot(call->getBeginLoc()), .name_end = name->second, .close = close->first};
    start.at.offset = name->first;
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

  Caller caller_of(const CXXMethodDecl* method, SourceLocation at) {
    return {.callee = place_key(places_, method), .at = places_.spot(at), .refused = ""};
  }
  void add(Caller& caller, SourceLocation at) {
    if (const auto name = places_.range(at)) {
      caller.begin = name->first;
      caller.end = name->second;
    } else {
      caller.refused = "is called in a macro: write out what the macro stands for";
    }
    caller.in_class = in_class_;
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
    const auto braces = places_.range(record->getBraceRange());
    if (!braces) {
      refuse(record->getLocation(), "the class is in a macro: write out what that stands for");
      model_.classes.emplace(key_of(record), std::move(found));
      return;
    }
    found.open = braces->first + 1;
    found.close = braces->second - 1;
    if (record->isInAnonymousNamespace())
      refuse(record->getLocation(),
             "the class is in an unnamed namespace, and a log knows functions by their names: give "
             "the namespace a name");
    if (record->isLocalClass() != nullptr || record->getIdentifier() == nullptr)
      refuse(record->getLocation(),
             "the class has no name that other functions know: put it outside of the function");
    for (const Token& each : places_.tokens(record->getLocation(), found.open, found.close)) {
      if (each.text != "#" || !each.begins_line) continue;
      const StringRef rest = places_.text(record->getLocation()).substr(each.end).ltrim(" \t");
      if (!rest.starts_with("if") && !rest.starts_with("el")) continue;
      Spot at = found.at;
      at.line += static_cast<unsigned>(
          places_.text(record->getLocation()).slice(at.offset, each.begin).count('\n'));
      at.column = 1;
      found.refusals.push_back({at,
                                "what the class has depends on a macro here, and what is left out "
                                "is not seen: make two classes of it"});
      break;
    }
    for (const Decl* each : record->decls()) add_member(found, each);
    model_.classes.emplace(key_of(record), std::move(found));
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
    if (method->isPureVirtual()) both("has no body (= 0): write it in the class that has it");
    check_names(method, found);
    check_result(method, found);
    describe_text(method, found);
    return found;
  }

  /// What is written behind the class's names must find those of POBase, and its own.
  void check_names(const CXXMethodDecl* method, ModelMethod& found) {
    static const std::set<std::string> kOfPOBase = {"defer", "inst", "sync", "poid", "poroot"};
    if (kOfPOBase.contains(found.name))
      found.refusals.push_back({found.at, "is called as what POBase has: give it another name"});
    for (const ParmVarDecl* each : method->parameters()) {
      const std::string name = each->getNameAsString();
      if (name == found.name || name == "defer" || name == "inst" || name == "ALL")
        found.refusals.push_back(
            {places_.spot(each->getLocation()),
             "the argument " + name + " hides what its call needs: give it another name"});
    }
    for (const CXXMethodDecl* other : method->getParent()->methods()) {
      if (other == method || other->getAccess() != AS_public || method->getAccess() != AS_public ||
          other->getDeclName() != method->getDeclName() || !method->isConst() || other->isConst() ||
          !std::ranges::equal(other->parameters(), method->parameters(),
                              [](const ParmVarDecl* a, const ParmVarDecl* b) {
                                return a->getType().getCanonicalType() ==
                                       b->getType().getCanonicalType();
                              }))
        continue;
      found.refusals.push_back(
          {found.at,
           "is there once more without const, and calls that are logged are of "
           "no const object: give one another name"});
    }
  }

  void check_result(const CXXMethodDecl* method, ModelMethod& found) {
    const QualType type = method->getReturnType();
    if (type->isVoidType() || type->isDependentType()) return;
    const std::string said = type.getAsString(unit_.policy());
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
      found.name_at = type_end;
      while (found.name_at > begin->first && isspace(text[found.name_at - 1])) --found.name_at;
      found.type = type_text(each, begin->first, found.name_at);
      all.push_back(std::move(found));
    }
    return all;
  }

  /// Without const, comments and attributes.
  std::string type_text(const ParmVarDecl* parameter, unsigned begin, unsigned end) {
    std::string text;
    unsigned last = begin;
    unsigned brackets = 0;
    int nested = 0;
    for (const Token& each : places_.tokens(parameter->getLocation(), begin, end)) {
      const bool is_const = each.text == "const" && nested == 0;
      nested += each.text == "<" ? 1 : each.text == ">" ? -1 : each.text == ">>" ? -2 : 0;
      if (each.is_comment || is_const || each.text == "register") {
        last = each.end;
        continue;
      }
      if (each.text == "[" && nested == 0) ++brackets;
      if (brackets == 0) {
        if (!text.empty() && each.begin > last) text += ' ';
        text += each.text;
      }
      if (each.text == "]" && nested == 0) --brackets;
      last = each.end;
    }
    return text;
  }

  void describe_text(const CXXMethodDecl* method, ModelMethod& found) {
    const FunctionTypeLoc type = method->getFunctionTypeLoc();
    const auto fail = [&] {
      const Refusal refusal{found.at, "is in a macro: write out what that stands for"};
      found.refusals.push_back(refusal);
      found.static_refusals.push_back(refusal);
    };
    if (type.isNull()) return fail();
    const auto begin = places_.range(method->getBeginLoc());
    const auto name = places_.range(method->getLocation());
    const auto open = places_.range(type.getLParenLoc());
    const auto close = places_.range(type.getRParenLoc());
    if (!begin || !name || !open || !close) return fail();
    const StringRef text = places_.text(method->getLocation());
    found.begin = begin->first;
    for (const Attr* each : method->attrs()) {
      if (each->isImplicit() || !each->isStandardAttributeSyntax() || isa<AnnotateAttr>(each))
        continue;
      const auto at = places_.range(each->getRange());
      if (at && !isa<FinalAttr>(each) && !isa<OverrideAttr>(each))
        found.attributes += "[[" + text.slice(at->first, at->second).str() + "]] ";
    }
    found.begin = with_attributes(method, text, found.begin);
    found.open = open->second;
    found.close = close->first;
    found.arguments = arguments_of(method);
    // Before the name.
    unsigned last = found.begin;
    for (const Token& each : places_.tokens(method->getLocation(), begin->first, name->first)) {
      if (each.is_comment) {
        found.comments += each.text + "\n";
      } else if (each.text == "virtual") {
        found.before += "virtual ";
      } else if (each.text != "inline" && each.text != "constexpr") {
        if (!found.result.empty() && each.begin > last) found.result += ' ';
        found.result += each.text;
      }
      last = each.end;
    }
    if (found.result == "auto") found.result = method->getReturnType().getAsString(unit_.policy());
    // Behind the arguments.
    const bool has_body = method->doesThisDeclarationHaveABody();
    found.tail_end = found.close + 1;
    unsigned limit = static_cast<unsigned>(text.size());
    if (has_body) {
      const auto body = places_.range(method->getBody()->getBeginLoc());
      if (!body) return fail();
      limit = body->first;
    }
    std::string keeps;
    int nested = 0;
    bool in_noexcept = false;
    for (const Token& each : places_.tokens(method->getLocation(), found.close + 1, limit)) {
      if (each.text == ";" && nested == 0) {
        limit = each.begin;
        break;
      }
      nested += each.text == "(" ? 1 : each.text == ")" ? -1 : 0;
      if (each.is_comment) found.comments += each.text + "\n";
      if (each.text == "noexcept") in_noexcept = true;
      else if (in_noexcept && nested == 0 && each.text != ")") in_noexcept = false;
      if (in_noexcept) keeps += each.text;
      if (each.text == "override" || each.text == "final") found.after += " " + each.text;
      if (each.text == ",")
        found.refusals.push_back({found.at, "is declared with others: write a line for each"});
    }
    found.noexcept_text = keeps.empty() ? "" : " " + keeps;
    found.tail_end = limit;
    found.end = limit + 1;
    if (has_body) {
      found.body = body_of(places_, method);
      found.end = found.body->end;
      for (const Token& each :
           places_.tokens(method->getLocation(), found.end, static_cast<unsigned>(text.size()))) {
        if (each.text == ";") found.end = each.end;  // one too many
        break;
      }
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
    for (auto& [at, caller] : callers_) {
      if (others_.contains(at))
        caller.refused =
            "is called here in a template, of objects of other classes as well: write "
            "a function for these";
      model_.callers.insert(caller);
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
    const FunctionTypeLoc type = method->getFunctionTypeLoc();
    const auto name = places_.range(method->getLocation());
    const auto open = type.isNull() ? std::nullopt : places_.range(type.getLParenLoc());
    const auto close = type.isNull() ? std::nullopt : places_.range(type.getRParenLoc());
    const auto body = places_.range(method->getBody()->getBeginLoc());
    if (!name || !open || !close || !body) {
      const Refusal refusal{places_.spot(method->getLocation()),
                            "is in a macro: write out what that stands for"};
      found.refusals.push_back(refusal);
      found.static_refusals.push_back(refusal);
      return;
    }
    found.outer = OuterDefinition{.at = places_.spot(method->getLocation()),
                                  .name_begin = name->first,
                                  .name_end = name->second,
                                  .open = open->second,
                                  .close = close->first,
                                  .tail_end = body->first,
                                  .arguments = arguments_of(method)};
    found.body = body_of(places_, method);
  }

  Places places_;
  Unit unit_;
  Model& model_;
  bool in_class_ = false;  ///< in a function of a class of objects that stays as it is
  std::multimap<unsigned, Caller> callers_;    ///< by their places
  std::set<unsigned> others_;                  ///< places of calls of other classes' methods
  std::vector<const CXXMethodDecl*> pending_;  ///< until all classes are known
};

}  // namespace

Model extract_model(ASTContext& context) {
  Model model;
  Extractor extractor(context, model);
  extractor.TraverseDecl(context.getTranslationUnitDecl());
  extractor.finish();
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
  threads.merge(unit.threads);
}

}  // namespace perdura::source
