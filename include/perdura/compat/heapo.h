/* The interface of HEAPO (Heap-Based Persistent Object Store, ACM TOS 2014), as OpF-STM uses it:
 * named persistent heaps, on Perdura stores.
 *
 *   struct list* list = pos_create("list");          4,096 bytes, zeroed
 *   struct node* node = pos_malloc("list", sizeof *node);
 *
 * Each is a file of its own, beside others of the same executable and user in
 * $XDG_STATE_HOME/perdura or ~/.local/state/perdura; PERDURA_STORE names another place by a URI, to
 * whose path a heap adds its name. They lie at the same addresses in every run. What is stored to
 * them is durable with a transaction (perdura/compat/fstm.h), or when the heap is unmapped.
 *
 * Functions that return int return 0 or a negative perdura_code, the others NULL; then
 * perdura_last_error() gives a sentence. They may be called from any thread. */
#ifndef PERDURA_COMPAT_HEAPO_H
#define PERDURA_COMPAT_HEAPO_H

#include <stddef.h>

#include <perdura/perdura.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A new heap, mapped. Returns its first object: 4,096 bytes, zeroed, for what leads to the others.
 * A name has 1 to 100 letters, digits, - and _. NULL when there is one of this name. */
void* pos_create(const char* name);
/* Remove it; it is unmapped first. Neither is done in a transaction on it (PERDURA_MISUSE). */
int pos_delete(const char* name);
/* Map an existing one. Returns its first object. */
void* pos_map(const char* name);
/* Make all that was stored to it durable, and unmap it. */
int pos_unmap(const char* name);

/* Of a mapped heap. In a transaction they are part of it. */
void* pos_malloc(const char* name, size_t size);
int pos_free(const char* name, void* object);

#ifdef __cplusplus
}
#endif

#endif
