// Clang's plugin of perdura-clang --perdura-types (docs/types.md): finds the type of each
// allocation, and lets the call call a function that does not exist, whose name says what is
// wanted. Arguments stay as they are. The pass (replace.cc) makes calls of the library of these,
// with type records.
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Mangle.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Basic/Builtins.h>
#include <clang/Basic/Version.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendPluginRegistry.h>
#include <clang/Serialization/ASTReader.h>
#include <llvm/Support/raw_ostream.h>

#include "allocators.hpp"
#include "buffers.hpp"
#include "deduce.hpp"
#include "messages.hpp"

namespace perdura::types {
namespace {

using namespace clang;

constexpr char kRemedy[] =
    "cast the result to a pointer to its type, assign it to one, or say sizeof(type)";
constexpr char kAligned[] = "memory that is aligned so has no type";

/// What a function that allocates is replaced with, and where its sizes are.
struct Allocator {
  const char* typed;
  const char* raw;
  int size;
  int count = -1;
};
const std::map<std::string, Allocator>& allocators_of_c() {
  static const std::map<std::string, Allocator> all{
      {"malloc", {"perdura_typed_malloc", "perdura_typed_raw_malloc", 0}},
      {"calloc", {"perdura_typed_calloc", "perdura_typed_raw_calloc", 1, 0}},
      {"realloc", {"perdura_typed_realloc", "perdura_typed_raw_realloc", 1}}};
  return all;
}
const std::set<std::string>& untypable() {
  static const std::set<std::string> all{"aligned_alloc", "memalign", "posix_memalign", "valloc",
                                         "pvalloc"};
  return all;
}

class Visitor : public RecursiveASTVisitor<Visitor> {
 public:
  Visitor(CompilerInstance& compiler, const Settings& settings)
      : compiler_(compiler),
        context_(compiler.getASTContext()),
        settings_(settings),
        messages_(compiler, settings),
        allocators_(context_, settings, messages_),
        records_(context_),
        buffers_(context_, records_) {}

  bool shouldVisitTemplateInstantiations() const { return true; }
  bool shouldVisitImplicitCode() const { return true; }

  bool TraverseStmt(Stmt* statement) {
    if (statement == nullptr) return true;
    path_.push_back(statement);
    const bool more = RecursiveASTVisitor::TraverseStmt(statement);
    path_.pop_back();
    return more;
  }

  bool TraverseDecl(Decl* decl) {
    auto* const function = dyn_cast_or_null<FunctionDecl>(decl);
    if (function == nullptr) return RecursiveASTVisitor::TraverseDecl(decl);
    const auto* const method = dyn_cast<CXXMethodDecl>(function);
    const bool is_lambda = method != nullptr && method->getParent()->isLambda();
    // Those that nobody wrote are constexpr by themselves.
    const bool is_written = !function->isImplicit() && !function->isDefaulted();
    if (function->isDependentContext()) return true;
    // The compiler computes constants with them, and cannot do so with calls that are replaced.
    if (function->isConstexpr() && is_written && !is_lambda && !computed_constants_) {
      for_constants_.push_back(function);
      return true;
    }
    const FunctionDecl* const around = std::exchange(function_, function);
    const bool was = in_allocator_;
    in_allocator_ = allocators_.has(function);
    // The pass calls it where the front end sees no call any more.
    if (in_allocator_) (void)allocators_.size_argument(function);  // what is wrong with it is said
    if (in_allocator_ && function->isThisDeclarationADefinition() && !function->hasAttr<UsedAttr>())
      function->addAttr(UsedAttr::CreateImplicit(context_));
    if (method != nullptr) buffers_.note_method(method);
    const bool more = RecursiveASTVisitor::TraverseDecl(decl);
    in_allocator_ = was;
    function_ = around;
    return more;
  }

  bool VisitCallExpr(CallExpr* call) {
    FunctionDecl* const callee = call->getDirectCallee();
    if (call->isTypeDependent() || call->isValueDependent()) return true;
    note_arguments(call);
    if (callee == nullptr) return true;
    if (allocators_.has(callee)) {
      tag(call, callee);
      return true;
    }
    if (is_operator_new(callee)) {
      if (call->getNumArgs() == 1) allocate(call, {"perdura_typed_new", "", 0}, callee);
      else leave_untyped(call, callee, untyped_new(call->getArg(1)->getType()));
      return true;
    }
    if (!callee->getIdentifier() || !callee->isExternC() || callee->getDefinition() != nullptr)
      return true;
    std::string name = callee->getName().str();
    if (name.starts_with("__builtin_")) name = name.substr(sizeof "__builtin_" - 1);
    if (const auto found = allocators_of_c().find(name); found != allocators_of_c().end())
      allocate(call, found->second, callee);
    else if (name == "strdup" || name == "strndup")
      mark(call, {"perdura_typed_" + name, nullptr, 0, Marked::Kind::kTyped, {}, {}});
    else if (name == "reallocarray") leave_untyped(call, callee, "write realloc(p, n * sizeof *p)");
    else if (untypable().count(name) != 0) leave_untyped(call, callee, kAligned);
    else if (name == "perdura_record_of") record_of(call);
    else if (name == "pCAlloc" || name == "pCOpen" || name == "pCRestore") root(call, name);
    return true;
  }

  bool VisitDeclRefExpr(const DeclRefExpr* name) {
    const auto* const function = dyn_cast<FunctionDecl>(name->getDecl());
    if (function == nullptr || is_called(name)) return true;
    buffers_.note_by_pointer(function, function->getType());
    if (function->getIdentifier() == nullptr || !function->isExternC() ||
        allocators_of_c().count(function->getName().str()) == 0)
      return true;
    messages_.list(name->getBeginLoc(),
                   "the address of '" + function->getName().str() +
                       "' is taken here: what is allocated by it has no type, and "
                       "is not counted");
    return true;
  }

  // &T::member
  bool VisitUnaryOperator(const UnaryOperator* address) {
    const auto* const name = dyn_cast<DeclRefExpr>(address->getSubExpr()->IgnoreParens());
    if (address->getOpcode() != UO_AddrOf || name == nullptr || !isa<FieldDecl>(name->getDecl()))
      return true;
    const Decl* const any = buffers_.any_of(address->getType());
    buffers_.note_flow(canonical(name->getDecl()), any);
    buffers_.note_flow(any, canonical(name->getDecl()));
    return true;
  }

  // A constructor that nobody wrote is no declaration that the compiler hands over.
  bool VisitCXXConstructExpr(const CXXConstructExpr* made) {
    note_arguments(made);
    CXXConstructorDecl* const constructor = made->getConstructor();
    const bool is_written = !constructor->isImplicit() && !constructor->isDefaulted();
    if (is_written || !constructor->isThisDeclarationADefinition()) return true;
    return !implicit_.insert(constructor).second || TraverseDecl(constructor);
  }
  // Of a member that its class initializes: an instance of a template has its own.
  bool VisitCXXDefaultInitExpr(CXXDefaultInitExpr* member) {
    note_flow(member->getExpr(), member->getField());
    return TraverseStmt(member->getExpr());
  }
  bool TraverseConstructorInitializer(CXXCtorInitializer* initializer) {
    const FieldDecl* const member = initializer->getAnyMember();
    if (member != nullptr) note_flow(initializer->getInit(), member);
    return initialize(
        member, [&] { return RecursiveASTVisitor::TraverseConstructorInitializer(initializer); });
  }
  bool TraverseVarDecl(VarDecl* variable) {
    return initialize(variable, [&] { return RecursiveASTVisitor::TraverseVarDecl(variable); });
  }
  bool TraverseFieldDecl(FieldDecl* member) {
    return initialize(member, [&] { return RecursiveASTVisitor::TraverseFieldDecl(member); });
  }

  bool VisitCastExpr(const CastExpr* cast) {
    const Expr* const sub = cast->getSubExpr();
    // reinterpret_cast<node*&>(bytes[8])
    if (cast->getCastKind() == CK_LValueBitCast &&
        (sub->getType()->isArithmeticType() || sub->getType()->isStdByteType()))
      note_cast(sub, cast->getType());
    const QualType to = cast->getType()->getPointeeType();
    const Expr* const from = without_numbers(sub);
    if (to.isNull()) return true;
    if (is_raw(from)) note_cast(from, to);
    // (struct node**)&bytes
    const auto* const address = dyn_cast<UnaryOperator>(from);
    if (address != nullptr && address->getOpcode() == UO_AddrOf && to->isPointerType() &&
        is_raw(address->getSubExpr()))
      note_cast(address->getSubExpr(), to->getPointeeType());
    return true;
  }

  // Where a pointer to bytes, or to anything, goes on.
  bool VisitVarDecl(const VarDecl* variable) {
    if (variable->getInit() != nullptr) note_flow(variable->getInit(), variable);
    return true;
  }
  bool VisitBinaryOperator(const BinaryOperator* operation) {
    if (operation->getOpcode() == BO_Assign)
      note_flow(operation->getRHS(), named_by(operation->getLHS()));
    return true;
  }
  bool VisitReturnStmt(ReturnStmt* statement) {
    if (statement->getRetValue() == nullptr) return true;
    note_flow(statement->getRetValue(), function_);
    if (gives_array_with_counts(function_))
      statement->setRetValue(as_words(statement->getRetValue()));
    return true;
  }
  bool VisitInitListExpr(const InitListExpr* list) {
    if (const RecordDecl* const record = list->getType()->getAsRecordDecl())
      for (const Expr* each : list->inits())
        if (const FieldDecl* const member = initialized_by(list, record, each))
          note_flow(each, member);
    return true;
  }

  bool VisitCXXNewExpr(CXXNewExpr* expression) {
    // A pointer in memory of its own, as an element of a container is.
    if (expression->hasInitializer() && expression->getAllocatedType()->isPointerType())
      note_flow(only_argument(expression->getInitializer()), buffers_.anywhere());
    if (expression->getNumPlacementArgs() == 1 && !expression->isTypeDependent())
      note_cast(expression->getPlacementArg(0), expression->getAllocatedType());
    FunctionDecl* const callee = expression->getOperatorNew();
    if (callee == nullptr || expression->isTypeDependent() || is_marker(callee) ||
        expression->getNumPlacementArgs() > 1 || !callee->isReplaceableGlobalAllocationFunction())
      return true;
    ++sites_;
    const QualType type = expression->getAllocatedType();
    const bool is_plain = callee->getNumParams() == 1;
    if (!type->isIncompleteType() && is_plain) {
      RecordPtr record = records_.of(type);
      unsigned shape = record->has_tail() ? 1 : 0;
      if (record->refused.empty()) {
        if (expression->isArray() && needs_cookie(expression)) {
          record = records_.behind_cookie(record, cookie_bytes(type));
          shape = 1;
        }
        expression->setOperatorNew(
            marker(callee->getType(),
                   taken({"perdura_typed_new", record, shape, Marked::Kind::kTyped, {}, {}},
                         use_of_call())));
        return true;
      }
      say(expression->getBeginLoc(), "new", record->refused);
    } else {
      say(expression->getBeginLoc(), "new", untyped_new(callee->getParamDecl(1)->getType()));
    }
    expression->setOperatorNew(marker(
        callee->getType(), untyped(callee, callee->getType(), expression->getBeginLoc(), "new")));
    return true;
  }

  void finish() {
    // Of a precompiled header, which has no marks, only what needs code by itself was handed over.
    if (compiler_.getASTReader() != nullptr)
      for (Decl* each : context_.getTranslationUnitDecl()->decls())
        if (each->isFromASTFile()) TraverseDecl(each);
    computed_constants_ = true;
    for (size_t i = 0; i < for_constants_.size(); ++i) TraverseDecl(for_constants_[i]);
    buffers_.widen();
    if (untyped_ == 0 || !settings_.list_file.empty() || settings_.lists) return;
    DiagnosticsEngine& diagnostics = compiler_.getDiagnostics();
    const unsigned id = diagnostics.getCustomDiagID(
        DiagnosticsEngine::Remark,
        "perdura: %0 of %1 allocations have no type, and what they make is in no version; "
        "--perdura-types-list names them");
    diagnostics.Report(id) << untyped_ << sites_;
  }

 private:
  // --- what is called

  /// Of any arguments.
  static bool is_operator_new(const FunctionDecl* function) {
    const OverloadedOperatorKind kind = function->getDeclName().getCXXOverloadedOperator();
    return function->getBuiltinID() == Builtin::BI__builtin_operator_new ||
           ((kind == OO_New || kind == OO_Array_New) &&
            function->isReplaceableGlobalAllocationFunction());
  }
  /// Visit what says what a variable, or member, is at first.
  template <class Traverse>
  bool initialize(const ValueDecl* what, Traverse&& traverse) {
    const ValueDecl* const around = std::exchange(initialized_, what);
    path_.push_back(nullptr);
    const bool more = traverse();
    path_.pop_back();
    initialized_ = around;
    return more;
  }

  static std::string untyped_new(QualType second_argument) {
    return second_argument.getNonReferenceType()->isAlignValT() ? kAligned
                                                                : "new (std::nothrow) has no type";
  }
  static bool is_marker(const FunctionDecl* function) {
    return function->getIdentifier() != nullptr &&
           function->getName().starts_with("__perdura_mark.");
  }

  /// std::make_shared<T[]> lets the counts lie behind the elements, in memory that it has as some
  /// elements more.
  static bool gives_array_with_counts(const FunctionDecl* function) {
    const auto* const method = dyn_cast_or_null<CXXMethodDecl>(function);
    return method != nullptr && method->getIdentifier() != nullptr &&
           method->getName() == "_M_alloc_array" && method->getParent()->isInStdNamespace() &&
           method->getParent()->getName() == "_Sp_counted_array_base";
  }
  /// The same pointer: what lies there are words that may be pointers.
  Expr* as_words(Expr* memory) {
    const QualType type = memory->getType();
    if (!type->isPointerType()) return memory;
    const QualType parameters[] = {context_.VoidPtrTy, context_.getSizeType()};
    const QualType called =
        context_.getFunctionType(context_.VoidPtrTy, parameters, FunctionProtoType::ExtProtoInfo());
    FunctionDecl* const made =
        marker(called, {"perdura_typed_tag", records_.words(), 0, Marked::Kind::kTyped, {}, {}});
    const auto cast = [&](Expr* from, QualType to, CastKind kind) -> Expr* {
      return ImplicitCastExpr::Create(context_, to, kind, from, nullptr, VK_PRValue,
                                      FPOptionsOverride());
    };
    Expr* const bytes = IntegerLiteral::Create(
        context_,
        llvm::APInt(static_cast<unsigned>(context_.getTypeSize(context_.getSizeType())), 1),
        context_.getSizeType(), memory->getBeginLoc());
    Expr* const arguments[] = {cast(memory, context_.VoidPtrTy, CK_BitCast), bytes};
    Expr* const call = CallExpr::Create(context_, reference_to(made, memory->getBeginLoc()),
                                        arguments, context_.VoidPtrTy, VK_PRValue,
                                        memory->getBeginLoc(), FPOptionsOverride());
    return cast(call, type, CK_BitCast);
  }

  /// Whether the name is that of what a call calls.
  bool is_called(const DeclRefExpr* name) const {
    const Stmt* used = name;
    for (size_t i = path_.size() - 1; i-- > 0 && path_[i] != nullptr; used = path_[i]) {
      if (isa<CastExpr>(path_[i]) || isa<ParenExpr>(path_[i])) continue;
      const auto* const call = dyn_cast<CallExpr>(path_[i]);
      return call != nullptr && call->getCallee() == used;
    }
    return false;
  }
  /// `new T(p)`, `new T{p}`
  static const Expr* only_argument(const Expr* initializer) {
    if (const auto* list = dyn_cast<ParenListExpr>(initializer))
      return list->getNumExprs() == 1 ? list->getExpr(0) : initializer;
    const Expr* const inside = in_braces(initializer);
    return inside != nullptr ? inside : initializer;
  }

  /// Where the innermost call's result is used: what it is a pointer to there, null where nothing
  /// says that; and what takes it, a variable, a member, or the function that returns it.
  struct Use {
    QualType pointee;
    const Decl* taker = nullptr;
    bool is_part = false;  ///< something behind its beginning is used so
  };
  Use use_of_call() {
    Use use;
    for (size_t i = path_.size() - 1; i-- > 0;) {
      const Stmt* const at = path_[i];
      const Stmt* const used = path_[i + 1];
      if (at == nullptr) {
        if (initialized_ != nullptr) use.taker = canonical(initialized_);
        break;
      }
      if (isa<ParenExpr>(at) || isa<FullExpr>(at) || isa<BinaryConditionalOperator>(at) ||
          isa<OpaqueValueExpr>(at) || isa<MaterializeTemporaryExpr>(at) || in_braces(at) != nullptr)
        continue;
      if (const auto* choice = dyn_cast<ConditionalOperator>(at); choice != nullptr) {
        if (choice->getCond() == used) break;
        continue;
      }
      if (const auto* operation = dyn_cast<BinaryOperator>(at);
          operation != nullptr && operation->getOpcode() == BO_Comma && operation->getRHS() == used)
        continue;
      if (const auto* sum = dyn_cast<BinaryOperator>(at);
          sum != nullptr && sum->isAdditiveOp() && sum->getType()->isPointerType()) {
        use.is_part = true;
        continue;
      }
      const auto* const cast = dyn_cast<CastExpr>(at);
      if (cast == nullptr || !cast->getType()->isPointerType()) {
        use.taker = taker_of(at, used);
        break;
      }
      const QualType to = cast->getType()->getPointeeType();
      if (to->isVoidType() || (!use.pointee.isNull() && !use.pointee->isCharType())) continue;
      if (!to->isCharType() || use.pointee.isNull()) use.pointee = to;
    }
    return use;
  }

  const Decl* taker_of(const Stmt* at, const Stmt* used) {
    if (isa<ReturnStmt>(at)) return function_ != nullptr ? function_->getCanonicalDecl() : nullptr;
    if (const auto* assignment = dyn_cast<BinaryOperator>(at))
      return assignment->getOpcode() == BO_Assign && assignment->getRHS() == used
                 ? named_by(assignment->getLHS())
                 : nullptr;
    if (const auto* list = dyn_cast<InitListExpr>(at))
      if (const RecordDecl* const record = list->getType()->getAsRecordDecl())
        return initialized_by(list, record, used);
    if (const auto* designated = dyn_cast<DesignatedInitExpr>(at))
      return designated->getDesignator(designated->size() - 1)->isFieldDesignator()
                 ? designated->getDesignator(designated->size() - 1)->getFieldDecl()
                 : nullptr;
    if (const auto* member = dyn_cast<CXXDefaultInitExpr>(at)) return member->getField();
    if (isa<CXXNewExpr>(at)) return buffers_.anywhere();
    const Decl* found = nullptr;
    for_each_argument(at, [&](const Expr* argument, const Decl* parameter) {
      if (argument == used) found = canonical(parameter);
    });
    return found;
  }

  /// The member of the structure that is initialized with this, or null.
  static const FieldDecl* initialized_by(const InitListExpr* list, const RecordDecl* record,
                                         const Stmt* with) {
    if (list->getSemanticForm() != nullptr) list = list->getSemanticForm();
    if (record->isUnion()) return list->getInitializedFieldInUnion();
    unsigned i = 0;
    if (const auto* cxx = dyn_cast<CXXRecordDecl>(record)) i = cxx->getNumBases();
    for (const FieldDecl* field : record->fields()) {
      if (field->isUnnamedBitField()) continue;
      if (i >= list->getNumInits()) return nullptr;
      const Expr* const init = list->getInit(i++);
      if (init == with || init->IgnoreParenImpCasts() == with) return field;
    }
    return nullptr;
  }

  /// Of a call that is one, with its parameters.
  template <class Visit>
  void for_each_argument(const Stmt* call, Visit&& visit) {
    const auto all = [&](const FunctionDecl* callee, auto arguments) {
      // What functions of libraries do with further ones nobody sees, as printf.
      const bool has_rest = callee->isVariadic() &&
                            !context_.getSourceManager().isInSystemHeader(callee->getLocation());
      unsigned i = 0;
      for (const Expr* each : arguments) {
        if (i < callee->getNumParams()) visit(each, callee->getParamDecl(i++));
        else if (has_rest) visit(each, buffers_.rest_of(callee));
      }
    };
    if (const auto* made = dyn_cast<CXXConstructExpr>(call)) {
      all(made->getConstructor(), made->arguments());
    } else if (const auto* called = dyn_cast<CallExpr>(call)) {
      const FunctionDecl* const callee = called->getDirectCallee();
      if (callee == nullptr) return for_each_by_pointer(called, visit);
      // Of operators that are members the first one is the object.
      const auto* const method = dyn_cast<CXXMethodDecl>(callee);
      const bool has_object = isa<CXXOperatorCallExpr>(call) && method != nullptr &&
                              !method->isExplicitObjectMemberFunction();
      all(callee, llvm::drop_begin(called->arguments(), has_object ? 1 : 0));
    }
  }

  template <class Visit>
  void for_each_by_pointer(const CallExpr* call, Visit&& visit) {
    const QualType type = Buffers::type_by_pointer(call->getCallee()->IgnoreParens());
    const auto* const called = type->getAs<FunctionProtoType>();
    if (called == nullptr) return;
    for (unsigned i = 0; i < called->getNumParams() && i < call->getNumArgs(); ++i)
      visit(call->getArg(i), buffers_.argument_of(type, i));
  }

  /// The pointer that is in a number, as where it is aligned: `((uintptr_t)p + 15) & ~15`.
  static const Expr* pointer_in(const Expr* number) {
    number = number->IgnoreParens();
    if (const auto* cast = dyn_cast<CastExpr>(number))
      return cast->getCastKind() == CK_PointerToIntegral ? cast->getSubExpr()
                                                         : pointer_in(cast->getSubExpr());
    const auto* const operation = dyn_cast<BinaryOperator>(number);
    if (operation == nullptr || !(operation->isAdditiveOp() || operation->isBitwiseOp()))
      return nullptr;
    const Expr* const left = pointer_in(operation->getLHS());
    return left != nullptr ? left : pointer_in(operation->getRHS());
  }
  /// What is cast, also where it was a number between.
  static const Expr* without_numbers(const Expr* pointer) {
    pointer = pointer->IgnoreParenCasts();
    const bool is_number = pointer->getType()->isIntegerType();
    const Expr* const inside = is_number ? pointer_in(pointer) : nullptr;
    return inside != nullptr ? inside->IgnoreParenCasts() : pointer;
  }

  /// To anything, or to what holds no pointers.
  bool is_raw(const Expr* pointer) {
    const QualType type = pointer->getType();
    if (!type->isPointerType() && !type->isArrayType()) return false;
    const Type* const element = type->getPointeeOrArrayElementType();
    if (const auto* record = element->getAs<RecordType>())
      return is_known(QualType(record, 0)) && !records_.of(QualType(record, 0))->has_pointers();
    return element->isVoidType() || element->isArithmeticType() || element->isStdByteType();
  }

  /// What stands alone in braces, `{p}`, or null.
  static const Expr* in_braces(const Stmt* statement) {
    const auto* const list = dyn_cast<InitListExpr>(statement);
    return list != nullptr && list->getNumInits() == 1 && list->getType()->isScalarType()
               ? list->getInit(0)
               : nullptr;
  }

  /// What a pointer is from, either of two where it is one of these.
  template <class Visit>
  void for_each_named(const Expr* pointer, Visit&& visit) {
    pointer = pointer->IgnoreParenCasts();
    if (const Expr* const inside = in_braces(pointer)) {
      for_each_named(inside, visit);
    } else if (const auto* choice = dyn_cast<ConditionalOperator>(pointer)) {
      for_each_named(choice->getTrueExpr(), visit);
      for_each_named(choice->getFalseExpr(), visit);
    } else if (const Decl* const named = named_by(pointer)) {
      visit(named);
    }
  }

  /// The variable, member or function that a pointer is from, with whatever is added to it.
  const Decl* named_by(const Expr* pointer) {
    pointer = pointer->IgnoreParenCasts();
    if (const auto* name = dyn_cast<DeclRefExpr>(pointer)) {
      const auto* const binding = dyn_cast<BindingDecl>(name->getDecl());
      if (binding == nullptr) return canonical(name->getDecl());
      // auto& [a, b] = …
      const VarDecl* const holding = binding->getHoldingVar();
      const Expr* const bound = holding != nullptr ? holding->getInit() : binding->getBinding();
      return bound != nullptr ? named_by(bound) : nullptr;
    }
    if (const auto* member = dyn_cast<MemberExpr>(pointer))
      return member->getMemberDecl()->getCanonicalDecl();
    if (const auto* call = dyn_cast<CallExpr>(pointer)) {
      if (call->isCallToStdMove() || (call->getNumArgs() == 1 && is_forward(call)))
        return named_by(call->getArg(0));
      // What an allocator gives out is of each call's own type.
      const FunctionDecl* const callee = call->getDirectCallee();
      if (callee == nullptr) return buffers_.any_of(call->getCallee()->IgnoreParens());
      return !allocators_.has(callee) ? callee->getCanonicalDecl() : nullptr;
    }
    if (isa<VAArgExpr>(pointer))
      return function_ != nullptr ? buffers_.rest_of(function_) : nullptr;
    if (const auto* of = dyn_cast<BinaryOperator>(pointer); of != nullptr && of->isPtrMemOp())
      return buffers_.any_of(of);
    if (const auto* element = dyn_cast<ArraySubscriptExpr>(pointer))
      return element->getBase()->getType()->isPointerType() ? named_by(element->getBase())
                                                            : nullptr;
    if (const auto* address = dyn_cast<UnaryOperator>(pointer))
      return named_by(address->getSubExpr());
    if (const auto* sum = dyn_cast<BinaryOperator>(pointer); sum != nullptr && sum->isAdditiveOp())
      return named_by(sum->getLHS()->getType()->isPointerType() ? sum->getLHS() : sum->getRHS());
    return nullptr;
  }

  static bool is_forward(const CallExpr* call) {
    const unsigned id = call->getBuiltinCallee();
    return id == Builtin::BIforward || id == Builtin::BIas_const || id == Builtin::BIaddressof ||
           id == Builtin::BI__addressof || id == Builtin::BI__builtin_addressof;
  }

  /// A node of one of the standard's containers, of which one is allocated, as against elements.
  static bool is_node(QualType pointee) {
    const auto* const record = pointee.isNull() ? nullptr : pointee->getAsRecordDecl();
    return record != nullptr && record->getIdentifier() != nullptr &&
           record->getName().starts_with("_") &&
           StringRef(record->getQualifiedNameAsString()).starts_with("std::");
  }

  void allocate(CallExpr* call, const Allocator& allocator, FunctionDecl* callee) {
    ++sites_;
    if (static_cast<unsigned>(allocator.size) >= call->getNumArgs()) return;
    Size size = size_of(context_, call->getArg(static_cast<unsigned>(allocator.size)));
    if (allocator.count >= 0)
      size = product(std::move(size),
                     size_of(context_, call->getArg(static_cast<unsigned>(allocator.count))));
    const Use use = use_of_call();
    Deduced deduced = deduce(records_, context_, use.pointee, size);
    if (use.is_part && deduced.record != nullptr && deduced.record->has_pointers())
      deduced = {records_.words(), 0, {}};
    // What an allocator gives out may be anything, unless it is an object of its own.
    const bool gives_out = in_allocator_ && *allocator.raw != 0 &&
                           (deduced.record == nullptr || !deduced.record->has_pointers());
    if (deduced.record != nullptr && !gives_out) {
      if (!deduced.doubt.empty()) messages_.list(call->getBeginLoc(), deduced.doubt);
      Marked what{allocator.typed, deduced.record, deduced.shape, Marked::Kind::kTyped, {}, {}};
      // A vector has a pointer to the end of its memory, which is to lead there.
      what.has_end = is_operator_new(callee) && !is_node(use.pointee);
      mark(call, taken(what, use));
    } else if (gives_out) {
      mark(call, {allocator.raw, nullptr, 0, Marked::Kind::kTyped, {}, {}});
    } else {
      leave_untyped(call, callee, deduced.doubt.empty() ? kRemedy : deduced.doubt);
    }
  }

  // What an allocator returns to another one gets its type from who calls that.
  void tag(CallExpr* call, FunctionDecl* callee) {
    const int index = allocators_.size_argument(callee);
    const Size size = index >= 0 && static_cast<unsigned>(index) < call->getNumArgs()
                          ? size_of(context_, call->getArg(static_cast<unsigned>(index)))
                          : Size{};
    const Use use = use_of_call();
    QualType pointee = use.pointee;
    if (pointee.isNull() && callee->getReturnType()->isPointerType())
      pointee = callee->getReturnType()->getPointeeType();
    if (in_allocator_ && (pointee.isNull() || pointee->isVoidType())) return;
    if (index < 0) return;  // how large it is nobody sees
    ++sites_;
    Deduced deduced = deduce(records_, context_, pointee, size);
    const bool can_be = Allocators::can_be_tagged(call, callee);
    if (deduced.record == nullptr || !can_be) {
      const std::string why = can_be                       ? deduced.doubt
                              : isa<CXXMethodDecl>(callee) ? "it is a method"
                                                           : "it is given a structure";
      messages_.list(call->getBeginLoc(), "no type for what '" + callee->getNameAsString() +
                                              "' returns: " + (why.empty() ? "" : why + "; ") +
                                              "each word of it may be a pointer");
      deduced = {records_.words(), 0, {}};
    }
    if (!can_be) return;  // what malloc gives an allocator are words
    if (!deduced.doubt.empty()) messages_.list(call->getBeginLoc(), deduced.doubt);
    Marked what{
        symbol_of(callee), deduced.record, deduced.shape, Marked::Kind::kTag, {}, {}, index};
    what.arguments = call->getNumArgs();
    mark(call, taken(what, use));
  }

  void record_of(CallExpr* call) {
    const QualType type = call->getArg(0)->IgnoreParenImpCasts()->getType();
    if (!type->isPointerType() || type->getPointeeType()->isIncompleteType()) return;
    const RecordPtr record = records_.of(type->getPointeeType());
    if (!record->refused.empty())
      return messages_.refuse(call->getBeginLoc(), "the type has no record: " + record->refused);
    mark(call, {"", record, 0, Marked::Kind::kRecord, {}, {}});
  }

  // pCAlloc(m, sizeof(*cr), (void**)&cr): *cr is the root.
  void root(CallExpr* call, const std::string& name) {
    const QualType type = call->getArg(call->getNumArgs() - 1)->IgnoreParenCasts()->getType();
    if (!type->isPointerType() || !type->getPointeeType()->isPointerType()) return;
    const QualType root = type->getPointeeType()->getPointeeType();
    if (root->isVoidType() || root->isIncompleteType()) return;
    const RecordPtr record = records_.of(root);
    if (record->refused.empty() && !record->has_tail())
      mark(call, {"perdura_typed_" + name, record, kNoShape, Marked::Kind::kTyped, {}, {}});
  }

  void leave_untyped(CallExpr* call, FunctionDecl* callee, const std::string& remedy) {
    const std::string called = callee->getNameAsString();
    say(call->getBeginLoc(), called, remedy);
    mark(call, untyped(callee, type_called(call), call->getBeginLoc(), called));
  }

  // --- C++

  // As the ABI has it: where the elements have destructors that do something, or delete is told
  // how much it gives back.
  bool needs_cookie(const CXXNewExpr* expression) const {
    const QualType element = context_.getBaseElementType(expression->getAllocatedType());
    return expression->doesUsualArrayDeleteWantSize() || element.isDestructedType() != 0;
  }
  uint64_t cookie_bytes(QualType type) const {
    const auto alignment = static_cast<uint64_t>(context_.getTypeAlignInChars(type).getQuantity());
    return std::max<uint64_t>(sizeof(uint64_t), alignment);
  }

  // --- marks

  std::string symbol_of(FunctionDecl* function) {
    ASTNameGenerator names(context_);
    return names.getName(function);
  }

  Marked untyped(FunctionDecl* callee, QualType type, SourceLocation location,
                 const std::string& called) {
    std::string symbol = callee->getNameAsString();
    if (symbol.starts_with("__builtin_")) symbol = symbol.substr(sizeof "__builtin_" - 1);
    if (callee->getDeclName().getNameKind() == DeclarationName::CXXOperatorName)
      symbol = symbol_of(callee);
    if (symbol == "operator_new")
      symbol =
          type->castAs<FunctionProtoType>()->getNumParams() == 1 ? "_Znwm" : "_ZnwmSt11align_val_t";
    return {symbol, nullptr, 0, Marked::Kind::kUntyped, messages_.place_of(location), called};
  }

  /// A function that does not exist, of the type of what is called there.
  FunctionDecl* marker(QualType type, const Marked& what) {
    std::string name = "__perdura_mark." + what.callee;
    if (what.record != nullptr) name += "." + what.record->key() + "." + std::to_string(what.shape);
    if (!what.place.empty()) name += "." + what.place;
    if (what.taker != 0) name += ".taken by " + std::to_string(what.taker);
    if (what.has_end) name += ".with its end";
    FunctionDecl*& known = markers_[name];
    if (known != nullptr) return known;
    DeclContext* const unit = context_.getTranslationUnitDecl();
    const SourceLocation none;
    known =
        FunctionDecl::Create(context_, unit, none, none,
                             DeclarationName(&context_.Idents.get(name)), type, nullptr, SC_Extern);
    known->addAttr(AsmLabelAttr::CreateImplicit(context_, name, true));
    known->setImplicit();
    std::vector<ParmVarDecl*> parameters;
    if (const auto* prototype = type->getAs<FunctionProtoType>())
      for (const QualType each : prototype->param_types())
        parameters.push_back(ParmVarDecl::Create(context_, known, none, none, nullptr, each,
                                                 nullptr, SC_None, nullptr));
    known->setParams(parameters);
    marked().emplace(name, what);
    if (what.taker != 0) buffers_.note_mark(what.taker, name);
    return known;
  }

  // --- buffers (buffers.hpp)

  /// What is marked so, with who takes the memory where that may be a buffer.
  Marked taken(Marked what, const Use& use) {
    if (use.taker != nullptr && !what.record->has_pointers())
      what.taker = buffers_.number_of(use.taker);
    return what;
  }
  void note_cast(const Expr* pointer, QualType to) {
    // Who only reads them looks at characters some at a time.
    const bool is_stored_to = is_integer_for_pointers(to) && !to.isConstQualified();
    if (!is_known(to) || (!to->isRecordType() && !to->isAnyPointerType() && !is_stored_to)) return;
    if (!records_.of(to)->has_pointers()) return;
    for_each_named(pointer, [&](const Decl* taker) { note_cast_of(taker, pointer, to); });
  }
  void note_cast_of(const Decl* taker, const Expr* pointer, QualType to) {
    buffers_.note_cast(taker);
    // Characters in a structure hold no pointers, whoever casts them: what they are is part of it.
    const auto* const member = dyn_cast<FieldDecl>(taker);
    if (member != nullptr && member->getType()->isArrayType() &&
        !member->getType()->getPointeeOrArrayElementType()->isPointerType() &&
        !says_what_it_holds(member) && !holds_words(member) && told_.insert(member).second)
      messages_.list(
          pointer->getBeginLoc(),
          "the member '" + member->getNameAsString() + "' is used as '" + records_.of(to)->name +
              "' here, and its words hold no pointers: annotate it PERDURA_MAY_POINT, and "
              "let it begin at a multiple of 8 bytes");
  }
  static bool says_what_it_holds(const FieldDecl* member) {
    return has_annotation(member, "perdura_maybe") || has_annotation(member, "perdura_plain");
  }
  /// Whether its first word may be a pointer by the record of what it is a member of.
  bool holds_words(const FieldDecl* member) {
    const QualType around = context_.getRecordType(member->getParent());
    if (!is_known(around)) return false;
    const uint64_t at = llvm::alignTo(context_.getFieldOffset(member) / 8, sizeof(uint64_t));
    return llvm::any_of(records_.of(around)->slots, [&](const Slot& slot) {
      return slot.offset <= at && at < slot.offset + slot.bytes;
    });
  }
  void note_flow(const Expr* from, const Decl* to) {
    if (to == nullptr) return;
    from = without_numbers(from);
    const auto* const address = dyn_cast<UnaryOperator>(from);
    const bool is_place = address != nullptr && address->getOpcode() == UO_AddrOf &&
                          is_raw(address->getSubExpr()) && !is_raw(from);
    if (is_place) from = address->getSubExpr();
    // An element of a buffer, by reference.
    const bool is_element = is_changeable(type_of(to)) && is_byte(from->getType());
    const Expr* const inside = in_braces(from);
    if (!is_element && !is_raw(inside != nullptr ? inside->IgnoreParenCasts() : from)) return;
    const bool returns = is_place || is_changeable(type_of(to));
    for_each_named(from, [&](const Decl* named) {
      buffers_.note_flow(named, canonical(to));
      if (returns) buffers_.note_flow(canonical(to), named);
    });
  }
  /// Of a variable or member, or of what a function returns.
  static QualType type_of(const Decl* decl) {
    if (const auto* function = dyn_cast<FunctionDecl>(decl)) return function->getReturnType();
    const auto* const variable = dyn_cast<ValueDecl>(decl);
    return variable != nullptr ? variable->getType() : QualType();
  }
  /// What a function may store to that has it.
  static bool is_changeable(QualType type) {
    return !type.isNull() && type->isLValueReferenceType() &&
           !type->getPointeeType().isConstQualified();
  }
  void note_arguments(const Stmt* call) {
    for_each_argument(
        call, [&](const Expr* argument, const Decl* parameter) { note_flow(argument, parameter); });
  }

  /// Of the builtin that is operator new what is called says it, and no declaration.
  static QualType type_called(const CallExpr* call) {
    const QualType type = call->getCallee()->getType();
    return type->isPointerType() ? type->getPointeeType() : type;
  }
  void mark(CallExpr* call, const Marked& what) {
    call->setCallee(reference_to(marker(type_called(call), what), call->getBeginLoc()));
  }
  Expr* reference_to(FunctionDecl* function, SourceLocation location) {
    auto* const name =
        DeclRefExpr::Create(context_, NestedNameSpecifierLoc(), SourceLocation(), function, false,
                            location, function->getType(), VK_LValue);
    return ImplicitCastExpr::Create(context_, context_.getPointerType(function->getType()),
                                    CK_FunctionToPointerDecay, name, nullptr, VK_PRValue,
                                    FPOptionsOverride());
  }

  // --- what is said

  void say(SourceLocation location, const std::string& called, const std::string& remedy) {
    const auto is_in_system = [&] {
      return context_.getSourceManager().isInSystemHeader(location);
    };
    // Of a template that a library has, where the program uses it.
    if (is_in_system() && function_ != nullptr && function_->isTemplateInstantiation())
      location = function_->getPointOfInstantiation();
    if (location.isInvalid() || is_in_system()) return;
    ++untyped_;
    messages_.list(location, "no type for this '" + called + "': " + remedy);
  }
  CompilerInstance& compiler_;
  ASTContext& context_;
  const Settings& settings_;
  Messages messages_;
  Allocators allocators_;
  Records records_;
  Buffers buffers_;
  std::set<const FieldDecl*> told_;
  std::set<const CXXConstructorDecl*> implicit_;  ///< that were visited
  const FunctionDecl* function_ = nullptr;        ///< that is being visited
  const ValueDecl* initialized_ = nullptr;        ///< a variable or member
  std::vector<FunctionDecl*> for_constants_;      ///< to be visited when these are computed
  bool computed_constants_ = false;
  std::map<std::string, FunctionDecl*> markers_;
  std::vector<const Stmt*> path_;  ///< null: what is initialized_
  bool in_allocator_ = false;
  unsigned sites_ = 0;
  unsigned untyped_ = 0;
};

/// Sees each declaration before code is made of it.
class Consumer : public ASTConsumer {
 public:
  Consumer(CompilerInstance& compiler, Settings settings)
      : compiler_(compiler), settings_(std::move(settings)) {}

  bool HandleTopLevelDecl(DeclGroupRef group) override {
    for (Decl* decl : group) visit(decl);
    return true;
  }
  void HandleInlineFunctionDefinition(FunctionDecl* function) override { visit(function); }
  void HandleCXXStaticMemberVarInstantiation(VarDecl* variable) override { visit(variable); }
  void HandleTranslationUnit(ASTContext&) override {
    if (!compiler_.getDiagnostics().hasErrorOccurred() && !is_precompiling()) visitor().finish();
  }

 private:
  /// What a header or a module has is visited where code is made of it.
  bool is_precompiling() const {
    switch (compiler_.getFrontendOpts().ProgramAction) {
      case frontend::GeneratePCH:
      case frontend::GenerateHeaderUnit:
      case frontend::GenerateModule:
      case frontend::GenerateModuleInterface:
      case frontend::GenerateReducedModuleInterface:
        return true;
      default:
        return false;
    }
  }
  // Nothing comes of a file with errors, and what is wrong in it has no layout.
  void visit(Decl* decl) {
    if (!compiler_.getDiagnostics().hasErrorOccurred() && !is_precompiling())
      visitor().TraverseDecl(decl);
  }
  // The context is there when the first declaration is.
  Visitor& visitor() {
    if (visitor_ == nullptr) visitor_ = std::make_unique<Visitor>(compiler_, settings_);
    return *visitor_;
  }

  CompilerInstance& compiler_;
  const Settings settings_;
  std::unique_ptr<Visitor> visitor_;
};

class Action : public PluginASTAction {
 public:
  ActionType getActionType() override { return AddBeforeMainAction; }

 protected:
  std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance& compiler,
                                                 llvm::StringRef) override {
    return std::make_unique<Consumer>(compiler, settings_);
  }

  bool ParseArgs(const CompilerInstance& compiler,
                 const std::vector<std::string>& arguments) override {
    DiagnosticsEngine& diagnostics = compiler.getDiagnostics();
    const auto refuse = [&](const std::string& what) {
      diagnostics.Report(diagnostics.getCustomDiagID(DiagnosticsEngine::Error, "perdura: %0"))
          << what;
      return false;
    };
    for (const std::string& argument : arguments) {
      const size_t equals = argument.find('=');
      const std::string name = argument.substr(0, equals);
      const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
      if (name == "list") {
        settings_.lists = value.empty();
        settings_.list_file = value;
        if (!value.empty() && !std::ofstream(value, std::ios::app))
          return refuse("the file '" + value + "' of --perdura-types-list cannot be written");
      } else if (argument == "audit") {
        audits() = true;
      } else if (name == "allocators") {
        std::ifstream file(value);
        if (!file) return refuse("there is no file '" + value + "' of allocators to read");
        for (std::string line; std::getline(file, line);) {
          line = line.substr(0, line.find('#'));
          std::istringstream words(line);
          std::string function, index, more;
          words >> function >> index >> more;
          if (function.empty()) continue;
          int number = -1;
          const bool is_number = !llvm::StringRef(index).getAsInteger(10, number) && number >= 0;
          if (!more.empty() || (!index.empty() && !is_number))
            return refuse("'" + value +
                          "' has a line that is no 'FUNCTION [NUMBER OF ITS SIZE "
                          "ARGUMENT, FROM 0]': " +
                          line);
          settings_.allocators[function] = index.empty() ? -1 : number;
        }
      } else {
        return refuse("the plugin knows no option '" + argument + "'");
      }
    }
    return true;
  }

 private:
  Settings settings_;
};

const FrontendPluginRegistry::Add<Action> registered("perdura_types",
                                                     "type records of allocations");

}  // namespace
}  // namespace perdura::types
