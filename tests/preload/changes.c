/* Changes its heap in a way that can be counted: 4096 blocks of 256 bytes fill 256 pages and more;
 * every 30 ms, 40 times, the first word of each sixteenth block changes: a line of a page.
 *   changes WORD         prints the word and a sum, and returns 3 from main
 *   changes WORD aligned    the blocks are parts of one that is aligned to a MiB
 *   changes WORD untouched  asks for a GiB that it never touches, and prints what of it and of the
 *                           file under its heap takes up memory
 *   changes WORD exit    ends by _exit(4) instead
 *   changes WORD kill    ends by SIGKILL
 *   changes WORD serve   prints its process id when it begins, and goes on until a signal ends it
 */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 4096, BYTES = 256, STEP = 16, ROUNDS = 40 };

/* In KiB: of the process, and of the first of the files that the library opens, from 512 on. */
static void print_memory(void) {
  struct rusage used;
  struct stat file;
  getrusage(RUSAGE_SELF, &used);
  printf("resident %ld\n", used.ru_maxrss);
  for (int fd = 512; fd < 530; ++fd)
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0) {
      printf("medium %lu\n", (unsigned long)file.st_blocks / 2);
      return;
    }
}

int main(int argc, char** argv) {
  static unsigned long* blocks[BLOCKS];
  const char* end = argc > 2 ? argv[2] : "";
  const int serves = strcmp(end, "serve") == 0;
  if (serves) printf("%d\n", (int)getpid());
  fflush(stdout);
  if (strcmp(end, "untouched") == 0 && malloc(1 << 30) == NULL) return 1;
  char* aligned = NULL;
  if (strcmp(end, "aligned") == 0) {
    aligned = aligned_alloc(1 << 20, BLOCKS * BYTES);
    if (aligned == NULL || (unsigned long)aligned % (1 << 20) != 0) return 1;
  }
  for (int i = 0; i < BLOCKS; ++i) {
    blocks[i] = aligned != NULL ? (unsigned long*)(aligned + i * BYTES) : malloc(BYTES);
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
  if (strcmp(end, "untouched") == 0) print_memory();
  fflush(stdout);
  if (strcmp(end, "exit") == 0) _exit(4);
  if (strcmp(end, "kill") == 0) kill(getpid(), SIGKILL);
  return 3;
}
