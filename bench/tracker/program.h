// What the workload programs of the tracker benchmark share. They are ordinary programs on malloc;
// all they know of Perdura is a function that is there when libperdura_malloc.so is loaded.
//
// A program does its steps, deterministic by its seed, and takes checkpoints after some of them, at
// the same places under every tracker. Its last argument, CHECKPOINTS, says when, with
// PERDURA_CHECKPOINT_MS=1 so that there is one when it asks:
//
//   0                   never
//   EVERY               one is offered every so many steps; there is none where the last was no
//                       tick of the clock ago
//   EVERY:BUILT:COUNT   one after BUILT steps, and then COUNT, EVERY steps apart; the program ends
//                       with the last, and its time begins after the first
//
// At the end it prints its time and a checksum of its data as JSON.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <perdura/malloc.h>

struct run {
  uint64_t steps;  ///< to do
  uint64_t done;
  uint64_t every;            ///< steps between checkpoints
  uint64_t built;            ///< 0: checkpoints are offered
  uint64_t next_checkpoint;  ///< after so many steps
  struct timespec begin, cpu_begin;
  double checkpoint_s;            ///< in checkpoints that were not only offered
  double waited_s, cpu_waited_s;  ///< for a tick of the clock
  double queued_begin_s;
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

static inline struct timespec now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time;
}

static inline double between(struct timespec begin, struct timespec end) {
  return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

static inline void rest(double seconds) {
  const time_t whole = (time_t)seconds;
  const struct timespec time = {whole, (long)((seconds - (double)whole) * 1e9)};
  nanosleep(&time, NULL);
}

/// What this thread has waited for a processor so far, as the kernel counts it.
static inline double queued_s(void) {
  unsigned long long ran = 0, queued = 0;
  FILE* const file = fopen("/proc/thread-self/schedstat", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%llu %llu", &ran, &queued) != 2) queued = 0;
  fclose(file);
  return (double)queued * 1e-9;
}

static inline void begin_time(struct run* run) {
  run->queued_begin_s = queued_s();
  run->begin = now(CLOCK_MONOTONIC);
  run->cpu_begin = now(CLOCK_THREAD_CPUTIME_ID);
  run->checkpoint_s = run->waited_s = run->cpu_waited_s = 0;
}

static inline struct run begin_run(uint64_t steps, const char* checkpoints) {
  pin();
  struct run run = {.steps = steps, .next_checkpoint = UINT64_MAX};
  const char* const colon = strchr(checkpoints, ':');
  if (colon == NULL) {
    run.every = number(checkpoints);
    if (run.every != 0) run.next_checkpoint = run.every;
  } else {
    unsigned long long every = 0, built = 0, count = 0;
    char more = 0;
    if (sscanf(checkpoints, "%llu:%llu:%llu%c", &every, &built, &count, &more) != 3 || every == 0 ||
        built == 0 || built > steps || count > (steps - built) / every)
      fail("checkpoints are EVERY:BUILT:COUNT, as far as there are steps");
    run.every = every;
    run.built = run.next_checkpoint = built;
    run.steps = built + every * count;
  }
  begin_time(&run);
  if (perdura_malloc_poll) perdura_malloc_poll();  // the first call takes none
  return run;
}

static inline void offer_checkpoint(void) {
  if (perdura_malloc_poll && perdura_malloc_poll() < 0) fail("a checkpoint failed");
}

/// The library takes none where the last ended no tick of its clock ago. Waiting for that counts
/// for nothing.
static inline void take_checkpoint(struct run* run) {
  if (!perdura_malloc_poll) return;
  const double pause_s = 1e-4, patience_s = 1;
  const struct timespec asked = now(CLOCK_MONOTONIC), cpu_asked = now(CLOCK_THREAD_CPUTIME_ID);
  struct timespec begin = asked, cpu_begin = cpu_asked;
  int taken = perdura_malloc_poll();
  while (taken == 0) {
    if (between(asked, begin) > patience_s) fail("the library takes no checkpoint");
    rest(pause_s);
    begin = now(CLOCK_MONOTONIC);
    cpu_begin = now(CLOCK_THREAD_CPUTIME_ID);
    taken = perdura_malloc_poll();
  }
  if (taken < 0) fail("a checkpoint failed");
  run->checkpoint_s += between(begin, now(CLOCK_MONOTONIC));
  run->waited_s += between(asked, begin);
  run->cpu_waited_s += between(cpu_asked, cpu_begin);
}

/// After each step, when the data are consistent. False after the last.
static inline int step_done(struct run* run) {
  if (++run->done == run->next_checkpoint) {
    run->next_checkpoint += run->every;
    if (run->built == 0) offer_checkpoint();
    else take_checkpoint(run);
    if (run->done == run->built) {
      // All that was built is now written to its place, in the background, which takes the medium
      // about as long as the checkpoint did.
      rest(2 * run->checkpoint_s);
      begin_time(run);
    }
  }
  return run->done < run->steps;
}

struct times {
  double elapsed_s, cpu_s;
  double checkpoint_s;  ///< of elapsed_s
  double queued_s;      ///< of elapsed_s: for a processor that others had
};

/// Before the program looks at its result and frees its data.
static inline struct times end_run(const struct run* run) {
  return (struct times){between(run->begin, now(CLOCK_MONOTONIC)) - run->waited_s,
                        between(run->cpu_begin, now(CLOCK_THREAD_CPUTIME_ID)) - run->cpu_waited_s,
                        run->checkpoint_s, queued_s() - run->queued_begin_s};
}

static inline void print_result(struct times times, uint64_t checksum) {
  printf(
      "{\"seconds\": %.9f, \"cpu_seconds\": %.9f, \"checkpoint_seconds\": %.9f, "
      "\"queued_seconds\": %.9f, \"checksum\": \"%016llx\"}\n",
      times.elapsed_s, times.cpu_s, times.checkpoint_s, times.queued_s,
      (unsigned long long)checksum);
}
