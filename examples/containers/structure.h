/* What the examples have in common: records by number, in a structure that its program made for
 * ordinary memory. */
#ifndef STRUCTURE_H
#define STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kValueBytes = 56 };

struct record {
  uint64_t key;
  char value[kValueBytes];
};

/* A root is zeroed memory of the root type: an empty structure. */
struct structure {
  const char* name;
  size_t root_bytes;
  /* The record of a key, made zeroed where there is none; NULL without memory. */
  struct record* (*insert)(void* root, uint64_t key);
  struct record* (*find)(const void* root, uint64_t key);
  bool (*erase)(void* root, uint64_t key);
  void (*for_each)(const void* root, void (*visit)(const struct record*, void*), void* argument);
};

extern const struct structure array_structure;
extern const struct structure list_structure;
extern const struct structure tree_structure;
extern const struct structure hash_structure;

#ifdef __cplusplus
}
#endif

#endif
