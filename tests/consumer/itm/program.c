/* Transactions that GCC compiles: a list that grows by one node each time. */
#include <perdura/perdura.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
  struct node* next;
  uint64_t number;
};
struct list {
  struct node* head;
};

static void add(struct list* list) {
  __transaction_atomic {
    struct node* const made = malloc(sizeof *made);
    made->next = list->head;
    made->number = list->head == NULL ? 1 : list->head->number + 1;
    list->head = made;
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  perdura_store* store = NULL;
  if (perdura_open(argv[1], NULL, &store) != 0) {
    fprintf(stderr, "%s\n", perdura_last_error());
    return 1;
  }
  struct list* list = perdura_root_get(store, "list");
  if (list == NULL) {
    list = perdura_alloc(store, sizeof *list);
    memset(list, 0, sizeof *list);
    perdura_root_set(store, "list", list);
  }
  add(list);
  uint64_t count = 0;
  for (const struct node* each = list->head; each != NULL; each = each->next) ++count;
  if (list->head->number != count) return 1;
  return perdura_close(store) == 0 ? 0 : 1;
}
