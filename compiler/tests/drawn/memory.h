/* What drawn programs are made of: the types of their memory, and what they call. */
#ifndef DRAWN_MEMORY_H
#define DRAWN_MEMORY_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <perdura/compiled.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long u64;
typedef unsigned __int128 u128;
typedef int Vector __attribute__((vector_size(16)));
typedef double Wide __attribute__((vector_size(32)));
typedef short Wider __attribute__((vector_size(64)));

/* Without padding: it may be made anywhere, and all of its bytes are the same in each run. */
struct Blob {
  u64 words[12];
};
struct __attribute__((packed)) Odd {
  u8 a;
  u64 b;
  u16 c;
  u64 d : 5;
  u64 e : 59;
  float f;
};

enum {
  kWords = 3072,
  kBytes = 16384,
  kShorts = 4096,
  kInts = 4096,
  kDoubles = 1024,
  kFloats = 2048,
  kOdds = 512,
  kBlobs = 160,
  kQuads = 512,
  kVectors = 128,
  kRecordBytes = 48 << 10,
  kScratchBytes = 32 << 10,
};

/* All that programs have but their records. Of each array a few elements are stored to at a time,
 * so that a line that nobody reports is one that nobody else does. */
struct Arrays {
  u64 words[kWords];
  u8 bytes[kBytes];
  u16 shorts[kShorts];
  u32 ints[kInts];
  double doubles[kDoubles];
  float floats[kFloats];
  struct Odd odds[kOdds];
  struct Blob blobs[kBlobs];
  u128 quads[kQuads];
  Vector vectors[kVectors];
  Wide wides[kVectors];
  Wider widers[kVectors];
  /* Pointers and the like are here: what differs from run to run. */
  __attribute__((aligned(64))) u8 scratch[kScratchBytes];
};

static inline u64 next(u64* random) {
  return *random = *random * 6364136223846793005u + 1442695040888963407u;
}

/* A result that is made where the caller wants it. */
static __attribute__((noinline, unused)) struct Blob make_blob(u64 value) {
  struct Blob made;
  for (u64 i = 0; i < 12; ++i) made.words[i] = value * (i + 1);
  return made;
}
/* What is given is a copy; the caller's is another thing. */
static __attribute__((noinline, unused)) void swap_in(struct Blob given, struct Blob* place) {
  given.words[3] += place->words[4];
  *place = given;
}
/* Stores `count` values behind each other. */
static __attribute__((noinline, unused)) void store_all(u64* first, int count, ...) {
  va_list values;
  va_start(values, count);
  for (int i = 0; i < count; ++i) first[i] = va_arg(values, u64);
  va_end(values);
}
static __attribute__((noinline, unused)) u64 count_down(u64* words, u64 depth) {
  words[depth] += depth;
  return depth == 0 ? 1 : count_down(words, depth - 1) + words[depth];
}
static __attribute__((unused)) void add_seven(u64* word) { *word += 7; }
static __attribute__((unused)) void shift_left(u64* word) { *word = *word << 1 | 1; }

#ifdef __cplusplus
extern "C" {
#endif

/* The data are consistent: an operation ends here, and sometimes a version is made. */
void drawn_pause(void);

struct DrawnProgram {
  u64 seed;
  size_t records_bytes;
  void (*run)(void* records, struct Arrays* arrays, u64 steps, u64 seed);
};
extern const struct DrawnProgram drawn_programs[];
extern const size_t drawn_programs_count;

#ifdef __cplusplus
}
#endif

#endif
