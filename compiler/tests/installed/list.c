/* A list that says nothing of Perdura, and its program, which adds a node each time. */
#include <stdio.h>
#include <stdlib.h>

#include <perdura/compat/softpm.h>

struct node {
  struct node* next;
};
struct list {
  struct node* first;
};

int main(int argc, char** argv) {
  struct list* list = NULL;
  const int id = pCOpen(1, sizeof *list, (void**)&list);
  if (id < 0 || argc != 2) return 1;
  struct node* const node = malloc(sizeof *node);
  node->next = list->first;
  list->first = node;
  pPoint(id);
  if (pSync(id) != 0) return 1;
  int count = 0;
  for (const struct node* each = list->first; each != NULL; each = each->next) ++count;
  return count == atoi(argv[1]) ? 0 : 1;
}
