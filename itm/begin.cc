// _ITM_beginTransaction, which returns again where its transaction begins again or was cancelled:
// it keeps what its caller finds again then, as itm::Place says, on its stack.
#include "abi.hpp"

using namespace perdura;
using namespace perdura::detail;

asm(R"(
  .text
  .globl _ITM_beginTransaction
  .type _ITM_beginTransaction, @function
  .p2align 4
_ITM_beginTransaction:
  .cfi_startproc
  endbr64
  leaq 8(%rsp), %rax
  movq (%rsp), %rcx
  subq $72, %rsp
  .cfi_adjust_cfa_offset 72
  movq %rax, 0(%rsp)
  movq %rcx, 8(%rsp)
  movq %rbx, 16(%rsp)
  movq %rbp, 24(%rsp)
  movq %r12, 32(%rsp)
  movq %r13, 40(%rsp)
  movq %r14, 48(%rsp)
  movq %r15, 56(%rsp)
  movq %rsp, %rsi
  call perdura_itm_begin
  addq $72, %rsp
  .cfi_adjust_cfa_offset -72
  ret
  .cfi_endproc
  .size _ITM_beginTransaction, .-_ITM_beginTransaction
)");

extern "C" {

__attribute__((used, visibility("hidden"))) u32 perdura_itm_begin(u32 properties,
                                                                  const itm::Place* place) {
  if ((properties & kInstrumentedCode) == 0)
    itm::give_up(
        "GCC has compiled none of its code to be undone, since it calls what is not "
        "transaction_safe; make it __transaction_atomic, whose errors name these calls, and "
        "move them out of it",
        reinterpret_cast<const void*>(place->code));
  return itm::begin(*place, (properties & kHasNoAbort) == 0);
}
}
