// LLVM's pass of perdura-clang --perdura-audit: calls of the library before each store of a
// pointer, of an integer that may be one, and of what is copied; and after each typed allocation
// (perdura/typed.h). It runs behind the pass that makes these (replace.cc).
#include "audit.hpp"

#include <set>

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "texts.hpp"

namespace perdura::types {
namespace {

using namespace llvm;

/// Functions of the C library that copy: to, from, bytes.
bool copies(StringRef name) {
  static const std::set<StringRef> all{"memcpy",       "memmove",       "mempcpy",
                                       "__memcpy_chk", "__memmove_chk", "__mempcpy_chk"};
  return all.count(name) != 0;
}

class Auditor {
 public:
  explicit Auditor(Module& module)
      : module_(module),
        pointer_(PointerType::getUnqual(module.getContext())),
        i64_(Type::getInt64Ty(module.getContext())),
        none_(Type::getVoidTy(module.getContext())) {}

  bool run() {
    bool any = false;
    for (Function& function : module_) {
      if (function.isDeclaration()) continue;
      std::vector<Instruction*> all;
      for (BasicBlock& block : function)
        for (Instruction& instruction : block) all.push_back(&instruction);
      for (Instruction* each : all) any |= audit(*each);
    }
    return any;
  }

 private:
  bool audit(Instruction& instruction) {
    if (auto* store = dyn_cast<StoreInst>(&instruction))
      return stored(instruction, *store->getPointerOperand(), *store->getValueOperand());
    if (auto* copy = dyn_cast<MemTransferInst>(&instruction))
      return copied(*copy, *copy->getRawDest(), *copy->getRawSource(), *copy->getLength());
    if (auto* change = dyn_cast<AtomicRMWInst>(&instruction))
      return change->getOperation() == AtomicRMWInst::Xchg
                 ? stored(instruction, *change->getPointerOperand(), *change->getValOperand())
                 : changed(instruction, *change->getPointerOperand(), change->getType());
    if (auto* exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
      return stored(instruction, *exchange->getPointerOperand(), *exchange->getNewValOperand());
    auto* const call = dyn_cast<CallBase>(&instruction);
    const Function* const callee = call != nullptr ? call->getCalledFunction() : nullptr;
    if (callee == nullptr) return false;
    if (copies(callee->getName()) && call->arg_size() >= 3)
      return copied(*call, *call->getArgOperand(0), *call->getArgOperand(1),
                    *call->getArgOperand(2));
    if (callee->getName().starts_with("perdura_typed_") && call->getType()->isPointerTy())
      return made(*call);
    return false;
  }

  bool stored(Instruction& at, Value& place, Value& value) {
    if (!is_checked(place)) return false;
    IRBuilder<> builder(&at);
    if (value.getType()->isPointerTy()) {
      if (isa<ConstantPointerNull>(value)) return false;
      call(builder, "perdura_audit_pointer", {&place, &value, where(at)});
    } else if (value.getType()->isIntegerTy(64)) {
      if (isa<ConstantInt>(value)) return false;
      call(builder, "perdura_audit_integer", {&place, &value, where(at)});
    } else {
      return !isa<Constant>(value) && changed(at, place, value.getType());
    }
    return true;
  }

  /// What is there behind the instruction.
  bool changed(Instruction& at, Value& place, Type* type) {
    const uint64_t bytes = module_.getDataLayout().getTypeStoreSize(type);
    if (bytes < 8 || type->isFloatingPointTy() || !is_checked(place)) return false;
    IRBuilder<> builder(at.getNextNode());
    call(builder, "perdura_audit_words",
         {&place, &place, ConstantInt::get(i64_, bytes), where(at)});
    return true;
  }

  bool copied(Instruction& at, Value& to, Value& from, Value& bytes) {
    if (!is_checked(to)) return false;
    IRBuilder<> builder(&at);
    call(builder, "perdura_audit_words",
         {&to, &from, builder.CreateIntCast(&bytes, i64_, false), where(at)});
    return true;
  }

  bool made(CallBase& at) {
    Instruction* next = at.getNextNode();
    if (auto* invoke = dyn_cast<InvokeInst>(&at)) {
      BasicBlock* const after = invoke->getNormalDest();
      if (after->getSinglePredecessor() == nullptr) return false;
      next = &*after->getFirstInsertionPt();
    }
    IRBuilder<> builder(next);
    const StringRef name = at.getCalledFunction()->getName();
    const bool is_fresh = name == "perdura_typed_malloc" || name.starts_with("perdura_typed_new");
    call(builder, "perdura_audit_made",
         {&at, ConstantInt::get(Type::getInt32Ty(module_.getContext()), is_fresh), where(at)});
    return true;
  }

  /// What lies on the stack or in the program's own variables is no object; and of some members the
  /// program says that they are no pointers.
  static bool is_checked(Value& place) {
    const Value* const object = getUnderlyingObject(&place);
    return !isa<AllocaInst>(object) && !isa<GlobalValue>(object) && !says_no_pointer(place);
  }
  static bool says_no_pointer(Value& place) {
    const Value* at = &place;
    while (const auto* step = dyn_cast<GEPOperator>(at)) at = step->getPointerOperand();
    const auto* const said = dyn_cast<IntrinsicInst>(at);
    if (said == nullptr || said->getIntrinsicID() != Intrinsic::ptr_annotation) return false;
    StringRef text;
    return getConstantStringInfo(said->getArgOperand(1), text) && text == "perdura_plain";
  }

  Constant* where(const Instruction& at) {
    const Function& function = *at.getFunction();
    std::string text;
    if (const DILocation* const place = at.getDebugLoc().get())
      text = place->getFilename().str() + ":" + std::to_string(place->getLine()) + ":" +
             std::to_string(place->getColumn()) + " in ";
    else text = module_.getSourceFileName() + " in ";
    StringRef name = function.getName();
    name.consume_back(".words");  // replace.cc
    name.consume_back(".typed");
    text += demangle(name);
    return texts_.of(text);
  }

  void call(IRBuilder<>& builder, const char* name, ArrayRef<Value*> arguments) {
    SmallVector<Type*, 4> types;
    for (const Value* argument : arguments) types.push_back(argument->getType());
    builder
        .CreateCall(module_.getOrInsertFunction(name, FunctionType::get(none_, types, false)),
                    arguments)
        ->setDoesNotThrow();
  }

  Module& module_;
  PointerType* const pointer_;
  Type* const i64_;
  Type* const none_;
  Texts texts_{module_};
};

}  // namespace

bool audit(Module& module) { return Auditor(module).run(); }

}  // namespace perdura::types
