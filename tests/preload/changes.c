/* Changes its heap in a way that can be counted: 4096 blocks of 256 bytes fill 256 pages and more;
 * every 30 ms, 40 times, the first word of each sixteenth block changes: a line of a page.
 *   changes WORD         prints the word and a sum, and returns 3 from main
 *   changes WORD exit    ends by _exit(4) instead
 *   changes WORD kill    ends by SIGKILL
 *   changes WORD serve   prints its process id when it begins, and goes on until a signal ends it
 */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 4096, BYTES = 256, STEP = 16, ROUNDS = 40 };

int main(int argc, char** argv) {
  static unsigned long* blocks[BLOCKS];
  const char* end = argc > 2 ? argv[2] : "";
  const int serves = strcmp(end, "serve") == 0;
  if (serves) printf("%d\n", (int)getpid());
  fflush(stdout);
  for (int i = 0; i < BLOCKS; ++i) {
    blocks[i] = malloc(BYTES);
    if (blocks[i] == NULL) return 1;
    memset(blocks[i], i, BYTES);
  }
  for (int round = 0; round < ROUNDS || serves; ++round) {
    for (int i = 0; i < BLOCKS; i += STEP) ++*blocks[i];
    usleep(30000);
  }
  unsigned long sum = 0;
  for (int i = 0; i < BLOCKS; ++i) sum += *blocks[i];
  printf("%s %lu\n", argc > 1 ? argv[1] : "", sum);
  fflush(stdout);
  if (strcmp(end, "exit") == 0) _exit(4);
  if (strcmp(end, "kill") == 0) kill(getpid(), SIGKILL);
  return 3;
}
