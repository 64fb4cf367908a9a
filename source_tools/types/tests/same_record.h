/* Compares two type records by what they say: the places of pointers, in whatever slots. */
#ifndef SAME_RECORD_H
#define SAME_RECORD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perdura/type.h>

enum { kPlacesMax = 512 };

struct place {
  uint64_t offset;
  uint32_t kind, tag_offset, tag_bytes, in_tail;
  uint64_t tag_value;
};
struct places {
  int count;
  struct place all[kPlacesMax];
};

/* A value's tag is that of each pointer in it that has none of its own. */
static inline void add_places(struct places* into, const perdura_type* type, uint64_t base,
                              uint32_t in_tail, const struct place* tag) {
  for (uint32_t i = 0; i < type->slot_count; ++i) {
    const perdura_slot* slot = &type->slots[i];
    const uint64_t step = slot->kind == PERDURA_SLOT_VALUE ? slot->value->size : 8;
    const uint32_t tail = in_tail | (slot->bytes == 0);
    for (uint64_t j = 0; j < (slot->bytes != 0 ? slot->bytes / step : 1); ++j) {
      const uint64_t at = base + slot->offset + j * step;
      struct place place = {at, slot->kind, 0, slot->tag_bytes, tail, slot->tag_value};
      if (slot->tag_bytes != 0) place.tag_offset = (uint32_t)base + slot->tag_offset;
      if (slot->tag_bytes == 0 && tag != NULL) {
        place.tag_offset = tag->tag_offset;
        place.tag_bytes = tag->tag_bytes;
        place.tag_value = tag->tag_value;
      }
      if (slot->kind == PERDURA_SLOT_VALUE) {
        add_places(into, slot->value, at, tail, place.tag_bytes != 0 ? &place : NULL);
        continue;
      }
      if (into->count == kPlacesMax) abort();
      into->all[into->count++] = place;
    }
  }
}

static inline int by_offset(const void* a, const void* b) {
  const struct place* x = (const struct place*)a;
  const struct place* y = (const struct place*)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->tag_value < y->tag_value ? -1 : x->tag_value > y->tag_value;
}

static int records_compared;
static int records_that_differ;

static inline void show_places(const char* whose, const struct places* places) {
  for (int i = 0; i < places->count; ++i)
    printf("    %s: kind %u at %lu%s, tag %u at %u = %lu\n", whose, places->all[i].kind,
           places->all[i].offset, places->all[i].in_tail ? " (tail)" : "", places->all[i].tag_bytes,
           places->all[i].tag_offset, places->all[i].tag_value);
}

static inline void compare_records(const char* name, const perdura_type* expected,
                                   const perdura_type* made) {
  struct places a = {0, {{0, 0, 0, 0, 0, 0}}};
  struct places b = {0, {{0, 0, 0, 0, 0, 0}}};
  add_places(&a, expected, 0, 0, NULL);
  add_places(&b, made, 0, 0, NULL);
  qsort(a.all, (size_t)a.count, sizeof *a.all, by_offset);
  qsort(b.all, (size_t)b.count, sizeof *b.all, by_offset);
  ++records_compared;
  int same = a.count == b.count && expected->size == made->size &&
             expected->alignment == made->alignment && strcmp(made->name, name) == 0;
  for (int i = 0; same && i < a.count; ++i)
    same = a.all[i].offset == b.all[i].offset && a.all[i].kind == b.all[i].kind &&
           a.all[i].tag_bytes == b.all[i].tag_bytes && a.all[i].tag_value == b.all[i].tag_value &&
           a.all[i].tag_offset == b.all[i].tag_offset && a.all[i].in_tail == b.all[i].in_tail;
  if (same) return;
  ++records_that_differ;
  printf("%s: expected %u bytes aligned to %u; made '%s', %u bytes aligned to %u\n", name,
         expected->size, expected->alignment, made->name, made->size, made->alignment);
  show_places("expected", &a);
  show_places("made", &b);
}

static inline int records_result(int at_least) {
  printf("%d records compared, %d differ\n", records_compared, records_that_differ);
  return records_that_differ != 0 || records_compared < at_least;
}

#endif
