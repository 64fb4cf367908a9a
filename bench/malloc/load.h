// What the loads of malloc(3) share. They are ordinary programs, deterministic by their seeds; each
// prints the seconds that its load took, and a checksum, which is the same on every heap.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/// Each thread on a processor of its own, as far as there are any.
static inline void pin_thread(unsigned thread) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  unsigned skip = thread % (unsigned)CPU_COUNT(&all);
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && skip-- == 0) {
      CPU_SET(cpu, &one);
      break;
    }
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/// xorshift64*
struct random_numbers {
  uint64_t state;
};

static inline struct random_numbers random_from(uint64_t seed) {
  return (struct random_numbers){seed * 0x9e3779b97f4a7c15u | 1};
}

/// 0 to bound - 1.
static inline uint64_t random_below(struct random_numbers* numbers, uint64_t bound) {
  uint64_t x = numbers->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  numbers->state = x;
  return (x * 0x2545f4914f6cdd1du >> 32) * bound >> 32;
}

/// A block that is stored to at its beginning and its end.
static inline unsigned char* new_block(size_t bytes, unsigned char value) {
  unsigned char* const block = malloc(bytes);
  if (block == NULL) abort();
  block[0] = block[bytes - 1] = value;
  return block;
}

static inline void start_thread(pthread_t* thread, void* (*work)(void*), void* of) {
  if (pthread_create(thread, NULL, work, of) != 0) abort();
}

/// Of the program: the number that is its argument.
static inline uint64_t number_of(int argc, char** argv, int at) {
  if (at >= argc) {
    fprintf(stderr,
            "%s: argument %d is missing; it is described in the first lines of the source\n",
            argv[0], at);
    exit(2);
  }
  return strtoull(argv[at], NULL, 10);
}

static inline void say_result(double seconds, uint64_t checksum) {
  printf("%.9f %016llx\n", seconds, (unsigned long long)checksum);
}
