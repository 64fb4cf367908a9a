// What the workload programs of the tracker benchmark share. They are ordinary programs on malloc;
// all they know of Perdura is a function that is there when libperdura_malloc.so is loaded.
//
// A program does `steps` steps, deterministic by its seed, and offers a checkpoint every
// `poll_steps`. With PERDURA_CHECKPOINT_MS=1 it takes each of these, so that under every tracker
// the same data are checkpointed at the same places. At the end it prints its time and a checksum
// of its data as JSON.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <perdura/malloc.h>

struct run {
  uint64_t steps;       ///< to do
  uint64_t poll_steps;  ///< 0: never
  uint64_t done;
  struct timespec begin, cpu_begin;
};

/// xorshift64*
struct random_numbers {
  uint64_t state;
};

static inline struct random_numbers random_from(uint64_t seed) {
  return (struct random_numbers){seed * 0x9e3779b97f4a7c15u | 1};
}

static inline uint64_t random_next(struct random_numbers* numbers) {
  uint64_t x = numbers->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  numbers->state = x;
  return x * 0x2545f4914f6cdd1du;
}

/// 0 to bound - 1, which is below 2^32.
static inline uint64_t random_below(struct random_numbers* numbers, uint64_t bound) {
  return (random_next(numbers) >> 32) * bound >> 32;
}

/// A bijection of 64-bit numbers that scatters them.
static inline uint64_t scattered(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static inline uint64_t mixed(uint64_t sum, uint64_t value) { return scattered(sum ^ value) + sum; }

_Noreturn static inline void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static inline void* allocate(size_t bytes) {
  void* block = malloc(bytes);
  if (block == NULL) fail("out of memory");
  return block;
}

static inline uint64_t number(const char* text) {
  char* end = NULL;
  const unsigned long long value = strtoull(text, &end, 10);
  if (end == text || *end != 0) fail("the arguments are numbers");
  return value;
}

/// The program runs on the first processor. The library's threads, which are there already, stay
/// where the program was started.
static inline void pin(void) {
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  sched_setaffinity(0, sizeof(first), &first);
}

static inline struct run begin_run(uint64_t steps, uint64_t poll_steps) {
  pin();
  struct run run = {.steps = steps, .poll_steps = poll_steps};
  clock_gettime(CLOCK_MONOTONIC, &run.begin);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &run.cpu_begin);
  if (perdura_malloc_poll) perdura_malloc_poll();  // the first call takes none
  return run;
}

/// After each step, when the data are consistent. False after the last.
static inline int step_done(struct run* run) {
  ++run->done;
  if (run->poll_steps != 0 && run->done % run->poll_steps == 0 && perdura_malloc_poll) {
    if (perdura_malloc_poll() < 0) fail("a checkpoint failed");
  }
  return run->done < run->steps;
}

struct times {
  double elapsed_s, cpu_s;
};

static inline double since(clockid_t clock, struct timespec begin) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) * 1e-9;
}

/// Before the program looks at its result and frees its data.
static inline struct times end_run(const struct run* run) {
  return (struct times){since(CLOCK_MONOTONIC, run->begin),
                        since(CLOCK_THREAD_CPUTIME_ID, run->cpu_begin)};
}

static inline void print_result(struct times times, uint64_t checksum) {
  printf("{\"seconds\": %.9f, \"cpu_seconds\": %.9f, \"checksum\": \"%016llx\"}\n", times.elapsed_s,
         times.cpu_s, (unsigned long long)checksum);
}
