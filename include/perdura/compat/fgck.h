/* The interface of FGCK (Fine-grained checkpoint based on non-volatile memory, FITEE 2017, Table
 * 2), on a Perdura store with aliases (docs/tracking.md).
 *
 * The first call opens the program's own store: one for each executable and user, in
 * $XDG_STATE_HOME/perdura or ~/.local/state/perdura. PERDURA_STORE names another by its URI;
 * PERDURA_ALIASES says how many parts of a page are told apart when a store is created (2).
 * Objects lie at the same addresses in every run. A run begins with what the last checkpoint of the
 * run before it holds; exit takes none.
 *
 * Functions that return int return 0 or a negative perdura_code; the others NULL. Then
 * perdura_last_error() gives a sentence and perdura_last_code() the code. They may be called from
 * any thread. While nv_ckall or nv_ckone runs, no thread may store to persistent objects: what it
 * stores may be in that checkpoint, in part, and in the next. */
#ifndef PERDURA_COMPAT_FGCK_H
#define PERDURA_COMPAT_FGCK_H

#include <stddef.h>

#include <perdura/perdura.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A persistent object of `size` bytes, aligned to 16, contents indeterminate. `name` is NULL or 1
 * to 255 bytes that no other object has (else PERDURA_MISUSE); a named object has lines of its own.
 * Not durable before a checkpoint: until then a crash takes it back. */
void* nv_malloc(size_t size, const char* name);

/* Frees an object and its name. NULL is ignored. */
int nv_free(void* object);

/* Makes all objects durable, all of them or, after a crash, none. */
int nv_ckall(void);

/* Makes one object durable, atomically, and none of the others. Returns -PERDURA_NOT_FOUND for an
 * unknown name, and -PERDURA_MISUSE where the last checkpoint has another object of this name, or
 * in its place: then nv_ckall is needed first. */
int nv_ckone(const char* name);

/* Beyond the paper: the object of that name, NULL when there is none (perdura_last_code() is then
 * PERDURA_NOT_FOUND). This is how a program that was started again finds its objects. */
void* nv_find(const char* name);

#ifdef __cplusplus
}
#endif

#endif
