/* Keeps records in one of four structures that were made for ordinary memory:
 *
 *   keep STRUCTURE [+KEY=VALUE | -KEY | KEY]...
 *
 * What makes it durable are the lines marked "added", the type records, and that objects are made
 * with perdura_new. */
#include "structure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perdura/compat/softpm.h> /* added */

static const struct structure* const kStructures[] = {&array_structure, &list_structure,
                                                      &tree_structure, &hash_structure};
enum { kCount = sizeof kStructures / sizeof *kStructures };

static void print(const struct record* record, void* count) {
  printf("%lu=%s\n", record->key, record->value);
  ++*(unsigned long*)count;
}

static int failed(const char* what) {
  fprintf(stderr, "keep: %s: %s\n", what, perdura_last_error());
  return 1;
}

int main(int argc, char** argv) {
  int which = 0;
  while (which < kCount && (argc < 2 || strcmp(argv[1], kStructures[which]->name) != 0)) ++which;
  if (which == kCount) {
    fprintf(stderr, "usage: keep array|list|tree|hash [+KEY=VALUE | -KEY | KEY]...\n");
    return 2;
  }
  const struct structure* structure = kStructures[which];
  void* root = NULL;
  const int id = pCOpenTyped(which + 1, structure->root_type, &root); /* added */
  if (root == NULL) return failed("cannot open");
  for (int i = 2; i < argc; ++i) {
    char* value = NULL;
    const uint64_t key = strtoull(argv[i] + (*argv[i] == '+' || *argv[i] == '-'), &value, 10);
    if (*argv[i] == '-') {
      structure->erase(root, key);
      continue;
    }
    struct record* record = structure->find(root, key);
    if (*argv[i] == '+') {
      if (record == NULL) record = structure->insert(root, key);
      if (record == NULL) return failed("no memory");
      snprintf(record->value, kValueBytes, "%s", value + (*value == '='));
    } else {
      printf("%s\n", record != NULL ? record->value : "(none)");
    }
  }
  unsigned long count = 0;
  if (argc == 2) structure->for_each(root, print, &count);
  if ((pPoint(id), pSync(id)) != 0) return failed("not durable"); /* added */
  return 0;
}
