/* For code that is compiled to report its stores by itself: perdura-clang (docs/compiler.md). */
#ifndef PERDURA_COMPILED_H
#define PERDURA_COMPILED_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function with it reports nothing; what it stores to in a store is reported by hand. It is not
 * part of others, which do report. */
#if defined(__clang__)
#define PERDURA_NO_REPORTS __attribute__((annotate("perdura_no_reports"), noinline))
#else
#define PERDURA_NO_REPORTS
#endif

/* `length` bytes from `address` on are about to be stored to: for what the compiler does not see,
 * as inline assembler and functions of others. Outside of all stores it does nothing. Any thread,
 * inside an operation, or outside of any, of which it begins one, as compiled stores do. */
void perdura_report(const void* address, size_t length);

/* The data of this thread are consistent: where stores outside of operations have begun one, it
 * ends here. The thread's next store begins another, and waits where a checkpoint wants to cut;
 * until then the thread may wait for whatever it likes. Returns whether a checkpoint wanted to. */
int perdura_poll(void);

/* The source of a part of the program that was compiled otherwise, without its folder, which stores
 * to no store: whoever opens a store for compiled reports is not told of it, and kAutomatic takes
 * reports in spite of it. To be called before, by code of the same program or library, with a
 * literal. Any thread. */
void perdura_trusted_part(const char* source);

#ifdef __cplusplus
}
#endif

#endif
