/* A hash table with chains; it doubles when it is full. */
#include "structure.h"

#include <stdlib.h>

struct entry {
  struct entry* next;
  struct record record;
};

typedef struct entry* bucket;

struct hash {
  bucket* buckets;
  uint64_t bucket_count; /* a power of two */
  uint64_t entry_count;
};

static bucket* bucket_of(const struct hash* hash, uint64_t key) {
  const uint64_t mixed = key * UINT64_C(0x9e3779b97f4a7c15);
  return &hash->buckets[mixed >> 32 & (hash->bucket_count - 1)];
}

static bool grow(struct hash* hash) {
  const struct hash old = *hash;
  bucket* buckets = calloc(old.bucket_count != 0 ? 2 * old.bucket_count : 64, sizeof(bucket));
  if (buckets == NULL) return false;
  hash->buckets = buckets;
  hash->bucket_count = old.bucket_count != 0 ? 2 * old.bucket_count : 64;
  for (uint64_t i = 0; i < old.bucket_count; ++i)
    for (struct entry *entry = old.buckets[i], *next; entry != NULL; entry = next) {
      next = entry->next;
      bucket* place = bucket_of(hash, entry->record.key);
      entry->next = *place;
      *place = entry;
    }
  free(old.buckets);
  return true;
}

static struct record* find(const void* root, uint64_t key) {
  const struct hash* hash = root;
  if (hash->bucket_count == 0) return NULL;
  struct entry* entry = *bucket_of(hash, key);
  while (entry != NULL && entry->record.key != key) entry = entry->next;
  return entry != NULL ? &entry->record : NULL;
}

static struct record* insert(void* root, uint64_t key) {
  struct hash* hash = root;
  struct record* found = find(hash, key);
  if (found != NULL) return found;
  if (hash->entry_count == hash->bucket_count && !grow(hash)) return NULL;
  struct entry* entry = calloc(1, sizeof(struct entry));
  if (entry == NULL) return NULL;
  bucket* place = bucket_of(hash, key);
  entry->record.key = key;
  entry->next = *place;
  *place = entry;
  ++hash->entry_count;
  return &entry->record;
}

static bool erase(void* root, uint64_t key) {
  struct hash* hash = root;
  if (find(hash, key) == NULL) return false;
  bucket* place = bucket_of(hash, key);
  while ((*place)->record.key != key) place = &(*place)->next;
  struct entry* entry = *place;
  *place = entry->next;
  free(entry);
  --hash->entry_count;
  return true;
}

static void for_each(const void* root, void (*visit)(const struct record*, void*), void* argument) {
  const struct hash* hash = root;
  for (uint64_t i = 0; i < hash->bucket_count; ++i)
    for (const struct entry* entry = hash->buckets[i]; entry != NULL; entry = entry->next)
      visit(&entry->record, argument);
}

const struct structure hash_structure = {"hash",  sizeof(struct hash), insert, find, erase,
                                         for_each};
