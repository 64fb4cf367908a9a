/* For programs that run under libperdura_malloc.so and know when their data are consistent
 * (docs/malloc.md). A program need not link to anything:
 *
 *   if (perdura_malloc_poll) perdura_malloc_poll();
 */
#ifndef PERDURA_MALLOC_H
#define PERDURA_MALLOC_H

#ifdef __cplusplus
extern "C" {
#endif

/* Takes a checkpoint, in this thread, when PERDURA_CHECKPOINT_MS have gone by since the last one
 * ended: then returns 1 once it is durable, or a negative perdura_code. Returns 0 when none is due,
 * which costs a look at a coarse clock. The first call ends the checkpoints that are taken in the
 * background. Of threads that call it at once, one takes the checkpoint; the others must not store
 * to memory from malloc meanwhile.
 * NULL when the library is not loaded. */
extern int perdura_malloc_poll(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
