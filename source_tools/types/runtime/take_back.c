/* What takes memory back in a program that is compiled with --perdura-types: free and its like,
 * for the program and for all libraries that it loads. Where memory is from decides: an object of
 * perdura/typed.h, or what malloc gave out. Nothing else of malloc is replaced. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

#include <perdura/typed.h>

static void (*next_free)(void*);
static void* (*next_realloc)(void*, size_t);
static size_t (*next_usable_size)(void*);

/* By the first call: of the loader, mostly, before the program runs. */
static void* next(const char* name) { return dlsym(RTLD_NEXT, name); }

void free(void* memory) {
  if (memory == NULL) return;
  if (perdura_typed_holds(memory)) {
    perdura_typed_free(memory);
    return;
  }
  if (next_free == NULL) next_free = (void (*)(void*))next("free");
  next_free(memory);
}

void* realloc(void* memory, size_t bytes) {
  if (memory != NULL && perdura_typed_holds(memory))
    return perdura_typed_realloc(memory, bytes, NULL, 0);
  if (next_realloc == NULL) next_realloc = (void* (*)(void*, size_t))next("realloc");
  return next_realloc(memory, bytes);
}

size_t malloc_usable_size(void* memory) {
  if (memory != NULL && perdura_typed_holds(memory)) return perdura_typed_usable_size(memory);
  if (next_usable_size == NULL) next_usable_size = (size_t (*)(void*))next("malloc_usable_size");
  return next_usable_size(memory);
}
