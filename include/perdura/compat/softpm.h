/* The interface of SoftPM (Software Persistent Memory, USENIX ATC 2012, Table 1), on containers
 * (perdura/container.h).
 *
 *   struct c_root { struct list* l; } *cr;
 *   int id = pCAlloc(m, sizeof(*cr), (void**)&cr);
 *   cr->l = list_head;
 *   pPoint(id);
 *
 * Objects that a container is to take in are made with perdura_new and a type record, or with
 * malloc and new in a program that perdura-clang --perdura-types compiles, as SoftPM's pass does
 * (docs/types.md). A container is a file of its own, beside others of the same
 * executable and user in $XDG_STATE_HOME/perdura or ~/.local/state/perdura; PERDURA_STORE names
 * another place by a URI, to whose path a container adds its number.
 *
 * Functions that return int return a negative perdura_code when they fail; perdura_last_error()
 * then gives a sentence. They may be called from any thread. */
#ifndef PERDURA_COMPAT_SOFTPM_H
#define PERDURA_COMPAT_SOFTPM_H

#include <perdura/container.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cattr {
  int magic;             /* the container; not set by pCSetAttr */
  unsigned interval_ms;  /* a point so often in the background; 0: none */
  unsigned long version; /* the last durable one; not set by pCSetAttr */
  unsigned long bytes;   /* that its medium has for data; not set by pCSetAttr */
  unsigned long shared;  /* objects of other containers that the last point copied; the same */
  int warn_of_sharing;   /* 1: say on stderr when a point finds the first ones of a container */
};

/* Create a container with a root of cSSize bytes, zeroed, to which *cStruct then points. Returns
 * its identifier, from 1; -PERDURA_MISUSE when a container of that number exists. Each word of the
 * root that leads to an object is a pointer; a root with other words is made with pCAllocTyped. */
int pCAlloc(int magic, int cSSize, void** cStruct);
/* The same, of which is known where its pointers are (beyond the paper). */
int pCAllocTyped(int magic, const perdura_type* type, void** cStruct);

/* Restore a container, or create it where there is none (beyond the paper). */
int pCOpen(int magic, int cSSize, void** cStruct);
int pCOpenTyped(int magic, const perdura_type* type, void** cStruct);

/* -PERDURA_NOT_FOUND for an identifier of no container. */
int pCSetAttr(int cID, struct cattr* attr);
/* Of an open container; NULL when it is not open. Valid until the thread's next call. */
struct cattr* pCGetAttr(int magic);

/* Start a persistence point: returns when what is reachable has moved into the container; the rest
 * is written in the background. What fails is told by pSync. */
void pPoint(int cID);
/* Wait for the points so far. */
int pSync(int cID);

/* Open a container as its last point left it. Returns its identifier; -PERDURA_NOT_FOUND. */
int pCRestore(int magic, void** cStruct);
/* Close it; what was changed since the last point is lost. */
void pCFree(int cID);
/* Close and remove it. */
void pCDelete(int magic);
/* Points do not follow the pointer at `ptr`, a word of an object: it is null after pCRestore. */
void pExclude(int cID, void* ptr);

#ifdef __cplusplus
}
#endif

#endif
