/* Changes its heap in a way that can be counted: 4096 blocks of 256 bytes fill 256 pages and more;
 * every 30 ms, 40 times, the first word of each sixteenth block changes: a line of a page. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 4096, BYTES = 256, STEP = 16, ROUNDS = 40 };

int main(int argc, char** argv) {
  static unsigned long* blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; ++i) {
    blocks[i] = malloc(BYTES);
    if (blocks[i] == NULL) return 1;
    memset(blocks[i], i, BYTES);
  }
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < BLOCKS; i += STEP) ++*blocks[i];
    usleep(30000);
  }
  unsigned long sum = 0;
  for (int i = 0; i < BLOCKS; ++i) sum += *blocks[i];
  printf("%s %lu\n", argc > 1 ? argv[1] : "", sum);
  return 3;
}
