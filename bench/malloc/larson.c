// malloc-larson THREADS ROUNDS REPLACEMENTS: a server whose blocks outlive the threads that
// allocated them, after Larson and Krishnan, "Memory Allocation for Long-Running Server
// Applications" (ISMM 1998), with mimalloc-bench's sizes. Each thread has a thousand blocks of 8 to
// 1000 bytes, replaces so many of them at random, and ends; another thread takes over its blocks.
// So many rounds.
#include "load.h"

enum { kBlocks = 1000, kSmallest = 8, kLargest = 1000 };

struct client {
  unsigned char* blocks[kBlocks];
  struct random_numbers random;
  unsigned processor;
  uint64_t replacements, rounds, sum;
};

static size_t draw_bytes(struct client* client) {
  return kSmallest + random_below(&client->random, kLargest - kSmallest + 1);
}

static void* serve(void* of) {
  struct client* const client = of;
  pin_thread(client->processor);
  for (uint64_t i = 0; i < client->replacements; ++i) {
    unsigned char** const block = &client->blocks[random_below(&client->random, kBlocks)];
    client->sum += (*block)[0];
    free(*block);
    *block = new_block(draw_bytes(client), (unsigned char)i);
  }
  return NULL;
}

/// A client's threads, one after the other.
static void* live(void* of) {
  struct client* const client = of;
  for (uint64_t round = 0; round < client->rounds; ++round) {
    pthread_t thread;
    start_thread(&thread, serve, client);
    pthread_join(thread, NULL);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const uint64_t threads = number_of(argc, argv, 1);
  struct client* const clients = calloc(threads, sizeof *clients);
  pthread_t* const lives = calloc(threads, sizeof *lives);
  for (uint64_t t = 0; t < threads; ++t) {
    clients[t].random = random_from(t + 1);
    clients[t].processor = (unsigned)t;
    clients[t].rounds = number_of(argc, argv, 2);
    clients[t].replacements = number_of(argc, argv, 3);
    for (int i = 0; i < kBlocks; ++i) clients[t].blocks[i] = new_block(draw_bytes(&clients[t]), 1);
  }
  const double begin = now_s();
  for (uint64_t t = 0; t < threads; ++t) start_thread(&lives[t], live, &clients[t]);
  uint64_t sum = 0;
  for (uint64_t t = 0; t < threads; ++t) {
    pthread_join(lives[t], NULL);
    sum += clients[t].sum;
  }
  say_result(now_s() - begin, sum);
  return 0;
}
