// A list, a hash table and a tree of records, in plain C, in whatever memory the two functions
// give. With REPORT defined they report by hand what they store to; else they are as any program
// has them.
#ifndef STRUCTURES_H
#define STRUCTURES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kRecordBytes = 100 };
struct record {
  unsigned char bytes[kRecordBytes];
};

/// Of the program that uses the structures.
void* keep_allocate(size_t bytes);
void keep_free(void* block, size_t bytes);
void keep_report(const void* address, size_t bytes);

struct list_node {
  struct list_node* next;
  uint64_t key, visits;
};
struct list {
  struct list_node* first;
};
void list_add(struct list* list, uint64_t key);
/// Stores to each node.
void list_visit(struct list* list);

struct hash_node {
  struct hash_node* next;
  uint64_t key;
  struct record record;
};
struct hash {
  struct hash_node** buckets;
  uint64_t bucket_count;  // a power of two
};
void hash_make(struct hash* hash, uint64_t bucket_count);
struct record* hash_find(const struct hash* hash, uint64_t key);
void hash_insert(struct hash* hash, uint64_t key, const struct record* record);
void hash_erase(struct hash* hash, uint64_t key);

// By keys that are scattered: nothing balances it.
struct tree_node {
  struct tree_node* child[2];
  uint64_t key;
  struct record record;
};
struct tree {
  struct tree_node* root;
};
struct record* tree_find(const struct tree* tree, uint64_t key);
void tree_insert(struct tree* tree, uint64_t key, const struct record* record);
void tree_erase(struct tree* tree, uint64_t key);

void record_set(struct record* record, const struct record* value);

#ifdef __cplusplus
}
#endif

#endif
