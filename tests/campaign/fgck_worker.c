/* Keeps objects by perdura/compat/fgck.h for ever, until it is killed.
 *
 * Prints what it found, a line; then, by rounds, what has become durable:
 *   "3r"      nv_ckall of round r: all objects hold 2r, and the list its length of that round
 *   "3r + 1"  nv_ckone of the object r % OBJECTS, which holds 2r + 1
 *   "3r + 2"  nv_ckone of "new", an object made in this round, which holds 2r + 1
 * Round r begins where a store has no objects at 1, else after the round of the last nv_ckall. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perdura/compat/fgck.h>

enum { OBJECTS = 6, WORDS = 60, LIST_MAX = 40 };

struct object {
  unsigned long words[WORDS];
};

struct node {
  struct node* next;
  unsigned long value;
  char text[56];
};

struct list {
  struct node* first;
  unsigned long length;
};

static void fail(const char* what) {
  printf("%s: %s\n", what, perdura_last_error());
  fflush(stdout);
  exit(1);
}

static void check(int code, const char* what) {
  if (code != 0) fail(what);
}

static void fill(struct object* object, unsigned long value) {
  for (int i = 0; i < WORDS; ++i) object->words[i] = value;
}

/* Of an object, if it is whole. */
static unsigned long value_of(const struct object* object) {
  for (int i = 1; i < WORDS; ++i)
    if (object->words[i] != object->words[0]) fail("an object is in pieces");
  return object->words[0];
}

static const char* name_of(int i) {
  static char name[32];
  snprintf(name, sizeof name, "object %d", i);
  return name;
}

static void push(struct list* list, unsigned long value) {
  struct node* node = nv_malloc(sizeof *node, NULL);
  if (node == NULL) fail("nv_malloc");
  memset(node->text, (int)value, sizeof node->text);
  node->value = value;
  node->next = list->first;
  list->first = node;
  ++list->length;
}

static void clear(struct list* list) {
  while (list->first != NULL) {
    struct node* node = list->first;
    list->first = node->next;
    check(nv_free(node), "nv_free");
  }
  list->length = 0;
}

static void print_state(struct object** objects, const struct list* list) {
  for (int i = 0; i < OBJECTS; ++i) printf("%lu ", value_of(objects[i]));
  const struct object* fresh = nv_find("new");
  printf("new %lu list", fresh != NULL ? value_of(fresh) : 0);
  unsigned long length = 0;
  unsigned long last = 0;
  for (const struct node* node = list->first; node != NULL; node = node->next, ++length) {
    if (length != 0 && node->value != last - 1) fail("the list is out of order");
    last = node->value;
    for (size_t i = 0; i < sizeof node->text; ++i)
      if (node->text[i] != (char)node->value) fail("a node is in pieces");
  }
  if (length != list->length) fail("the list has another length than it says");
  printf(" %lu\n", length);
  fflush(stdout);
}

int main(void) {
  struct object* objects[OBJECTS];
  struct list* list = nv_find("list");
  unsigned long round = 1;
  if (list == NULL) {
    if (perdura_last_code() != PERDURA_NOT_FOUND) fail("nv_find");
    list = nv_malloc(sizeof *list, "list");
    if (list == NULL) fail("nv_malloc");
    *list = (struct list){NULL, 0};
    for (int i = 0; i < OBJECTS; ++i) {
      objects[i] = nv_malloc(sizeof *objects[i], name_of(i));
      if (objects[i] == NULL) fail("nv_malloc");
      fill(objects[i], 0);
    }
    printf("nothing\n");
    fflush(stdout);
  } else {
    for (int i = 0; i < OBJECTS; ++i)
      if ((objects[i] = nv_find(name_of(i))) == NULL) fail("nv_find");
    print_state(objects, list);
    /* The smallest is what the last nv_ckall left, or larger by one. */
    unsigned long least = value_of(objects[0]);
    for (int i = 1; i < OBJECTS; ++i)
      if (value_of(objects[i]) < least) least = value_of(objects[i]);
    round = least / 2 + 1;
  }
  for (;; ++round) {
    for (int i = 0; i < OBJECTS; ++i) fill(objects[i], 2 * round);
    if (list->length == LIST_MAX) clear(list);
    push(list, round);
    check(nv_free(nv_find("new")), "nv_free");
    check(nv_ckall(), "nv_ckall");
    printf("%lu\n", 3 * round);
    fflush(stdout);

    const int chosen = (int)(round % OBJECTS);
    for (int i = 0; i < OBJECTS; ++i) fill(objects[i], 2 * round + 1);
    check(nv_ckone(name_of(chosen)), "nv_ckone");
    printf("%lu\n", 3 * round + 1);
    fflush(stdout);

    struct object* fresh = nv_malloc(sizeof *fresh, "new");
    if (fresh == NULL) fail("nv_malloc");
    fill(fresh, 2 * round + 1);
    check(nv_ckone("new"), "nv_ckone");
    printf("%lu\n", 3 * round + 2);
    fflush(stdout);
  }
}
