/* The interface of F-STM (OpF-STM, ICICC 2018, Figure 2), on Perdura's transactions
 * (docs/transactions.md).
 *
 *   TM_INIT_THREAD
 *   TM_START
 *   TM_STORE(&node->key, key);
 *   TM_STORE(&node->next, TM_LOAD(&list->head));
 *   TM_STORE(&list->head, node);
 *   TM_COMMIT
 *   TM_EXIT_THREAD
 *
 * Words are of 8 bytes, and of one store or HEAPO heap. When a transaction meets another one it
 * goes back to TM_START: local variables that changed since then are volatile, or indeterminate
 * (setjmp). TM_COMMIT returns when it is durable. It must be in the function that TM_START is in,
 * which must not return in between. What cannot be done ends the program with a sentence on stderr:
 * a store outside, words of two heaps, a full disk. */
#ifndef PERDURA_COMPAT_FSTM_H
#define PERDURA_COMPAT_FSTM_H

#include <setjmp.h>
#include <stdint.h>

#include <perdura/perdura.h>

#ifdef __cplusplus
extern "C" {
#endif

jmp_buf* perdura_fstm_begin(void);
void perdura_fstm_start(void);
uint64_t perdura_fstm_load(const void* word);
void perdura_fstm_store(void* word, uint64_t value);
void perdura_fstm_commit(void);

/* How transactions become durable: NTP (§4.3), soon, LBP (§4.2), the paper's baseline (Figure 3),
 * NP. perdura::Durability in perdura/transaction.hpp says more. */
enum perdura_fstm_durability {
  PERDURA_FSTM_NON_TEMPORAL,
  PERDURA_FSTM_RELAXED,
  PERDURA_FSTM_LAZY_BULK,
  PERDURA_FSTM_PER_WRITE,
  PERDURA_FSTM_NONE
};
/* What a transaction keeps until it ends (§3.1): what is new, or what was there. */
enum perdura_fstm_logging { PERDURA_FSTM_REDO, PERDURA_FSTM_UNDO };
/* For the transactions that follow on the store or heap that holds `object`; while none runs.
 * Returns 0 or a negative perdura_code. */
int perdura_fstm_configure(const void* object, enum perdura_fstm_durability durability,
                           enum perdura_fstm_logging logging);

#ifdef __cplusplus
}
#endif

#define TM_INIT_THREAD
#define TM_EXIT_THREAD
#define TM_START                       \
  (void)setjmp(*perdura_fstm_begin()); \
  perdura_fstm_start();
#define TM_LOAD(word) perdura_fstm_load(word)
#define TM_STORE(word, value) perdura_fstm_store((word), (uint64_t)(value))
#define TM_COMMIT perdura_fstm_commit();

#endif
