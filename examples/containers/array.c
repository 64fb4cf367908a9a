/* An array of records by their keys, which grows. */
#include "structure.h"

#include <stdlib.h>
#include <string.h>

struct place {
  struct record record;
  bool used;
};

struct array {
  struct place* places;
  uint64_t count;
};

static bool grow(struct array* array, uint64_t count) {
  uint64_t wanted = array->count != 0 ? array->count : 64;
  while (wanted < count) wanted *= 2;
  struct place* places = realloc(array->places, wanted * sizeof(struct place));
  if (places == NULL) return false;
  memset(places + array->count, 0, (wanted - array->count) * sizeof(struct place));
  array->places = places;
  array->count = wanted;
  return true;
}

static struct record* find(const void* root, uint64_t key) {
  const struct array* array = root;
  return key < array->count && array->places[key].used ? &array->places[key].record : NULL;
}

static struct record* insert(void* root, uint64_t key) {
  struct array* array = root;
  if (key >= array->count && !grow(array, key + 1)) return NULL;
  struct place* place = &array->places[key];
  if (!place->used) *place = (struct place){.record = {.key = key}, .used = true};
  return &place->record;
}

static bool erase(void* root, uint64_t key) {
  struct array* array = root;
  if (find(array, key) == NULL) return false;
  array->places[key].used = false;
  return true;
}

static void for_each(const void* root, void (*visit)(const struct record*, void*), void* argument) {
  const struct array* array = root;
  for (uint64_t i = 0; i < array->count; ++i)
    if (array->places[i].used) visit(&array->places[i].record, argument);
}

const struct structure array_structure = {"array", sizeof(struct array), insert, find, erase,
                                          for_each};
