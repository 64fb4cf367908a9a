/* Stores to random words of its heap, each of which its compiler reports by itself: STORES times,
 * and offers checkpoints in between. Prints the sum of all words, which is STORES. What to store to
 * takes it several times as long to find as counting a report takes anywhere. */
#include <stdio.h>
#include <stdlib.h>

#include <perdura/malloc.h>

enum { WORDS = 1 << 17, BETWEEN = 10000, STEPS = 8 };

int main(int argc, char** argv) {
  const unsigned long stores = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  unsigned long* const words = calloc(WORDS, sizeof *words);
  if (words == NULL) return 1;
  unsigned long random = 1;
  for (unsigned long i = 0; i < stores; ++i) {
    for (int step = 0; step < STEPS; ++step) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
    }
    ++words[random >> 47];
    if (i % BETWEEN == 0 && perdura_malloc_poll) perdura_malloc_poll();
  }
  unsigned long sum = 0;
  for (int i = 0; i < WORDS; ++i) sum += words[i];
  printf("%lu\n", sum);
  return 0;
}
