/* What a library allocates that was loaded at run time, in two containers, one of which leads into
 * the other; and the end in the middle of a second change. LIBRARY make|check, which end by SIGKILL
 * when all is as expected. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perdura/compat/softpm.h>

#include "expect.h"
#include "item_library.h"

struct bits {
  unsigned a : 3;
  unsigned b : 29;
  struct item* item;
};
struct root {
  struct item* item;
  struct bits* bits;
  struct item* of_other;
};
struct other {
  struct item* item;
};

static void persist(int id) {
  pPoint(id);
  EXPECT(pSync(id) == 0);
}

int main(int argc, char** argv) {
  EXPECT(argc == 3);
  void* const library = dlopen(argv[1], RTLD_NOW);
  EXPECT(library != NULL);
  struct item* (*make)(const char*) = NULL;
  *(void**)&make = dlsym(library, "make_item");
  EXPECT(make != NULL);
  struct root* root = NULL;
  struct other* other = NULL;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  const int other_id = pCOpen(2, sizeof *other, (void**)&other);
  EXPECT(id > 0 && other_id > 0);
  if (strcmp(argv[2], "make") == 0) {
    root->item = make("of a library");
    root->bits = malloc(sizeof *root->bits);
    root->bits->a = 5;
    root->bits->b = 77777;
    root->bits->item = make("beside bits");
    other->item = make("of the other one");
    persist(other_id);
    root->of_other = other->item;
    persist(id);
    free(root->item->text);
    root->item->text = strdup("changed");
    persist(id);
    free(root->item->text);
    root->item->text = strdup("not in a version");
  } else {
    EXPECT(strcmp(root->item->text, "changed") == 0);
    EXPECT(root->bits->a == 5 && root->bits->b == 77777);
    EXPECT(strcmp(root->bits->item->text, "beside bits") == 0);
    EXPECT(strcmp(other->item->text, "of the other one") == 0);
    EXPECT(strcmp(root->of_other->text, "of the other one") == 0);
  }
  raise(SIGKILL);
}
