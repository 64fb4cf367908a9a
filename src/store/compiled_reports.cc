// Where compiled code comes to when it cannot append a report by itself.
#include <perdura/compiled.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "store/compiled_reports.hpp"
#include "store/runtime.hpp"

namespace perdura::store {
namespace {

using track::MutatorSlot;

static_assert(offsetof(track::ThreadReports, begin) == 0 &&
              offsetof(track::ThreadReports, bytes) == 8 &&
              offsetof(track::ThreadReports, mutator) == 16 &&
              offsetof(track::ThreadReports, polled) == 24);
// Not of standard layout; both compilers lay it out as one.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(MutatorSlot, next_polled) == 64);
#pragma GCC diagnostic pop
static_assert(offsetof(detail::Mutator, depth) == 0 && offsetof(detail::Mutator, closed) == 4 &&
              offsetof(detail::Mutator, cursor) == 8 && offsetof(detail::Mutator, limit) == 16 &&
              offsetof(detail::Mutator, ignores_reports) == 24);

// A store that cannot be reported would be in no version.
MutatorSlot& mutator_of(detail::Runtime& runtime) {
  try {
    return static_cast<MutatorSlot&>(runtime.mutators().this_thread());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "perdura: a store to '%s' cannot be reported: %s\n",
                 runtime.name().c_str(), error.what());
    std::abort();
  }
}

/// See perdura_send_reports.
std::atomic<perdura_take_report> take_elsewhere{nullptr};

// To the store that this thread stored to last, inside an operation: whether that is so. What only
// counts reports has no registry.
bool report_again(const void* address, size_t length) {
  const track::ThreadReports& reports = perdura_thread_reports;
  if (reinterpret_cast<std::uintptr_t>(address) - reports.begin >= reports.bytes ||
      reports.mutator->registry == nullptr ||
      reports.mutator->depth.load(std::memory_order_relaxed) == 0)
    return false;
  detail::report(*reports.mutator, address, length);
  return true;
}

}  // namespace

bool report_in(const void* address, size_t length, track::ThreadReports& reports) {
  detail::Runtime* const runtime = detail::runtime_holding(address);
  if (runtime == nullptr) return false;
  if (!runtime->usable()) return true;
  MutatorSlot& mutator = mutator_of(*runtime);
  mutator.reports = &reports;
  if (!mutator.ignores_reports) {
    if (mutator.depth.load(std::memory_order_relaxed) == 0) reports.begin_polled(mutator);
    detail::report(mutator, address, length);
  }
  reports.begin = reinterpret_cast<std::uintptr_t>(runtime->region().base());
  reports.bytes = runtime->region().reserved_bytes();
  reports.mutator = &mutator;
  return true;
}

}  // namespace perdura::store

extern "C" {

// What compiled code calls keeps all registers but the flags, so that code around a store is as it
// would be without: LLVM's preserve_all, which GCC does not know. The appending is done here as
// well, for code that is to be small, and what ThreadReports::begin_polled() does where no
// checkpoint wants the thread to wait: the first store after each poll comes here.
void perdura_report_store(const void* address, size_t length);
asm(R"(
  .text
  .p2align 4
  .globl perdura_report_store
  .type perdura_report_store, @function
perdura_report_store:
  .cfi_startproc
  pushq %rax
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  movq perdura_thread_reports@GOTTPOFF(%rip), %rax
  movq %rdi, %rcx
  subq %fs:0(%rax), %rcx
  cmpq %fs:8(%rax), %rcx
  jae 1f
  movq %fs:16(%rax), %rcx
  cmpb $0, 24(%rcx)
  jne 2f
  cmpl $0, 0(%rcx)
  je 4f
3:
  movq 8(%rcx), %rax
  cmpq 16(%rcx), %rax
  jae 1f
  cmpq $0xffff, %rsi
  ja 1f
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  shlq $48, %rsi
  orq %rdi, %rsi
  movq %rsi, (%rax)
  addq $8, %rax
  movq %rax, 8(%rcx)
  popq %rsi
  .cfi_adjust_cfa_offset -8
2:
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rax
  .cfi_adjust_cfa_offset -8
  ret
4:
  .cfi_adjust_cfa_offset 16
  movl $1, 0(%rcx)
  cmpl $0, 4(%rcx)
  jne 5f
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  movq %fs:24(%rax), %rdx
  movq %rdx, 64(%rcx)
  movq %rcx, %fs:24(%rax)
  popq %rdx
  .cfi_adjust_cfa_offset -8
  jmp 3b
5:
  movl $0, 0(%rcx)
1:
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %r9
  .cfi_adjust_cfa_offset 8
  pushq %r10
  .cfi_adjust_cfa_offset 8
  pushq %r11
  .cfi_adjust_cfa_offset 8
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $1024, %rsp
  andq $-64, %rsp
  xorl %eax, %eax
  movq %rax, 512(%rsp)
  movq %rax, 520(%rsp)
  movq %rax, 528(%rsp)
  movq %rax, 536(%rsp)
  movq %rax, 544(%rsp)
  movq %rax, 552(%rsp)
  movq %rax, 560(%rsp)
  movq %rax, 568(%rsp)
  movl $7, %eax
  xorl %edx, %edx
  xsave64 (%rsp)
  call perdura_report@PLT
  movl $7, %eax
  xorl %edx, %edx
  xrstor64 (%rsp)
  movq %rbp, %rsp
  .cfi_def_cfa_register %rsp
  popq %rbp
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbp
  popq %r11
  .cfi_adjust_cfa_offset -8
  popq %r10
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rax
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size perdura_report_store, .-perdura_report_store
)");

void perdura_report(const void* address, size_t length) {
  if (!perdura::track::in_compiled_window(address) || length == 0 ||
      perdura::store::report_again(address, length))
    return;
  const int saved_errno = errno;
  if (!perdura::store::report_in(address, length, perdura_thread_reports))
    if (const auto take = perdura::store::take_elsewhere.load(std::memory_order_acquire))
      take(address, length, &perdura_thread_reports);
  errno = saved_errno;
}

bool perdura_send_reports(size_t layout, perdura_take_report take) {
  if (layout != perdura::track::kReportsLayout) return false;
  perdura::store::take_elsewhere.store(take, std::memory_order_release);
  return true;
}

// Each time, also where no checkpoint waits: until its next store the thread may do anything, as
// wait for input.
int perdura_poll(void) {
  return (perdura_thread_reports.poll() & perdura::detail::Mutator::kStop) != 0 ? 1 : 0;
}

}  // extern "C"
