/* A doubly linked list, the newest record first. */
#include "structure.h"

#include <perdura/container.h>

struct link {
  struct link* next;
  struct link* before;
  struct record record;
};

struct list {
  struct link* first;
};

PERDURA_DEFINE_TYPE(link_type, struct link, PERDURA_POINTER(struct link, next),
                    PERDURA_POINTER(struct link, before));
PERDURA_DEFINE_TYPE(list_type, struct list, PERDURA_POINTER(struct list, first));

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
  struct link* link = perdura_new(&link_type, 1);
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
  perdura_delete(link);
  return true;
}

static void for_each(const void* root, void (*visit)(const struct record*, void*), void* argument) {
  const struct list* list = root;
  for (const struct link* link = list->first; link != NULL; link = link->next)
    visit(&link->record, argument);
}

const struct structure list_structure = {"list", &list_type, insert, find, erase, for_each};
