/* Preloaded: takes the page at the address in the variable TAKEN, so that no region can be there.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((constructor)) static void take(void) {
  const char* const taken = getenv("TAKEN");
  if (taken == NULL || *taken == 0) return;
  void* const page = (void*)(strtoull(taken, NULL, 16) / 4096 * 4096);
  if (mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == page)
    return;
  perror("the address cannot be taken");
  _Exit(1);
}
