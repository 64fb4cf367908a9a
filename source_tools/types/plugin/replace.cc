// LLVM's pass of perdura-clang --perdura-types: calls that the front end has marked (plugin.cc)
// become calls of the library, with type records, which the linker merges: each is in a section of
// its own that is named by all that the record says.
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "audit.hpp"
#include "records.hpp"
#include "texts.hpp"

namespace perdura::types {
namespace {

using namespace llvm;

class Replacer {
 public:
  explicit Replacer(Module& module)
      : module_(module),
        context_(module.getContext()),
        pointer_(PointerType::getUnqual(context_)),
        i32_(Type::getInt32Ty(context_)),
        i64_(Type::getInt64Ty(context_)),
        slot_type_(
            StructType::get(context_, {pointer_, i32_, i32_, i32_, pointer_, i32_, i32_, i64_})),
        record_type_(StructType::get(context_, {pointer_, i32_, i32_, i32_, pointer_})),
        site_type_(StructType::get(context_, {pointer_, pointer_, i64_})) {}

  bool run() {
    bool any = false;
    std::vector<Function*> marks;
    for (Function& function : module_)
      if (marked().count(function.getName().str()) != 0) marks.push_back(&function);
    for (Function* mark : marks) {
      replace(*mark, marked().at(mark->getName().str()));
      if (mark->use_empty()) mark->eraseFromParent();
      any = true;
    }
    if (any) {
      set_apart();
      tell_part();
    }
    return any;
  }

 private:
  void replace(Function& mark, const Marked& what) {
    std::vector<CallBase*> calls;
    for (User* user : mark.users())
      if (auto* call = dyn_cast<CallBase>(user);
          call != nullptr && call->getCalledOperand() == &mark)
        calls.push_back(call);
    for (CallBase* call : calls) {
      if (what.kind != Marked::Kind::kRecord) add_apart(*call->getFunction(), apart_);
      if (what.is_buffer) add_apart(*call->getFunction(), with_buffers_);
      switch (what.kind) {
        case Marked::Kind::kRecord:
          call->replaceAllUsesWith(record(*what.record));
          if (auto* invoke = dyn_cast<InvokeInst>(call))
            BranchInst::Create(invoke->getNormalDest(), invoke->getIterator());
          call->eraseFromParent();
          break;
        case Marked::Kind::kTag:
          tag(*call, what);
          break;
        case Marked::Kind::kUntyped:
          count(*call, what);
          break;
        case Marked::Kind::kTyped:
          call_typed(*call, what);
          break;
      }
    }
  }

  /// A function that each file has which uses it, and of which the linker keeps one.
  static bool is_shared(const Function& function) {
    return !function.isDeclaration() &&
           (function.hasLinkOnceLinkage() || function.hasAvailableExternallyLinkage());
  }
  using Functions = SetVector<Function*>;
  static void add_apart(Function& function, Functions& to) {
    if (is_shared(function)) to.insert(&function);
  }
  static void add_callers(Functions& to) {
    for (size_t i = 0; i < to.size(); ++i)
      for (User* user : to[i]->users())
        if (auto* instruction = dyn_cast<Instruction>(user))
          add_apart(*instruction->getFunction(), to);
  }

  // Inline functions that allocate, and those that call them, are others than those of the same
  // name in code that is not compiled so: that of a library, which must not get typed memory, as
  // well as that of libstdc++, which gives out none. Those that make a buffer where other files see
  // characters are again others.
  void set_apart() {
    add_callers(apart_);
    add_callers(with_buffers_);
    for (Function* function : apart_) {
      const std::string name =
          function->getName().str() + ".typed" + (with_buffers_.contains(function) ? ".words" : "");
      function->setName(name);
      function->setLinkage(GlobalValue::LinkOnceODRLinkage);
      function->setVisibility(GlobalValue::HiddenVisibility);
      function->setDSOLocal(true);
      function->setComdat(module_.getOrInsertComdat(name));
    }
  }

  void call_typed(CallBase& call, const Marked& what) {
    SmallVector<Value*, 4> arguments(call.args());
    SmallVector<Type*, 4> types;
    if (what.has_end) {
      IRBuilder<> builder(&call);
      // All that there is stays so, and is refused.
      arguments[0] = builder.CreateBinaryIntrinsic(Intrinsic::uadd_sat, arguments[0],
                                                   ConstantInt::get(i64_, 1));
    }
    if (what.record != nullptr) {
      arguments.push_back(record(*what.record));
      if (what.shape != kNoShape) arguments.push_back(ConstantInt::get(i32_, what.shape));
    }
    for (Value* argument : arguments) types.push_back(argument->getType());
    FunctionCallee callee =
        module_.getOrInsertFunction(what.callee, FunctionType::get(call.getType(), types, false));
    auto* const function = dyn_cast<Function>(callee.getCallee());
    const bool allocates =
        call.getType()->isPointerTy() && what.callee.find("realloc") == std::string::npos;
    if (function != nullptr && allocates) function->addRetAttr(Attribute::NoAlias);
    CallBase* made = nullptr;
    if (auto* invoke = dyn_cast<InvokeInst>(&call))
      made = InvokeInst::Create(callee, invoke->getNormalDest(), invoke->getUnwindDest(), arguments,
                                "", call.getIterator());
    else made = CallInst::Create(callee, arguments, "", call.getIterator());
    made->setDebugLoc(call.getDebugLoc());
    if (call.hasFnAttr(Attribute::NoUnwind)) made->setDoesNotThrow();
    if (call.hasRetAttr(Attribute::NonNull)) made->addRetAttr(Attribute::NonNull);
    made->takeName(&call);
    call.replaceAllUsesWith(made);
    call.eraseFromParent();
  }

  Function* original(CallBase& call, const std::string& name) {
    return cast<Function>(module_.getOrInsertFunction(name, call.getFunctionType()).getCallee());
  }

  void tag(CallBase& call, const Marked& what) {
    call.setCalledFunction(original(call, what.callee));
    // Where arguments are passed in another way than the source has them, or nothing can be done
    // behind the call, it stays words.
    const auto size = static_cast<unsigned>(what.size);
    if (call.isMustTailCall() || !call.getType()->isPointerTy() ||
        call.arg_size() != what.arguments || !call.getArgOperand(size)->getType()->isIntegerTy())
      return;
    Instruction* next = nullptr;
    if (auto* invoke = dyn_cast<InvokeInst>(&call)) {
      BasicBlock* const after = SplitEdge(invoke->getParent(), invoke->getNormalDest());
      next = &*after->getFirstInsertionPt();
    } else {
      next = call.getNextNode();
    }
    IRBuilder<> builder(next);
    builder.SetCurrentDebugLocation(call.getDebugLoc());
    FunctionCallee tags = module_.getOrInsertFunction(
        "perdura_typed_tag", FunctionType::get(pointer_, {pointer_, i64_, pointer_, i32_}, false));
    Value* const bytes = builder.CreateIntCast(call.getArgOperand(size), i64_, false);
    CallInst* const tagged = builder.CreateCall(
        tags, {&call, bytes, record(*what.record), ConstantInt::get(i32_, what.shape)});
    tagged->setDoesNotThrow();
    call.replaceUsesWithIf(tagged, [&](Use& use) { return use.getUser() != tagged; });
  }

  static BasicBlock* SplitEdge(BasicBlock* from, BasicBlock* to) {
    BasicBlock* const between = BasicBlock::Create(from->getContext(), "", from->getParent(), to);
    BranchInst::Create(to, between);
    cast<InvokeInst>(from->getTerminator())->setNormalDest(between);
    to->replacePhiUsesWith(from, between);
    return between;
  }

  void count(CallBase& call, const Marked& what) {
    Constant* const fields[] = {texts_.of(what.place), texts_.of(what.called),
                                ConstantInt::get(i64_, 0)};
    sites_.push_back(ConstantStruct::get(site_type_, fields));
    waiting_.push_back({&call, sites_.size() - 1});
    call.setCalledFunction(original(call, what.callee));
  }

  Constant* number(uint64_t value) { return ConstantInt::get(i32_, static_cast<uint32_t>(value)); }

  GlobalVariable* merged(const std::string& name, Constant* value) {
    auto* const made = new GlobalVariable(module_, value->getType(), true,
                                          GlobalValue::LinkOnceODRLinkage, value, name);
    made->setVisibility(GlobalValue::HiddenVisibility);
    made->setComdat(module_.getOrInsertComdat(name));
    made->setAlignment(Align(8));
    return made;
  }

  Constant* record(const Record& record) {
    const std::string name = "__perdura_type." + record.key();
    GlobalVariable*& known = records_[name];
    if (known != nullptr) return known;
    Constant* slots = ConstantPointerNull::get(pointer_);
    if (!record.slots.empty()) {
      std::vector<Constant*> all;
      for (const Slot& slot : record.slots) {
        Constant* const value =
            slot.value != nullptr ? this->record(*slot.value) : ConstantPointerNull::get(pointer_);
        Constant* const fields[] = {texts_.of(slot.member),
                                    number(slot.kind),
                                    number(slot.offset),
                                    number(slot.bytes),
                                    value,
                                    number(slot.tag_offset),
                                    number(slot.tag_bytes),
                                    ConstantInt::get(i64_, slot.tag_value)};
        all.push_back(ConstantStruct::get(slot_type_, fields));
      }
      slots = merged("__perdura_slots." + record.key(),
                     ConstantArray::get(ArrayType::get(slot_type_, all.size()), all));
    }
    Constant* const fields[] = {texts_.of(record.name), number(record.size),
                                number(record.alignment), number(record.slots.size()), slots};
    GlobalVariable* const made = merged(name, ConstantStruct::get(record_type_, fields));
    records_[name] = made;
    return made;
  }

  /// The library is told what this file has when it is loaded, and unloaded.
  void tell_part() {
    std::vector<Constant*> types;
    for (const auto& [name, record] : records_) types.push_back(record);
    const auto array = [&](Type* type, std::vector<Constant*>& values, bool constant) -> Constant* {
      if (values.empty()) return ConstantPointerNull::get(pointer_);
      auto* const whole = ArrayType::get(type, values.size());
      auto* const made = new GlobalVariable(module_, whole, constant, GlobalValue::PrivateLinkage,
                                            ConstantArray::get(whole, values));
      made->setAlignment(Align(8));
      return made;
    };
    Constant* const all_types = array(pointer_, types, true);
    Constant* const all_sites = array(site_type_, sites_, false);
    for (const auto& [call, index] : waiting_) add_one(*call, all_sites, index);
    auto* const part_type = StructType::get(context_, {pointer_, i64_, pointer_, i64_, pointer_});
    Constant* const fields[] = {all_types, ConstantInt::get(i64_, types.size()), all_sites,
                                ConstantInt::get(i64_, sites_.size()),
                                ConstantPointerNull::get(pointer_)};
    auto* const part =
        new GlobalVariable(module_, part_type, false, GlobalValue::InternalLinkage,
                           ConstantStruct::get(part_type, fields), "perdura_typed_part");
    constexpr int kFirst = 101;  // of the program's own
    appendToGlobalCtors(module_, caller("perdura_typed_begin", part), kFirst);
    appendToGlobalDtors(module_, caller("perdura_typed_end", part), kFirst);
  }

  Function* caller(const std::string& name, GlobalVariable* part) {
    Type* const none = Type::getVoidTy(context_);
    Function* const made = Function::createWithDefaultAttr(
        FunctionType::get(none, false), GlobalValue::InternalLinkage, 0, name + ".part", &module_);
    IRBuilder<> builder(BasicBlock::Create(context_, "", made));
    builder.CreateCall(module_.getOrInsertFunction(name, none, pointer_), {part});
    builder.CreateRetVoid();
    return made;
  }

  // Not atomic as a whole: a count that a thread loses does no harm.
  void add_one(CallBase& call, Constant* sites, uint64_t index) {
    IRBuilder<> builder(&call);
    Constant* const place = ConstantExpr::getInBoundsGetElementPtr(
        site_type_, sites,
        ArrayRef<Constant*>{ConstantInt::get(i64_, index), ConstantInt::get(i32_, 2)});
    LoadInst* const made = builder.CreateAlignedLoad(i64_, place, Align(8));
    made->setAtomic(AtomicOrdering::Monotonic);
    builder.CreateAlignedStore(builder.CreateAdd(made, ConstantInt::get(i64_, 1)), place, Align(8))
        ->setAtomic(AtomicOrdering::Monotonic);
  }

  Module& module_;
  LLVMContext& context_;
  PointerType* const pointer_;
  Type* const i32_;
  Type* const i64_;
  StructType* const slot_type_;
  StructType* const record_type_;
  StructType* const site_type_;
  Functions apart_;
  Functions with_buffers_;
  Texts texts_{module_};
  std::map<std::string, GlobalVariable*> records_;
  std::vector<Constant*> sites_;
  std::vector<std::pair<CallBase*, size_t>> waiting_;
};

struct Replace : PassInfoMixin<Replace> {
  static bool isRequired() { return true; }
  PreservedAnalyses run(Module& module, ModuleAnalysisManager&) {
    bool changed = Replacer(module).run();
    if (audits()) changed |= audit(module);
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
};

}  // namespace
}  // namespace perdura::types

extern "C" __attribute__((visibility("default"))) llvm::PassPluginLibraryInfo
llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "perdura_types", LLVM_VERSION_STRING,
          [](llvm::PassBuilder& builder) {
            builder.registerPipelineStartEPCallback(
                [](llvm::ModulePassManager& passes, llvm::OptimizationLevel) {
                  passes.addPass(perdura::types::Replace());
                });
          }};
}
