/* A library that is loaded at run time and allocates for its program (libraries.c). */
#include <stdlib.h>
#include <string.h>

#include "item_library.h"

struct item* make_item(const char* text) {
  struct item* const item = malloc(sizeof *item);
  item->next = NULL;
  item->text = strdup(text);
  return item;
}
