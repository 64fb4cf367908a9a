// The pass of perdura-clang: reports each store that may fall into a region of a store, before it
// (docs/compiler.md). It runs last in the optimizer, on what is left to be stored.
//
//   stores ─ those to locals and globals left out ─ neighbours merged ─ counted loops reported as a
//   range before them ─ code
//
// A report is never moved across what may end an operation, since a checkpoint may come there, and
// the store behind it would be in none: fences, atomics that order, calls that may synchronise.
//
// The code of a report compares the address with the one window in which all regions are; there it
// appends to the buffer of the thread's mutator, as perdura::detail::report does, where this is the
// store that the thread stored to last, in an operation, with room. All else is a call, which keeps
// all registers.
#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include <optional>

#include "library_calls.hpp"

namespace perdura::compiler {
namespace {

using namespace llvm;

/// The library's (src/track/compiled_reports.hpp, include/perdura/detail/mutator.hpp).
constexpr unsigned kWindowShift = 44;
constexpr uint64_t kWindow = 4;
constexpr uint64_t kWindowOfTsan = 5;
constexpr unsigned kBeginOffset = 0;
constexpr unsigned kBytesOffset = 8;
constexpr unsigned kMutatorOffset = 16;
constexpr unsigned kDepthOffset = 0;
constexpr unsigned kCursorOffset = 8;
constexpr unsigned kLimitOffset = 16;
constexpr unsigned kLengthShift = 48;
constexpr uint64_t kLengthMax = 0xffff;

constexpr int64_t kGapMax = 48;  ///< bytes between stores that are reported together
constexpr int64_t kMergedMax = 4096;
constexpr uint64_t kRarely = 2;         ///< once in more calls of its function than these
constexpr int64_t kStepMax = 64;        ///< of a loop that is reported as a range: a line
constexpr unsigned kExpansionMax = 16;  ///< instructions for that, as LLVM counts them

cl::opt<bool> out_of_line("perdura-out-of-line",
                          cl::desc("report stores by a call, in all functions, for small code"));
cl::opt<bool> no_merging("perdura-no-merging", cl::desc("report each store by itself"));
cl::opt<bool> no_ranges("perdura-no-ranges", cl::desc("report no loop as a range"));

/// What is stored to from `offset` bytes behind `base` on.
struct Store {
  Instruction* at;
  Value* pointer;
  Value* length;             ///< i64
  Value* only_if = nullptr;  ///< i1
};

/// Stores that are reported together, before the first one.
struct Report {
  Instruction* at;
  Value* base;
  int64_t begin;
  int64_t end;
  Value* length = nullptr;  ///< not known when compiled: from `base` on
  Value* only_if = nullptr;
  bool by_call = false;  ///< out of line: smaller, and a few nanoseconds slower in a store
};

bool is_annotated(const Function& function, StringRef what) {
  const GlobalVariable* const all =
      function.getParent()->getGlobalVariable("llvm.global.annotations");
  if (all == nullptr || !all->hasInitializer()) return false;
  const auto* const list = dyn_cast<ConstantArray>(all->getInitializer());
  if (list == nullptr) return false;
  for (const Use& each : list->operands()) {
    const auto* const entry = dyn_cast<ConstantStruct>(each);
    if (entry == nullptr || entry->getOperand(0)->stripPointerCasts() != &function) continue;
    const auto* const text = dyn_cast<GlobalVariable>(entry->getOperand(1)->stripPointerCasts());
    const auto* const data =
        text != nullptr ? dyn_cast<ConstantDataSequential>(text->getInitializer()) : nullptr;
    if (data != nullptr && data->isCString() && data->getAsCString() == what) return true;
  }
  return false;
}

/// Where regions are for this part of a program.
uint64_t window_of(const Module& module) {
  const bool is_watched = any_of(
      module, [](const Function& each) { return each.hasFnAttribute(Attribute::SanitizeThread); });
  return is_watched ? kWindowOfTsan : kWindow;
}

bool is_reported(const Function& function) {
  return !function.isDeclaration() && !function.hasAvailableExternallyLinkage() &&
         !function.hasFnAttribute(Attribute::DisableSanitizerInstrumentation) &&
         !function.hasFnAttribute(Attribute::Naked) &&
         !is_annotated(function, "perdura_no_reports");
}

/// A local or a global, which is in no store. From null on there is all memory, where that counts.
bool is_private(const Value* object) {
  if (isa<AllocaInst>(object) || isa<GlobalValue>(object) || isa<UndefValue>(object)) return true;
  const auto* const argument = dyn_cast<Argument>(object);
  return argument != nullptr && argument->hasPassPointeeByValueCopyAttr();
}

bool may_be_in_a_store(const Value* pointer) {
  if (pointer->getType()->getPointerAddressSpace() != 0) return false;  // relative to a segment
  SmallVector<const Value*, 4> objects;
  getUnderlyingObjects(pointer, objects, nullptr, 0);
  return !all_of(objects, is_private);
}

bool orders(AtomicOrdering ordering) { return isStrongerThanMonotonic(ordering); }

/// An operation may end there, or begin.
bool is_barrier(const Instruction& instruction) {
  if (isa<FenceInst>(instruction)) return true;
  if (const auto* const store = dyn_cast<StoreInst>(&instruction))
    return orders(store->getOrdering());
  if (const auto* const load = dyn_cast<LoadInst>(&instruction)) return orders(load->getOrdering());
  if (const auto* const each = dyn_cast<AtomicRMWInst>(&instruction))
    return orders(each->getOrdering());
  if (const auto* const each = dyn_cast<AtomicCmpXchgInst>(&instruction))
    return orders(each->getSuccessOrdering()) || orders(each->getFailureOrdering());
  const auto* const call = dyn_cast<CallBase>(&instruction);
  if (call == nullptr) return false;
  if (isa<AnyMemIntrinsic>(call) || isa<DbgInfoIntrinsic>(call)) return false;
  if (call->isInlineAsm()) return call->mayReadOrWriteMemory();
  return !call->hasFnAttr(Attribute::NoSync) && !call->doesNotAccessMemory();
}

class Instrumented {
 public:
  Instrumented(Function& function, uint64_t window, FunctionAnalysisManager& analyses)
      : function_(function),
        window_(window),
        layout_(function.getParent()->getDataLayout()),
        analyses_(analyses),
        remarks_(analyses.getResult<OptimizationRemarkEmitterAnalysis>(function)),
        i64_(Type::getInt64Ty(function.getContext())) {}

  bool run() {
    for (BasicBlock& block : function_)
      for (Instruction& each : block) find_stores(each);
    const bool renamed = rename_calls();
    if (stores_.empty()) return renamed;
    merge();
    if (!no_ranges) hoist();
    choose_calls();
    for (const Report& each : reports_) emit(each);
    function_.setMemoryEffects(MemoryEffects::unknown());  // what it was found to access is not all
    return true;
  }

 private:
  // --- what is stored to

  Value* constant(uint64_t bytes) const { return ConstantInt::get(i64_, bytes); }
  uint64_t size_of(Type* type) const { return layout_.getTypeStoreSize(type).getKnownMinValue(); }

  void add(Instruction& at, Value* pointer, Value* length, Value* only_if = nullptr) {
    if (may_be_in_a_store(pointer)) stores_[&at].push_back({&at, pointer, length, only_if});
  }
  void add(Instruction& at, Value* pointer, Type* type) {
    add(at, pointer, constant(size_of(type)));
  }

  void find_stores(Instruction& each) {
    if (auto* const store = dyn_cast<StoreInst>(&each))
      return add(each, store->getPointerOperand(), store->getValueOperand()->getType());
    if (auto* const atomic = dyn_cast<AtomicRMWInst>(&each))
      return add(each, atomic->getPointerOperand(), atomic->getValOperand()->getType());
    if (auto* const atomic = dyn_cast<AtomicCmpXchgInst>(&each))
      return add(each, atomic->getPointerOperand(), atomic->getNewValOperand()->getType());
    if (auto* const call = dyn_cast<CallBase>(&each)) find_stores_of(*call);
  }

  void find_stores_of(CallBase& call) {
    if (auto* const memory = dyn_cast<AnyMemIntrinsic>(&call)) {
      IRBuilder<> builder(&call);
      return add(call, memory->getRawDest(), builder.CreateZExtOrTrunc(memory->getLength(), i64_));
    }
    if (call.isInlineAsm()) return find_stores_of_assembler(call);
    const auto* const intrinsic = dyn_cast<IntrinsicInst>(&call);
    if (intrinsic == nullptr) return tell_unknown(call);
    switch (intrinsic->getIntrinsicID()) {
      case Intrinsic::masked_store:
        return add(call, call.getArgOperand(1), call.getArgOperand(0)->getType());
      case Intrinsic::masked_compressstore:
        return add(call, call.getArgOperand(1), call.getArgOperand(0)->getType());
      case Intrinsic::masked_scatter:
        return find_scattered(call);
      case Intrinsic::lifetime_start:
      case Intrinsic::lifetime_end:
      case Intrinsic::invariant_start:
      case Intrinsic::invariant_end:
      case Intrinsic::assume:
      case Intrinsic::prefetch:
      case Intrinsic::stacksave:
      case Intrinsic::stackrestore:
      case Intrinsic::vastart:
      case Intrinsic::vaend:
      case Intrinsic::vacopy:
      case Intrinsic::eh_sjlj_setjmp:
        return;
      default:
        break;
    }
    if (!call.mayWriteToMemory() || call.onlyAccessesInaccessibleMemory()) return;
    // A processor's own: as wide as the vector beside the pointer, as maskstore and maskmov are.
    Value* pointer = nullptr;
    Type* widest = nullptr;
    for (Value* const argument : call.args()) {
      if (argument->getType()->isPointerTy()) pointer = argument;
      else if (argument->getType()->isVectorTy() &&
               (widest == nullptr || size_of(argument->getType()) > size_of(widest)))
        widest = argument->getType();
    }
    if (pointer != nullptr && widest != nullptr) return add(call, pointer, widest);
    tell(call, "Intrinsic", "what this intrinsic stores to cannot be seen");
  }

  void find_scattered(CallBase& call) {
    IRBuilder<> builder(&call);
    auto* const type = cast<FixedVectorType>(call.getArgOperand(0)->getType());
    for (unsigned lane = 0; lane < type->getNumElements(); ++lane)
      stores_[&call].push_back({&call, builder.CreateExtractElement(call.getArgOperand(1), lane),
                                constant(size_of(type->getElementType())),
                                builder.CreateExtractElement(call.getArgOperand(3), lane)});
  }

  void find_stores_of_assembler(CallBase& call) {
    const auto* const assembler = cast<InlineAsm>(call.getCalledOperand());
    unsigned argument = 0;
    bool clobbers = false;
    for (const InlineAsm::ConstraintInfo& each : assembler->ParseConstraints()) {
      if (each.Type == InlineAsm::isClobber) clobbers |= each.Codes[0] == "{memory}";
      if (each.Type == InlineAsm::isOutput && each.isIndirect) {
        if (Type* const type = call.getParamElementType(argument))
          add(call, call.getArgOperand(argument), type);
      }
      if (each.Type == InlineAsm::isInput || each.isIndirect) ++argument;
    }
    if (!clobbers) return;
    for (const Value* const each : call.args())
      if (each->getType()->isPointerTy() && may_be_in_a_store(each))
        return tell(call, "Assembler",
                    "what this assembler stores to cannot be seen; report it by perdura_report()");
  }

  // --- calls of libraries, which nobody compiles to report

  bool rename_calls() {
    SmallVector<CallBase*, 8> found;
    for (BasicBlock& block : function_)
      for (Instruction& each : block) {
        auto* const call = dyn_cast<CallBase>(&each);
        const Function* const callee = call != nullptr ? call->getCalledFunction() : nullptr;
        if (callee != nullptr && callee->isDeclaration() && stores_for_others(*callee))
          found.push_back(call);
      }
    for (CallBase* const call : found) {
      Function& callee = *call->getCalledFunction();
      const std::string name = ("__perdura_" + callee.getName()).str();
      call->setCalledFunction(
          function_.getParent()->getOrInsertFunction(name, callee.getFunctionType()));
    }
    return !found.empty();
  }

  void tell_unknown(CallBase& call) {
    const Function* const callee = call.getCalledFunction();
    if (callee == nullptr || !callee->isDeclaration() || callee->isIntrinsic() ||
        callee->onlyReadsMemory() || stores_for_others(*callee))
      return;
    for (unsigned i = 0; i < call.arg_size(); ++i)
      if (call.getArgOperand(i)->getType()->isPointerTy() && !call.onlyReadsMemory(i) &&
          may_be_in_a_store(call.getArgOperand(i)))
        return tell(call, "Call",
                    "whether this function reports what it stores to is not known here");
  }

  void tell(Instruction& at, StringRef name, StringRef what) {
    remarks_.emit([&] { return OptimizationRemarkMissed("perdura", name, &at) << what; });
  }

  // --- merging

  /// Reports by base, that may be made longer: nothing that ends an operation lies between.
  using Open = SmallDenseMap<Value*, SmallVector<size_t, 2>, 8>;

  void merge() {
    DenseMap<const BasicBlock*, Open> at_end;
    const ReversePostOrderTraversal<Function*> order(&function_);
    DenseSet<const BasicBlock*> seen;
    for (BasicBlock* const block : order) {
      Open open;
      const BasicBlock* const before = block->getSinglePredecessor();
      if (before != nullptr && before != block && seen.contains(before)) open = at_end[before];
      for (Instruction& each : *block) {
        if (is_barrier(each)) open.clear();
        if (const auto found = stores_.find(&each); found != stores_.end())
          for (const Store& store : found->second) merge(store, open);
        if (is_barrier(each)) open.clear();
      }
      at_end[block] = std::move(open);
      seen.insert(block);
    }
  }

  void merge(const Store& store, Open& open) {
    const auto* const length = dyn_cast<ConstantInt>(store.length);
    if (length == nullptr || length->getZExtValue() > kLengthMax || store.only_if != nullptr) {
      reports_.push_back({store.at, store.pointer, 0, 0, store.length, store.only_if});
      return;
    }
    APInt offset(layout_.getIndexTypeSizeInBits(store.pointer->getType()), 0);
    Value* const base = store.pointer->stripAndAccumulateConstantOffsets(layout_, offset, true);
    const int64_t begin = offset.getSExtValue();
    const int64_t end = begin + static_cast<int64_t>(length->getZExtValue());
    SmallVector<size_t, 2>& same_base = open[base];
    for (const size_t index : same_base) {
      Report& report = reports_[index];
      const int64_t merged_begin = std::min(report.begin, begin);
      const int64_t merged_end = std::max(report.end, end);
      const int64_t gap = std::max(begin - report.end, report.begin - end);
      if (gap > kGapMax || merged_end - merged_begin > kMergedMax || no_merging) continue;
      report.begin = merged_begin;
      report.end = merged_end;
      return;
    }
    same_base.push_back(reports_.size());
    reports_.push_back({store.at, base, begin, end});
  }

  // --- loops

  /// Stores of a counted loop become one report before it.
  void hoist() {
    auto& loops = analyses_.getResult<LoopAnalysis>(function_);
    if (loops.empty()) return;
    auto& evolution = analyses_.getResult<ScalarEvolutionAnalysis>(function_);
    auto& dominators = analyses_.getResult<DominatorTreeAnalysis>(function_);
    auto& costs = analyses_.getResult<TargetIRAnalysis>(function_);
    DenseMap<const Loop*, bool> orders;
    SCEVExpander expander(evolution, layout_, "perdura");
    for (Report& report : reports_) {
      if (report.length != nullptr || report.only_if != nullptr) continue;
      Loop* const loop = loops.getLoopFor(report.at->getParent());
      if (loop == nullptr || loop->getLoopPreheader() == nullptr ||
          loop->getLoopLatch() == nullptr ||
          !dominators.dominates(report.at->getParent(), loop->getLoopLatch()))
        continue;
      const auto [known, is_new] = orders.try_emplace(loop, false);
      if (is_new)
        known->second = any_of(loop->blocks(), [](const BasicBlock* block) {
          return any_of(*block, [](const Instruction& each) { return is_barrier(each); });
        });
      if (known->second) continue;
      const SCEV* const count = evolution.getBackedgeTakenCount(loop);
      if (isa<SCEVCouldNotCompute>(count) || count->getType()->getIntegerBitWidth() > 64) continue;
      const auto* const address = dyn_cast<SCEVAddRecExpr>(evolution.getSCEV(report.base));
      if (address == nullptr || address->getLoop() != loop || !address->isAffine()) continue;
      const auto* const step = dyn_cast<SCEVConstant>(address->getStepRecurrence(evolution));
      if (step == nullptr) continue;
      const int64_t bytes = step->getAPInt().getSExtValue();
      if (bytes > kStepMax || bytes < -kStepMax) continue;
      const SCEV* const times = evolution.getTruncateOrZeroExtend(count, i64_);
      const SCEV* const span = evolution.getMulExpr(
          times, evolution.getConstant(i64_, static_cast<uint64_t>(std::abs(bytes))));
      const SCEV* const length = evolution.getAddExpr(
          span, evolution.getConstant(i64_, static_cast<uint64_t>(report.end - report.begin)));
      const SCEV* first = address->getStart();
      if (bytes < 0) first = evolution.getAddExpr(first, evolution.getNegativeSCEV(span));
      Instruction* const before = loop->getLoopPreheader()->getTerminator();
      if (!expander.isSafeToExpandAt(first, before) || !expander.isSafeToExpandAt(length, before) ||
          expander.isHighCostExpansion({first, length}, loop, kExpansionMax, &costs, before))
        continue;
      Value* const base = expander.expandCodeFor(first, report.base->getType(), before);
      report.length = expander.expandCodeFor(length, i64_, before);
      report.base = base;
      report.at = before;
      report.end = report.begin;
    }
  }

  // --- code

  /// Code that is run less often than its function is not worth its size.
  void choose_calls() {
    const bool all = out_of_line || function_.hasOptSize();
    auto* const frequencies =
        all || reports_.empty() ? nullptr : &analyses_.getResult<BlockFrequencyAnalysis>(function_);
    for (Report& each : reports_)
      each.by_call = all || each.length != nullptr || each.only_if != nullptr ||
                     frequencies->getBlockFreq(each.at->getParent()).getFrequency() <
                         frequencies->getEntryFreq().getFrequency() / kRarely;
  }

  void emit(const Report& report) {
    IRBuilder<> builder(report.at);
    builder.SetCurrentDebugLocation(report.at->getDebugLoc());
    Value* base = report.base;
    if (report.begin != 0)
      base = builder.CreatePtrAdd(
          base, ConstantInt::get(i64_, static_cast<uint64_t>(report.begin), true));
    Value* const address = builder.CreatePtrToInt(base, i64_);
    Value* in_window =
        builder.CreateICmpEQ(builder.CreateLShr(address, kWindowShift), constant(window_));
    if (report.only_if != nullptr) in_window = builder.CreateAnd(in_window, report.only_if);
    Value* const length = report.length != nullptr
                              ? report.length
                              : constant(static_cast<uint64_t>(report.end - report.begin));
    Instruction* const inside = SplitBlockAndInsertIfThen(in_window, report.at, false, rarely());
    if (report.by_call) return call(inside, base, length);
    append(inside, address, base, length);
  }

  MDNode* rarely() const { return MDBuilder(function_.getContext()).createUnlikelyBranchWeights(); }

  void append(Instruction* before, Value* address, Value* pointer, Value* length) {
    IRBuilder<> builder(before);
    builder.SetNoSanitizeMetadata();  // the library looks at these from other threads, as it may
    Module& module = *function_.getParent();
    Type* const word = i64_;
    Type* const any = PointerType::getUnqual(function_.getContext());
    auto* const reports =
        cast<GlobalVariable>(module.getOrInsertGlobal("perdura_thread_reports", word, [&] {
          return new GlobalVariable(module, word, false, GlobalValue::ExternalLinkage, nullptr,
                                    "perdura_thread_reports", nullptr,
                                    GlobalValue::InitialExecTLSModel);
        }));
    Value* const mine = builder.CreateThreadLocalAddress(reports);
    const auto load = [&](Type* type, Value* from, unsigned offset) {
      return builder.CreateLoad(
          type, builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), from, offset));
    };
    Value* const offset = builder.CreateSub(address, load(word, mine, kBeginOffset));
    Value* const is_last = builder.CreateICmpULT(offset, load(word, mine, kBytesOffset));
    Value* const mutator = load(any, mine, kMutatorOffset);
    Value* const inside = builder.CreateICmpNE(load(builder.getInt32Ty(), mutator, kDepthOffset),
                                               builder.getInt32(0));
    Value* const cursor = load(any, mutator, kCursorOffset);
    Value* const has_room = builder.CreateICmpULT(cursor, load(any, mutator, kLimitOffset));
    Value* const quick = builder.CreateAnd(builder.CreateAnd(is_last, inside), has_room);
    Instruction* appends = nullptr;
    Instruction* calls = nullptr;
    SplitBlockAndInsertIfThenElse(quick, before, &appends, &calls,
                                  MDBuilder(function_.getContext()).createLikelyBranchWeights());
    builder.SetInsertPoint(appends);
    builder.CreateStore(builder.CreateOr(address, builder.CreateShl(length, kLengthShift)), cursor);
    StoreInst* const moved = builder.CreateAlignedStore(
        builder.CreateConstInBoundsGEP1_64(word, cursor, 1),
        builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), mutator, kCursorOffset), Align(8));
    moved->setAtomic(AtomicOrdering::Release);
    call(calls, pointer, length);
  }

  void call(Instruction* before, Value* pointer, Value* length) {
    IRBuilder<> builder(before);
    Module& module = *function_.getParent();
    FunctionCallee callee = module.getOrInsertFunction("perdura_report_store", builder.getVoidTy(),
                                                       builder.getPtrTy(), i64_);
    auto* const function = cast<Function>(callee.getCallee());
    function->setCallingConv(CallingConv::PreserveAll);
    function->setDoesNotThrow();
    // The dynamic linker, which would look it up at its first call, keeps fewer registers.
    function->addFnAttr(Attribute::NonLazyBind);
    CallInst* const call = builder.CreateCall(callee, {pointer, length});
    call->setCallingConv(CallingConv::PreserveAll);
    call->setDoesNotThrow();
  }

  Function& function_;
  const uint64_t window_;
  const DataLayout& layout_;
  FunctionAnalysisManager& analyses_;
  OptimizationRemarkEmitter& remarks_;
  Type* const i64_;
  MapVector<Instruction*, SmallVector<Store, 1>> stores_;
  SmallVector<Report, 32> reports_;
};

/// The library is told that this part of the program reports when it is loaded.
void leave_mark(Module& module, uint64_t window) {
  IRBuilder<> builder(module.getContext());
  auto* const tells = Function::createWithDefaultAttr(FunctionType::get(builder.getVoidTy(), false),
                                                      GlobalValue::InternalLinkage, 0,
                                                      "perdura_tell_compiled_part", &module);
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", tells));
  const FunctionCallee told = module.getOrInsertFunction(
      "perdura_compiled_part", builder.getVoidTy(), builder.getPtrTy(), builder.getInt32Ty());
  builder.CreateCall(told, {builder.CreateGlobalString(module.getSourceFileName()),
                            builder.getInt32(static_cast<uint32_t>(window))});
  builder.CreateRetVoid();
  constexpr int kFirst = 101;  // of the program's own: others may open stores
  appendToGlobalCtors(module, tells, kFirst);
}

struct ReportStores : PassInfoMixin<ReportStores> {
  static bool isRequired() { return true; }
  PreservedAnalyses run(Module& module, ModuleAnalysisManager& analyses) {
    auto& functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
    const uint64_t window = window_of(module);
    for (Function& function : module)
      if (is_reported(function)) Instrumented(function, window, functions).run();
    leave_mark(module, window);
    return PreservedAnalyses::none();
  }
};

}  // namespace
}  // namespace perdura::compiler

extern "C" __attribute__((visibility("default"))) llvm::PassPluginLibraryInfo
llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "perdura", LLVM_VERSION_STRING, [](llvm::PassBuilder& builder) {
            builder.registerOptimizerLastEPCallback(
                [](llvm::ModulePassManager& passes, llvm::OptimizationLevel) {
                  passes.addPass(perdura::compiler::ReportStores());
                });
          }};
}
