#include "structures.h"

#include <string.h>

#ifdef REPORT
#define STORES_TO(lvalue) keep_report(&(lvalue), sizeof(lvalue))
#else
#define STORES_TO(lvalue) ((void)0)
#endif

void record_set(struct record* record, const struct record* value) {
  STORES_TO(*record);
  memcpy(record, value, sizeof *record);
}

void list_add(struct list* list, uint64_t key) {
  struct list_node* node = keep_allocate(sizeof *node);
  node->next = list->first;
  node->key = key;
  node->visits = 0;
  STORES_TO(list->first);
  list->first = node;
}

void list_visit(struct list* list) {
  for (struct list_node* node = list->first; node != NULL; node = node->next) {
    STORES_TO(node->visits);
    ++node->visits;
  }
}

static uint64_t scattered(uint64_t key) { return (key * 0x9e3779b97f4a7c15u) >> 20; }

void hash_make(struct hash* hash, uint64_t bucket_count) {
  struct hash_node** buckets = keep_allocate(bucket_count * sizeof *buckets);
  memset(buckets, 0, bucket_count * sizeof *buckets);
  STORES_TO(*hash);
  hash->buckets = buckets;
  hash->bucket_count = bucket_count;
}

static struct hash_node** hash_bucket(const struct hash* hash, uint64_t key) {
  return &hash->buckets[scattered(key) & (hash->bucket_count - 1)];
}

struct record* hash_find(const struct hash* hash, uint64_t key) {
  struct hash_node* node = *hash_bucket(hash, key);
  while (node != NULL && node->key != key) node = node->next;
  return node == NULL ? NULL : &node->record;
}

void hash_insert(struct hash* hash, uint64_t key, const struct record* record) {
  struct hash_node** bucket = hash_bucket(hash, key);
  struct hash_node* node = keep_allocate(sizeof *node);
  node->next = *bucket;
  node->key = key;
  node->record = *record;
  STORES_TO(*bucket);
  *bucket = node;
}

void hash_erase(struct hash* hash, uint64_t key) {
  struct hash_node** link = hash_bucket(hash, key);
  while (*link != NULL && (*link)->key != key) link = &(*link)->next;
  struct hash_node* node = *link;
  if (node == NULL) return;
  STORES_TO(*link);
  *link = node->next;
  keep_free(node, sizeof *node);
}

struct record* tree_find(const struct tree* tree, uint64_t key) {
  struct tree_node* node = tree->root;
  while (node != NULL && node->key != key) node = node->child[node->key < key];
  return node == NULL ? NULL : &node->record;
}

void tree_insert(struct tree* tree, uint64_t key, const struct record* record) {
  struct tree_node** link = &tree->root;
  while (*link != NULL) link = &(*link)->child[(*link)->key < key];
  struct tree_node* node = keep_allocate(sizeof *node);
  node->child[0] = node->child[1] = NULL;
  node->key = key;
  node->record = *record;
  STORES_TO(*link);
  *link = node;
}

void tree_erase(struct tree* tree, uint64_t key) {
  struct tree_node** link = &tree->root;
  while (*link != NULL && (*link)->key != key) link = &(*link)->child[(*link)->key < key];
  struct tree_node* node = *link;
  if (node == NULL) return;
  if (node->child[0] != NULL && node->child[1] != NULL) {  // the next larger one takes its place
    struct tree_node** next = &node->child[1];
    while ((*next)->child[0] != NULL) next = &(*next)->child[0];
    struct tree_node* taken = *next;
    STORES_TO(*next);
    *next = taken->child[1];
    STORES_TO(taken->child);
    taken->child[0] = node->child[0];
    taken->child[1] = node->child[1];
    STORES_TO(*link);
    *link = taken;
  } else {
    STORES_TO(*link);
    *link = node->child[node->child[0] == NULL];
  }
  keep_free(node, sizeof *node);
}
