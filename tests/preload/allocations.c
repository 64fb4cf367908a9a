// A program that knows nothing of Perdura, for what real programs do too seldom:
//   threads ROUNDS   threads, old and new ones, allocate, resize and free each other's blocks, of
//                    all sizes and alignments, and verify every byte; 0 rounds: until killed
//   fork CHILDREN STEPS
//                    children, of children, with threads, go on with the heap that they inherit
//   clone            so does a child that libc does not know of, or it dies
//   rest             says where its blocks are and what is in them, and waits to be killed
//   signals          a signal that the program blocks reaches no other thread
//   abort            aborts before main
// Ends with a sentence and code 1 when a block is not what it was.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char* what) {
  fprintf(stderr, "allocations: %s\n", what);
  exit(1);
}

// --- blocks that know what is in them -----------------------------------------------------------

struct block {
  uint64_t size;  // of all of it
  uint64_t seed;
};

static unsigned char byte_at(uint64_t seed, uint64_t i) { return (unsigned char)(seed + i * 7); }

static void fill(void* memory, uint64_t size, uint64_t seed) {
  struct block* block = memory;
  *block = (struct block){size, seed};
  unsigned char* bytes = memory;
  for (uint64_t i = sizeof *block; i < size; ++i) bytes[i] = byte_at(seed, i);
}

static void verify(const struct block* block, uint64_t size) {
  const unsigned char* bytes = (const unsigned char*)block;
  for (uint64_t i = sizeof *block; i < size; ++i)
    if (bytes[i] != byte_at(block->seed, i)) fail("a block changed");
}

static uint64_t next(uint64_t* random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return *random >> 33;
}

// Mostly small; a few as large as a thousand pages.
static uint64_t random_size(uint64_t* random) {
  const uint64_t limits[] = {64, 64, 256, 1024, 1024, 8192, 70000};
  const uint64_t limit = next(random) % 500 == 0 ? 4000000 : limits[next(random) % 7];
  return sizeof(struct block) + next(random) % limit;
}

static struct block* make(uint64_t* random) {
  const uint64_t size = random_size(random);
  const uint64_t alignment = (uint64_t)16 << next(random) % 10;
  void* memory = NULL;
  errno = 0;
  switch (next(random) % 8) {
    case 0: {
      unsigned char* zeros = memory = calloc(1, size);
      for (uint64_t i = 0; i < size; ++i)
        if (zeros[i] != 0) fail("calloc gave a block that is not zero");
      break;
    }
    case 1:
      if (posix_memalign(&memory, alignment, size) != 0) memory = NULL;
      break;
    case 2:
      memory = aligned_alloc(alignment, size / alignment * alignment + alignment);
      break;
    case 3:
      memory = next(random) % 2 ? valloc(size) : pvalloc(size);
      break;
    default:
      memory = malloc(size);
  }
  if (memory == NULL) fail("out of memory");
  if (errno != 0) fail("a success set errno");
  if (malloc_usable_size(memory) < size) fail("a block is smaller than it should be");
  fill(memory, size, next(random));
  return memory;
}

static struct block* resize(struct block* block, uint64_t* random) {
  const uint64_t before = block->size;
  const uint64_t seed = block->seed;
  const uint64_t size = random_size(random);
  block = next(random) % 2 ? realloc(block, size) : reallocarray(block, size, 1);
  if (block == NULL) fail("out of memory");
  if (block->seed != seed) fail("a resized block lost its contents");
  verify(block, before < size ? before : size);
  fill(block, size, seed);
  return block;
}

static void end(struct block* block) {
  verify(block, block->size);
  errno = 77;
  free(block);
  if (errno != 77) fail("free changed errno");
}

// --- threads ------------------------------------------------------------------------------------

enum { kSlots = 2000, kThreads = 4 };
static int steps_a_round = 5000;
static _Atomic(struct block*) slots[kSlots];

static void step(uint64_t* random) {
  _Atomic(struct block*)* slot = &slots[next(random) % kSlots];
  struct block* block = atomic_exchange(slot, NULL);
  if (block != NULL && next(random) % 4 == 0) {
    block = resize(block, random);
  } else {
    if (block != NULL) end(block);
    block = make(random);
  }
  block = atomic_exchange(slot, block);
  if (block != NULL) end(block);
}

static pthread_key_t last_words;

// As quick as it goes, so that two threads meet.
static void* run_successor(void* mark) {
  enum { kMine = 8 };
  uintptr_t* mine[kMine] = {NULL};
  for (int i = 0; i < 50000; ++i) {
    uintptr_t** block = &mine[i % kMine];
    if (*block != NULL && **block != (uintptr_t)mark) fail("two threads got the same block");
    free(*block);
    *block = malloc(32);
    **block = (uintptr_t)mark;
  }
  for (int i = 0; i < kMine; ++i) free(mine[i]);
  return NULL;
}

// By a thread that is about to be gone, while another takes its place.
static void free_late(void* block) {
  const uintptr_t seed = ((struct block*)block)->seed;
  end(block);
  pthread_t successor;
  if (pthread_create(&successor, NULL, run_successor, (void*)seed) != 0) fail("no thread");
  run_successor((void*)~seed);
  pthread_join(successor, NULL);
}

static void* run_round(void* seed) {
  uint64_t random = (uintptr_t)seed;
  pthread_setspecific(last_words, make(&random));
  for (int i = 0; i < steps_a_round; ++i) step(&random);
  return make(&random);
}

static void run_threads(int rounds) {
  pthread_key_create(&last_words, free_late);
  // One ends while others run, and another takes its place.
  pthread_t threads[kThreads];
  const uintptr_t count = rounds == 0 ? UINTPTR_MAX / 2 : (uintptr_t)rounds * kThreads;
  for (uintptr_t i = 0; i < count + kThreads; ++i) {
    pthread_t* thread = &threads[i % kThreads];
    void* block = NULL;
    if (i >= kThreads) pthread_join(*thread, &block);
    if (block != NULL) end(block);
    if (i < count && pthread_create(thread, NULL, run_round, (void*)(i + 1)) != 0)
      fail("no thread");
  }
  for (int i = 0; i < kSlots; ++i)
    if (slots[i] != NULL) end(slots[i]);
}

// --- fork ---------------------------------------------------------------------------------------

static void fork_children(int depth) {
  for (uintptr_t i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      uint64_t random = 1000 * (uintptr_t)depth + i;
      for (int k = 0; k < steps_a_round; ++k) step(&random);
      if (depth > 1) fork_children(depth - 1);
      else if (i == 0) run_threads(1);
      exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a child failed");
  }
}

static void* work_until_told(void* told) {
  uint64_t random = 5;
  while (!atomic_load((atomic_int*)told)) step(&random);
  return NULL;
}

static void run_fork(int children, int steps) {
  steps_a_round = steps;
  uint64_t random = 1;
  for (int i = 0; i < steps_a_round; ++i) step(&random);
  fork_children(2);
  // While another thread may be anywhere: only the child's own blocks are certain.
  atomic_int told = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, work_until_told, &told);
  for (int i = 0; i < children; ++i) {
    struct block* mine = make(&random);
    const pid_t child = fork();
    if (child == 0) {
      for (int k = 0; k < 100; ++k) mine = resize(mine, &random);
      end(mine);
      exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a child failed");
    end(mine);
  }
  atomic_store(&told, 1);
  pthread_join(thread, NULL);
  for (int i = 0; i < kSlots; ++i)
    if (slots[i] != NULL) end(slots[i]);
}

// --- clone --------------------------------------------------------------------------------------

static void run_clone(void) {
  volatile int* shared = malloc(sizeof *shared);
  *shared = 5;
  const long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) _exit(*shared);
  int status = 0;
  if (child < 0 || waitpid((pid_t)child, &status, 0) != child) fail("no child");
  if (WIFSIGNALED(status)) printf("a child of clone died of signal %d\n", WTERMSIG(status));
  else printf("a child of clone saw %d\n", WEXITSTATUS(status));
}

// --- rest ---------------------------------------------------------------------------------------

// Blocks are made, and a part of them made again, with time for checkpoints in between.
static void run_rest(void) {
  enum { kBlocks = 3000 };
  static struct block* blocks[kBlocks];
  uint64_t random = 9;
  for (int pass = 0; pass < 4; ++pass) {
    for (int i = 0; i < kBlocks; i += 1 + pass * 3) {
      if (blocks[i] != NULL) end(blocks[i]);
      blocks[i] = make(&random);
    }
    usleep(50000);
  }
  for (int i = 0; i < kBlocks; ++i)
    printf("%p %lu %lu\n", (void*)blocks[i], (unsigned long)blocks[i]->size,
           (unsigned long)blocks[i]->seed);
  printf("end\n");
  fflush(stdout);
  for (;;) pause();
}

// --- signals ------------------------------------------------------------------------------------

static void on_signal(int number) {
  (void)number;
  _exit(2);
}

static void run_signals(void) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  signal(SIGUSR1, on_signal);
  kill(getpid(), SIGUSR1);
  usleep(200000);
  int got = 0;
  if (sigwait(&blocked, &got) != 0 || got != SIGUSR1) fail("a signal was lost");
}

// It runs behind the constructors of all libraries.
__attribute__((constructor)) static void abort_before_main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "abort") == 0) abort();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "threads") == 0 && argc == 3) run_threads(atoi(argv[2]));
  else if (strcmp(what, "fork") == 0 && argc == 4) run_fork(atoi(argv[2]), atoi(argv[3]));
  else if (strcmp(what, "clone") == 0) run_clone();
  else if (strcmp(what, "rest") == 0) run_rest();
  else if (strcmp(what, "signals") == 0) run_signals();
  else fail("threads ROUNDS, fork CHILDREN STEPS, clone, rest, signals or abort");
  puts("good");
}
