/* Type records from C: typed objects move to another address; another layout is refused. */
#define _POSIX_C_SOURCE 200809L
#include <perdura/perdura.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, #condition, perdura_last_error()); \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

enum kind { NUMBER, TEXT };

struct pair {
  uint64_t key;
  char* text;
};

struct node {
  struct node* next;
  enum kind kind;
  union {
    char* text;
    long number;
  } value;
  struct pair pairs[3];
};

struct table {
  size_t count;
  struct node* nodes[];
};

struct record {
  int numbers[10];
};

PERDURA_DEFINE_TYPE(pair_type, struct pair, PERDURA_POINTER(struct pair, text));
PERDURA_DEFINE_TYPE(node_type, struct node, PERDURA_POINTER(struct node, next),
                    PERDURA_POINTER_WHEN(struct node, value.text, kind, TEXT),
                    PERDURA_VALUE(struct node, pairs, pair_type));
PERDURA_DEFINE_TYPE(table_type, struct table, PERDURA_FLEXIBLE_POINTERS(struct table, nodes));
PERDURA_DEFINE_PLAIN_TYPE(char_type, char);
PERDURA_DEFINE_PLAIN_TYPE(record_type, struct record);

enum { kNodes = 100 };
static const uint64_t kElsewhere = 0x553000000000;

static perdura_store* open_at(const char* path, uint64_t address) {
  perdura_options options = {.region_limit_bytes = 64 << 20, .region_address = address};
  perdura_store* store = NULL;
  CHECK(perdura_open(path, &options, &store) == 0);
  return store;
}

static char* copy_of(perdura_store* store, const char* text) {
  char* copy = perdura_alloc_typed(store, &char_type, strlen(text) + 1);
  CHECK(copy != NULL);
  return strcpy(copy, text);
}

static void make(perdura_store* store) {
  struct table* table =
      perdura_alloc_flexible(store, &table_type, sizeof *table + kNodes * sizeof(struct node*));
  CHECK(table != NULL);
  for (int i = 0; i < kNodes; ++i) {
    struct node* node = perdura_alloc_typed(store, &node_type, 1);
    CHECK(node != NULL && node->next == NULL);
    char text[32];
    snprintf(text, sizeof text, "node %d", i);
    node->next = i == 0 ? NULL : table->nodes[i - 1];
    node->kind = i % 2 == 0 ? TEXT : NUMBER;
    if (node->kind == TEXT) node->value.text = copy_of(store, text);
    else node->value.number = i;
    node->pairs[i % 3].text = copy_of(store, text);
    table->nodes[table->count++] = node;
  }
  CHECK(perdura_alloc_typed(store, &record_type, 7) != NULL);
  CHECK(perdura_root_set(store, "table", table) == 0);
}

static void check(perdura_store* store) {
  const struct table* table = perdura_root_get(store, "table");
  CHECK(table != NULL && table->count == kNodes);
  for (int i = 0; i < kNodes; ++i) {
    const struct node* node = table->nodes[i];
    char text[32];
    snprintf(text, sizeof text, "node %d", i);
    CHECK(node->next == (i == 0 ? NULL : table->nodes[i - 1]));
    CHECK(node->kind == TEXT ? strcmp(node->value.text, text) == 0 : node->value.number == i);
    CHECK(strcmp(node->pairs[i % 3].text, text) == 0);
  }
}

int main(void) {
  char path[] = "/tmp/perdura-types-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  close(file);

  perdura_store* store = open_at(path, 0);
  make(store);
  struct table* table = perdura_root_get(store, "table");
  table = perdura_realloc(store, table, sizeof *table + 1000 * sizeof(struct node*));
  CHECK(table != NULL && table->nodes[kNodes] == NULL && table->nodes[999] == NULL);
  CHECK(perdura_root_set(store, "table", table) == 0);
  check(store);
  CHECK(perdura_close(store) == 0);

  store = open_at(path, kElsewhere);
  CHECK((uint64_t)perdura_root_get(store, "table") - kElsewhere < (64 << 20));
  check(store);

  const perdura_slot slots[] = {PERDURA_POINTER(struct pair, text)};
  const perdura_type other = {"struct pair", sizeof(struct pair), 16, 1, slots};
  CHECK(perdura_type_expect(store, &pair_type) == 0);
  CHECK(perdura_type_expect(store, &node_type) == 0);
  CHECK(perdura_alloc_typed(store, NULL, 1) == NULL &&
        perdura_last_code() == PERDURA_INVALID_ARGUMENT);
  /* Values have no type of their own in the store. */
  CHECK(perdura_type_expect(store, &other) == 0);
  CHECK(perdura_alloc_typed(store, &pair_type, 1) != NULL);
  CHECK(perdura_type_expect(store, &other) == -PERDURA_TYPE_MISMATCH);
  CHECK(perdura_alloc_typed(store, &other, 1) == NULL &&
        perdura_last_code() == PERDURA_TYPE_MISMATCH);
  CHECK(perdura_close(store) == 0);
  CHECK(unlink(path) == 0);
  return 0;
}
