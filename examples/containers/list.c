/* A doubly linked list, the newest record first. */
#include "structure.h"

#include <stdlib.h>

struct link {
  struct link* next;
  struct link* before;
  struct record record;
};

struct list {
  struct link* first;
};

static struct link* find_link(const struct list* list, uint64_t key) {
  struct link* link = list->first;
  while (link != NULL && link->record.key != key) link = link->next;
  return link;
}

static struct record* find(const void* root, uint64_t key) {
  struct link* link = find_link(root, key);
  return link != NULL ? &link->record : NULL;
}

/* Keys that are inserted are new. */
static struct record* insert(void* root, uint64_t key) {
  struct list* list = root;
  struct link* link = calloc(1, sizeof(struct link));
  if (link == NULL) return NULL;
  link->record.key = key;
  link->next = list->first;
  if (list->first != NULL) list->first->before = link;
  list->first = link;
  return &link->record;
}

static bool erase(void* root, uint64_t key) {
  struct list* list = root;
  struct link* link = find_link(list, key);
  if (link == NULL) return false;
  if (link->next != NULL) link->next->before = link->before;
  if (link->before != NULL) link->before->next = link->next;
  else list->first = link->next;
  free(link);
  return true;
}

static void for_each(const void* root, void (*visit)(const struct record*, void*), void* argument) {
  const struct list* list = root;
  for (const struct link* link = list->first; link != NULL; link = link->next)
    visit(&link->record, argument);
}

const struct structure list_structure = {"list",  sizeof(struct list), insert, find, erase,
                                         for_each};
