// malloc-sh6 THREADS CYCLES: batches of small blocks that are freed in several orders, after
// MicroQuill's sh6bench, as mimalloc-bench has it. In a cycle each thread allocates blocks of 1 to
// 1000 bytes, the smaller the more of them, frees what was allocated some batches ago, of every
// batch a part in the order of its allocation and a part in reverse, and keeps some for longer.
#include "load.h"

enum { kSizesMax = 1000, kBatch = 4000, kKept = 2000, kSteps = 90 };

struct worker {
  struct random_numbers random;
  unsigned processor;
  uint64_t cycles, sum;
};

struct batch {
  unsigned char* blocks[kBatch];
  int count;
};

static void add(struct batch* batch, size_t bytes) {
  batch->blocks[batch->count++] = new_block(bytes, (unsigned char)bytes);
}

/// Several of each size, which grows as in sh6bench: the smaller, the more.
static void fill(struct batch* batch) {
  size_t bytes = 1;
  for (int step = 0; step < kSteps && bytes <= kSizesMax; ++step) {
    const int several = bytes <= 64 ? 60 : bytes <= 256 ? 20 : 5;
    for (int i = 0; i < several && batch->count < kBatch; ++i) add(batch, bytes);
    bytes += bytes < 32 ? 1 : bytes / 16;
  }
}

static void release(struct worker* worker, unsigned char* block) {
  worker->sum += block[0];
  free(block);
}

/// All but a few, which take the places of what was kept from earlier ones.
static void empty(struct worker* worker, struct batch* batch, unsigned char** kept) {
  for (int i = 0; i < batch->count; i += 16) {
    unsigned char** const place = &kept[random_below(&worker->random, kKept)];
    unsigned char* const block = batch->blocks[i];
    batch->blocks[i] = *place;  // none at first
    *place = block;
  }
  const int half = batch->count / 2;
  for (int i = 0; i < half; ++i)
    if (batch->blocks[i] != NULL) release(worker, batch->blocks[i]);
  for (int i = batch->count; i-- > half;)
    if (batch->blocks[i] != NULL) release(worker, batch->blocks[i]);
  batch->count = 0;
}

static void* work(void* of) {
  struct worker* const worker = of;
  pin_thread(worker->processor);
  enum { kBatches = 3 };
  struct batch* const batches = calloc(kBatches, sizeof *batches);
  unsigned char** const kept = calloc(kKept, sizeof *kept);
  for (uint64_t cycle = 0; cycle < worker->cycles; ++cycle) {
    struct batch* const batch = &batches[cycle % kBatches];
    empty(worker, batch, kept);
    fill(batch);
  }
  for (int i = 0; i < kBatches; ++i) empty(worker, &batches[i], kept);
  for (int i = 0; i < kKept; ++i) free(kept[i]);
  free(kept);
  free(batches);
  return NULL;
}

int main(int argc, char** argv) {
  const uint64_t threads = number_of(argc, argv, 1);
  struct worker* const workers = calloc(threads, sizeof *workers);
  pthread_t* const started = calloc(threads, sizeof *started);
  const double begin = now_s();
  for (uint64_t t = 0; t < threads; ++t) {
    workers[t] = (struct worker){random_from(t + 1), (unsigned)t, number_of(argc, argv, 2), 0};
    start_thread(&started[t], work, &workers[t]);
  }
  uint64_t sum = 0;
  for (uint64_t t = 0; t < threads; ++t) {
    pthread_join(started[t], NULL);
    sum += workers[t].sum;
  }
  say_result(now_s() - begin, sum);
  return 0;
}
