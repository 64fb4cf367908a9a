/* An array of records by their keys, which grows. */
#include "structure.h"

#include <perdura/container.h>

struct place {
  struct record record;
  bool used;
};

struct array {
  struct place* places;
  uint64_t count;
};

PERDURA_DEFINE_PLAIN_TYPE(place_type, struct place);
PERDURA_DEFINE_TYPE(array_type, struct array, PERDURA_POINTER(struct array, places));

static bool grow(struct array* array, uint64_t count) {
  uint64_t wanted = array->count != 0 ? array->count : 64;
  while (wanted < count) wanted *= 2;
  struct place* places = array->places == NULL
                             ? perdura_new(&place_type, wanted)
                             : perdura_renew(array->places, wanted * sizeof(struct place));
  if (places == NULL) return false;
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

const struct structure array_structure = {"array", &array_type, insert, find, erase, for_each};
