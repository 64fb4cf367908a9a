// Calls: of functions that are seen, of those that everybody knows, and by pointers.
#include "lowering.hpp"

namespace perdura::source {

Id Lowering::value_of_call(const clang::CallExpr* call) {
  const clang::SourceLocation at = call->getExprLoc();
  // Of a reference its own type is that of what it refers to.
  const clang::QualType answers = call->isGLValue() ? context_.VoidPtrTy : call->getType();
  const auto* const callee = clang::dyn_cast_or_null<clang::FunctionDecl>(call->getCalleeDecl());
  std::vector<Id> arguments;
  const clang::FunctionDecl* target = callee;
  unsigned first = 0;
  if (const auto* const member = clang::dyn_cast<clang::CXXMemberCallExpr>(call)) {
    const clang::Expr* const callee_expression = member->getCallee()->IgnoreParens();
    if (const auto* const binary =
            clang::dyn_cast<clang::BinaryOperator>(callee_expression)) {  // ->*
      const Id pointer = value_of(binary->getRHS());
      arguments.push_back(binary->getOpcode() == clang::BO_PtrMemD ? address_of(binary->getLHS())
                                                                   : value_of(binary->getLHS()));
      const auto* const type = binary->getRHS()->getType()->castAs<clang::MemberPointerType>();
      add_arguments(call, 0, type->getPointeeType()->getAs<clang::FunctionProtoType>(), arguments);
      return call_pointer(pointer, arguments, answers, at);
    }
    const auto* const named = clang::dyn_cast<clang::MemberExpr>(callee_expression);
    if (named == nullptr) return unsupported(call);
    if (clang::isa<clang::CXXPseudoDestructorExpr>(callee_expression)) return kNone;
    const auto* method = clang::dyn_cast_or_null<clang::CXXMethodDecl>(callee);
    if (method == nullptr) return unsupported(call);
    const clang::Expr* const base = named->getBase();
    if (method->isImplicitObjectMemberFunction()) {
      arguments.push_back(named->isArrow() ? value_of(base) : address_of(base));
    } else if (method->isExplicitObjectMemberFunction()) {
      arguments.push_back(named->isArrow() ? value_of(base) : address_of(base));
    } else {
      evaluate(base);
    }
    if (const auto* const conversion = clang::dyn_cast<clang::CXXConversionDecl>(method)) {
      if (conversion->getParent()->isLambda())
        return value_to({Target::kFunction, invoker_of(unit_, conversion->getParent())});
    }
    if (method->isVirtual() && !named->hasQualifier()) {
      const clang::Expr* const object = base->IgnoreParenBaseCasts();
      clang::CXXMethodDecl* const bound =
          const_cast<clang::CXXMethodDecl*>(method)->getDevirtualizedMethod(object, false);
      if (bound == nullptr) {
        add_arguments(call, 0, method->getType()->getAs<clang::FunctionProtoType>(), arguments);
        return unresolved(Kind::kVirtual, unit_.name_of_function(method), arguments, answers, at);
      }
      target = bound;
    }
  } else if (clang::isa<clang::CXXOperatorCallExpr>(call)) {
    const auto* const method = clang::dyn_cast_or_null<clang::CXXMethodDecl>(callee);
    if (method != nullptr) {
      if (method->isInstance()) {
        arguments.push_back(call->getArg(0)->isGLValue() ? address_of(call->getArg(0))
                                                         : materialize(call->getArg(0)));
      } else {
        evaluate(call->getArg(0));
      }
      first = 1;
      if (method->isVirtual()) {
        clang::CXXMethodDecl* const bound =
            const_cast<clang::CXXMethodDecl*>(method)->getDevirtualizedMethod(
                call->getArg(0)->IgnoreParenBaseCasts(), false);
        if (bound == nullptr) {
          add_arguments(call, 1, method->getType()->getAs<clang::FunctionProtoType>(), arguments);
          return unresolved(Kind::kVirtual, unit_.name_of_function(method), arguments, answers, at);
        }
        target = bound;
      }
    }
  }
  const auto* const called =
      clang::dyn_cast<clang::MemberExpr>(call->getCallee()->IgnoreParenImpCasts());
  if (called != nullptr && callee != nullptr && !clang::isa<clang::CXXMemberCallExpr>(call))
    evaluate(called->getBase());  // of a static method
  if (const auto* const nothing =
          clang::dyn_cast<clang::CXXPseudoDestructorExpr>(call->getCallee()->IgnoreParens())) {
    evaluate(nothing->getBase());
    return kNone;
  }
  if (target == nullptr) {
    const Id pointer = value_of(call->getCallee());
    const clang::QualType type = call->getCallee()->getType();
    const auto* const function =
        type->isPointerType() ? type->getPointeeType()->getAs<clang::FunctionProtoType>() : nullptr;
    add_arguments(call, 0, function, arguments);
    return call_pointer(pointer, arguments, answers, at);
  }
  if (const auto* const method = clang::dyn_cast<clang::CXXMethodDecl>(target);
      method != nullptr && clang::isa<clang::CXXOperatorCallExpr>(call) && method->isTrivial() &&
      (method->isCopyAssignmentOperator() || method->isMoveAssignmentOperator())) {
    const Id from = argument(call->getArg(1), true);
    const clang::QualType type = context_.getRecordType(method->getParent());
    store(arguments[0], load(from, type, at), at);
    return arguments[0];
  }
  if (is_builtin(target) || is_library_function(target)) {
    Id result = kNone;
    if (call_known(target, call, result)) return result;
  }
  add_arguments(call, first, target->getType()->getAs<clang::FunctionProtoType>(), arguments);
  return call_function(target, arguments, answers, at);
}

bool Lowering::is_library_function(const clang::FunctionDecl* function) const {
  // Some are overloads in C++.
  return (function->isExternC() || is_hash_of_library(function) ||
          function->getDeclContext()->getRedeclContext()->isTranslationUnit()) &&
         unit_.is_in_header_of_c(function->getCanonicalDecl()->getLocation());
}

bool Lowering::is_builtin(const clang::FunctionDecl* function) const {
  const unsigned id = function->getBuiltinID();
  const clang::Builtin::Context& all = context_.BuiltinInfo;
  return id != 0 && (all.isInStdNamespace(id) || !all.isPredefinedLibFunction(id));
}

bool Lowering::is_hash_of_library(const clang::FunctionDecl* function) {
  return is_std(function) && function->getIdentifier() != nullptr &&
         function->getName().ends_with("ash_bytes");
}

void Lowering::add_arguments(const clang::CallExpr* call, unsigned first,
                             const clang::FunctionProtoType* type, std::vector<Id>& arguments) {
  for (unsigned i = first; i < call->getNumArgs(); ++i) {
    const unsigned parameter = i - first;
    const bool reference = type != nullptr && parameter < type->getNumParams() &&
                           type->getParamType(parameter)->isReferenceType();
    arguments.push_back(argument(call->getArg(i), reference));
  }
}

Id Lowering::argument(const clang::Expr* expression, bool reference) {
  if (reference || expression->isGLValue()) return address_of(expression);
  return value_of(expression);
}

bool Lowering::call_known(const clang::FunctionDecl* function, const clang::CallExpr* call,
                          Id& result) {
  const clang::SourceLocation at = call->getExprLoc();
  const unsigned builtin = function->getBuiltinID();
  clang::StringRef name = function->getIdentifier() != nullptr ? function->getName() : "";
  const bool is_builtin = builtin != 0 && name.starts_with("__builtin_");
  if (builtin != 0 && name.consume_front("__builtin_")) {
    if (name.consume_front("__") || name.starts_with("_")) name.consume_back("_chk");
  }
  if (builtin == clang::Builtin::BI__builtin_addressof || builtin == clang::Builtin::BIaddressof ||
      builtin == clang::Builtin::BI__addressof) {
    result = address_of(call->getArg(0));
    return true;
  }
  if (builtin == clang::Builtin::BImove || builtin == clang::Builtin::BIforward ||
      builtin == clang::Builtin::BIforward_like || builtin == clang::Builtin::BImove_if_noexcept ||
      builtin == clang::Builtin::BIas_const) {
    result = address_of(call->getArg(0));
    return true;
  }
  if (builtin == clang::Builtin::BI__builtin_alloca ||
      builtin == clang::Builtin::BI__builtin_alloca_uninitialized ||
      builtin == clang::Builtin::BI__builtin_alloca_with_align ||
      builtin == clang::Builtin::BIalloca) {
    value_of(call->getArg(0));
    result = new_temporary(context_.VoidPtrTy);
    return true;
  }
  const clang::FunctionDecl* definition = nullptr;
  if (function->hasBody(definition)) return false;
  if (name == "__sync_synchronize" || name == "__atomic_thread_fence" ||
      name == "__c11_atomic_thread_fence" || name == "atomic_thread_fence") {
    for (const clang::Expr* each : call->arguments()) value_of(each);
    reason(Kind::kFence, at, name.str());
    return true;
  }
  if (name == "__atomic_signal_fence" || name == "__c11_atomic_signal_fence" ||
      name.ends_with("atomic_is_lock_free") || name.ends_with("atomic_always_lock_free")) {
    for (const clang::Expr* each : call->arguments()) value_of(each);
    return true;
  }
  if (builtin != 0 && name.starts_with("__sync_")) {
    const Id place = value_of(call->getArg(0));
    read(place, at);
    Id value = kNone;
    for (unsigned i = 1; i < call->getNumArgs(); ++i)
      value = joined(value, value_of(call->getArg(i)));
    store(place, value, at);
    result = holds_pointers(call->getType()) ? joined(content(place), value) : kNone;
    return true;
  }
  if (ends_program(name) && (is_builtin || name != "trap")) {
    std::vector<Id> arguments;
    add_arguments(call, 0, function->getType()->getAs<clang::FunctionProtoType>(), arguments);
    add_call_of_own(function, is_builtin ? name : "", arguments, call);
    return true;
  }
  if (is_allocator(name)) {
    std::vector<Id> arguments;
    add_arguments(call, 0, function->getType()->getAs<clang::FunctionProtoType>(), arguments);
    result = unresolved(Kind::kMemory, name.str(), arguments, call->getType(), at);
    return true;
  }
  if (const std::string_view variable = variable_behind({name.data(), name.size()});
      !variable.empty()) {
    std::vector<Id> arguments;
    add_arguments(call, 0, function->getType()->getAs<clang::FunctionProtoType>(), arguments);
    result = unresolved(Kind::kGlobal, std::string(variable), arguments, call->getType(), at);
    return true;
  }
  // How far that is depends on the address.
  if (is_builtin && (name == "align_up" || name == "align_down") &&
      call->getType()->isPointerType())
    reason(Kind::kAddressAsNumber, at, "");
  static constexpr FunctionModel kNumbersAlone{"", -1};
  const FunctionModel* model = model_of({name.data(), name.size()}, is_builtin);
  if (builtin != 0 && name.contains("_overflow") && call->getNumArgs() == 3) {
    static constexpr FunctionModel kOverflow{"..w", -1};
    model = &kOverflow;
  }
  if (builtin != 0 && (name.starts_with("addc") || name.starts_with("subc"))) {
    static constexpr FunctionModel kCarry{"...w", -1};
    model = &kCarry;
  }
  if (builtin != 0 && model == nullptr && context_.BuiltinInfo.isConst(builtin) &&
      !holds_pointers(call->getType()) && !name.starts_with("cpu_") &&
      !name.starts_with("is_aligned"))
    model = &kNumbersAlone;
  if (model == nullptr) return false;
  std::vector<Id> arguments;
  for (const clang::Expr* each : call->arguments())
    arguments.push_back(each->isGLValue() ? address_of(each) : value_of(each));
  apply(*model, call, arguments, result);
  result = joined(result, add_call_of_own(function, is_builtin ? name : "", arguments, call));
  return true;
}

Id Lowering::add_call_of_own(const clang::FunctionDecl* function, clang::StringRef builtin,
                             const std::vector<Id>& arguments, const clang::CallExpr* call) {
  if (!builtin.empty() && !context_.BuiltinInfo.isLibFunction(function->getBuiltinID()))
    return kNone;
  Call own;
  own.callee = builtin.empty() ? unit_.key_of(function) : builtin.str();
  own.name = unit_.name_of_function(function);
  own.has_model = true;
  return add_call(std::move(own), arguments, call->getType(), call->getExprLoc());
}

void Lowering::apply(const FunctionModel& model, const clang::CallExpr* call,
                     const std::vector<Id>& values, Id& result) {
  const clang::SourceLocation at = call->getExprLoc();
  Id source = kNone;
  Id copied = kNone;
  std::string copied_type;
  for (std::size_t i = 0; i < model.arguments.size() && i < values.size(); ++i) {
    const char how = model.arguments[i];
    if (how == 'r' || how == 'b') read(values[i], at, kReadBytes);
    if (how == 's') {
      const clang::Expr* const read_from = call->getArg(static_cast<unsigned>(i));
      const clang::QualType type = read_from->IgnoreParenCasts()->getType();
      source = values[i];
      const clang::QualType copy = type->isArrayType() ? type : type->getPointeeType();
      const bool may_be_pointers = copy.isNull() || copy->isVoidType() || holds_pointers(copy);
      if (may_be_pointers) copied = content(values[i]);
      copied_type = pointee_of(read_from);
      // Numbers in which an address was put are one from then on, wherever they go.
      read(values[i], at, may_be_pointers ? kReadCopied : is_byte(copy) ? kReadBytes : "");
    }
  }
  for (std::size_t i = 0; i < model.arguments.size() && i < values.size(); ++i) {
    const char how = model.arguments[i];
    if (how == 'w' || how == 'b') {
      write(values[i], at);
      reinterpret(values[i],
                  is_zero(call) ? pointee_of(call->getArg(static_cast<unsigned>(i))) : "");
    }
    if (how == 'c') {
      store(values[i], copied, at);
      const clang::QualType to = pointee_type(call->getArg(static_cast<unsigned>(i)));
      if (copied != kNone && !copied_type.empty() && !to.isNull() && to->isArithmeticType() &&
          !unit_.is_in_system_header(at))
        reason(Kind::kAddressAsNumber, at, "");
      // Of bytes nobody says what they are; those of the object hold no pointers to follow.
      if (copied_type.empty()) function_.facts.back().name = "bytes";
      // The library's algorithms copy so many T to so many T, and no bytes beyond.
      const bool is_algorithm = unit_.is_in_system_header(at) && !copied_type.empty() &&
                                copied_type == pointee_of(call->getArg(static_cast<unsigned>(i)));
      if (!is_algorithm) reinterpret(values[i], copied_type, copied_type.empty() ? source : kNone);
    }
  }
  if (model.answers >= 0 && static_cast<std::size_t>(model.answers) < values.size())
    result = values[static_cast<std::size_t>(model.answers)];
}

bool Lowering::is_zero(const clang::CallExpr* call) const {
  clang::Expr::EvalResult number;
  return call->getNumArgs() >= 2 && call->getArg(1)->getType()->isIntegerType() &&
         !call->getArg(1)->isValueDependent() && call->getArg(1)->EvaluateAsInt(number, context_) &&
         number.Val.getInt().isZero();
}

clang::QualType Lowering::pointee_type(const clang::Expr* pointer) const {
  const clang::QualType type = pointer->IgnoreParenCasts()->getType();
  return type->isArrayType() ? context_.getBaseElementType(type) : type->getPointeeType();
}

std::string Lowering::pointee_of(const clang::Expr* pointer) const {
  const clang::QualType pointee = pointee_type(pointer);
  return pointee.isNull() || pointee->isVoidType() ? "" : name_of_element(pointee);
}

Id Lowering::result_of(clang::QualType type) {
  return type->isVoidType() || !holds_pointers(type) ? kNone : new_value();
}

Id Lowering::unresolved(Kind kind, std::string name, const std::vector<Id>& arguments,
                        clang::QualType type, clang::SourceLocation at) {
  reason(kind, at, std::move(name));
  const Id answer = told();
  for (const Id each : arguments)
    if (each != kNone) add({.what = Fact::kStore, .to = each, .from = answer});
  return type->isVoidType() || !holds_pointers(type) ? kNone : answer;
}

Id Lowering::call_function(const clang::FunctionDecl* function, const std::vector<Id>& arguments,
                           clang::QualType type, clang::SourceLocation at) {
  const clang::FunctionDecl* definition = nullptr;
  const auto* const method = clang::dyn_cast<clang::CXXMethodDecl>(function);
  if (method != nullptr && method->isLambdaStaticInvoker())  // as a template's argument
    return call_pointer(value_to(function_of(unit_, function, at)), arguments, type, at);
  if (function->isReplaceableGlobalAllocationFunction())
    return unresolved(Kind::kMemory, unit_.name_of_function(function), arguments, type, at);
  if (!function->hasBody(definition)) {
    if (clang::isa<clang::CXXDestructorDecl>(function) &&
        is_exception(clang::cast<clang::CXXDestructorDecl>(function)->getParent()))
      return kNone;
    if (is_std_throw(function)) {
      reason(Kind::kThrows, at, unit_.name_of_function(function));
      return result_of(type);
    }
    if (function->isReservedGlobalPlacementOperator())
      return arguments.size() > 1 ? arguments[1] : kNone;
    if (is_std(function) &&
        ends_program(function->getIdentifier() != nullptr ? std::string_view(function->getName())
                                                          : ""))
      return kNone;
    if (method != nullptr && method->isDefaulted() && !method->isDeleted() &&
        (method->isTrivial() || clang::isa<clang::CXXDestructorDecl>(method))) {
      if (clang::isa<clang::CXXDestructorDecl>(method) && method->isTrivial()) return kNone;
      unit_.require(function);  // lowered from what it consists of
    } else if (function->isPureVirtual()) {
      return unresolved(Kind::kNoSource, unit_.name_of_function(function), arguments, type, at);
    }
  } else {
    unit_.require(definition);
  }
  if (is_replaceable(function))
    reason(Kind::kNoSource, at, unit_.name_of_function(function) + ", which may be another one");
  Call call;
  call.callee = unit_.key_of(function);
  call.name = unit_.name_of_function(function);
  return add_call(std::move(call), arguments, type, at);
}

bool Lowering::is_exception(const clang::CXXRecordDecl* record) {
  if (!is_std(record)) return false;  // a destructor of the program's own does what it does
  if (record->getName() == "exception") return true;
  if (!record->hasDefinition()) return false;
  for (const clang::CXXBaseSpecifier& base : record->bases()) {
    const clang::CXXRecordDecl* const of = base.getType()->getAsCXXRecordDecl();
    if (of != nullptr && is_exception(of)) return true;
  }
  return false;
}

bool Lowering::is_std_throw(const clang::FunctionDecl* function) {
  return is_std(function) && function->getIdentifier() != nullptr &&
         function->getName().starts_with("__throw_");
}

Id Lowering::call_pointer(Id pointer, const std::vector<Id>& arguments, clang::QualType type,
                          clang::SourceLocation at) {
  Call call;
  call.pointer = pointer == kNone ? told() : pointer;
  call.name = "a function by a pointer";
  if (pointer == kNone) reason(Kind::kIndirect, at, call.name);
  return add_call(std::move(call), arguments, type, at);
}

Id Lowering::add_call(Call call, const std::vector<Id>& arguments, clang::QualType type,
                      clang::SourceLocation at) {
  call.arguments = arguments;
  call.result = result_of(type);
  call.guarded = guards_ > 0;
  const Id result = call.result;
  function_.calls.push_back(std::move(call));
  add({.what = Fact::kCall,
       .call = static_cast<Id>(function_.calls.size() - 1),
       .place = unit_.place(at)});
  return result;
}

// Which instance of a generic one is meant is not known: all of them.
Id invoker_of(Unit& unit, const clang::CXXRecordDecl* lambda) {
  const std::string key = unit.key_of(lambda->getLambdaCallOperator()) + "@invoke";
  const Id id = unit.program.function(key);
  std::vector<Function>& bodies = unit.program.functions[key];
  if (!bodies.empty()) return id;
  std::vector<const clang::CXXMethodDecl*> operations;
  const clang::CXXMethodDecl* const operation = lambda->getLambdaCallOperator();
  if (lambda->isGenericLambda()) {
    if (const clang::FunctionTemplateDecl* const generic =
            operation->getDescribedFunctionTemplate())
      for (const clang::FunctionDecl* each : generic->specializations())
        operations.push_back(clang::cast<clang::CXXMethodDecl>(each));
  } else {
    operations.push_back(operation);
  }
  for (const clang::CXXMethodDecl* each : operations) {
    Function through;
    through.key = key;
    through.name = "a lambda";
    through.place = unit.place(each->getLocation());
    through.parameters = each->getNumParams();
    for (Id i = 0; i < through.parameters; ++i)
      through.facts.push_back(
          {.what = Fact::kAddress, .to = through.values++, .target = {Target::kParameter, i}});
    through.locals.push_back({});
    const Id closure = through.values++;
    through.facts.push_back({.what = Fact::kAddress, .to = closure, .target = {Target::kLocal, 0}});
    Call call;
    call.callee = unit.key_of(each);
    call.name = "a lambda";
    if (each->isInstance()) call.arguments.push_back(closure);
    for (Id i = 0; i < through.parameters; ++i) call.arguments.push_back(i);
    call.result = through.values++;
    through.calls.push_back(call);
    through.facts.push_back({.what = Fact::kCall, .call = 0, .place = through.place});
    through.facts.push_back({.what = Fact::kReturn, .from = call.result});
    bodies.push_back(std::move(through));
    unit.require(each);
  }
  return id;
}

}  // namespace perdura::source
