// malloc-xmalloc PAIRS BATCHES: threads that allocate and others that free, after the xmalloc-test
// of Lever and Boreham, "malloc() Performance in a Multithreaded Linux Environment" (USENIX 2000),
// as mimalloc-bench has it. Of each pair one allocates batches of blocks of 8 to 2048 bytes and
// hands them over; the other frees them.
#include "load.h"

enum { kBatch = 4096, kWaiting = 4 };

static const size_t kSizes[] = {8,   12,  16,  24,  32,  48,   64,   96,  128,
                                192, 256, 384, 512, 768, 1024, 1536, 2048};

struct batch {
  struct batch* next;
  unsigned char* blocks[kBatch];
};

struct pair {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct batch *first, **end;  ///< handed over, the oldest first
  int waiting;
  unsigned processor;
  uint64_t batches, sum;
};

static void* allocate(void* of) {
  struct pair* const pair = of;
  pin_thread(pair->processor);
  struct random_numbers random = random_from(pair->processor + 1);
  for (uint64_t i = 0; i < pair->batches; ++i) {
    struct batch* const batch = malloc(sizeof *batch);
    if (batch == NULL) abort();
    batch->next = NULL;
    for (int k = 0; k < kBatch; ++k)
      batch->blocks[k] = new_block(kSizes[random_below(&random, sizeof kSizes / sizeof *kSizes)],
                                   (unsigned char)k);
    pthread_mutex_lock(&pair->mutex);
    while (pair->waiting == kWaiting) pthread_cond_wait(&pair->changed, &pair->mutex);
    *pair->end = batch;
    pair->end = &batch->next;
    ++pair->waiting;
    pthread_cond_signal(&pair->changed);
    pthread_mutex_unlock(&pair->mutex);
  }
  return NULL;
}

static void* release(void* of) {
  struct pair* const pair = of;
  pin_thread(pair->processor + 1);
  for (uint64_t i = 0; i < pair->batches; ++i) {
    pthread_mutex_lock(&pair->mutex);
    while (pair->waiting == 0) pthread_cond_wait(&pair->changed, &pair->mutex);
    struct batch* const batch = pair->first;
    pair->first = batch->next;
    if (pair->first == NULL) pair->end = &pair->first;
    --pair->waiting;
    pthread_cond_signal(&pair->changed);
    pthread_mutex_unlock(&pair->mutex);
    for (int k = 0; k < kBatch; ++k) {
      pair->sum += batch->blocks[k][0];
      free(batch->blocks[k]);
    }
    free(batch);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const uint64_t count = number_of(argc, argv, 1);
  struct pair* const pairs = calloc(count, sizeof *pairs);
  pthread_t* const threads = calloc(2 * count, sizeof *threads);
  const double begin = now_s();
  for (uint64_t p = 0; p < count; ++p) {
    struct pair* const pair = &pairs[p];
    pthread_mutex_init(&pair->mutex, NULL);
    pthread_cond_init(&pair->changed, NULL);
    pair->end = &pair->first;
    pair->processor = (unsigned)(2 * p);
    pair->batches = number_of(argc, argv, 2);
    start_thread(&threads[2 * p], allocate, pair);
    start_thread(&threads[2 * p + 1], release, pair);
  }
  uint64_t sum = 0;
  for (uint64_t p = 0; p < count; ++p) {
    pthread_join(threads[2 * p], NULL);
    pthread_join(threads[2 * p + 1], NULL);
    sum += pairs[p].sum;
  }
  say_result(now_s() - begin, sum);
  return 0;
}
