// A program that says when its data are consistent: when the second number is twice the first.
// Changes the first once more at the end and waits a while; then it prints where the numbers are
// and how many checkpoints its polls took.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <perdura/malloc.h>

int main(void) {
  if (!perdura_malloc_poll) return 1;
  const struct timespec pause = {.tv_nsec = 3000000};
  long* numbers = malloc(2 * sizeof(long));
  long taken = perdura_malloc_poll();  // none yet
  for (long i = 1; i <= 100; ++i) {
    numbers[0] = i;
    nanosleep(&pause, NULL);
    numbers[1] = 2 * i;
    const int polled = perdura_malloc_poll();
    if (polled < 0) return 1;
    taken += polled;
  }
  numbers[0] = 0;
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  printf("%p %ld\n", (void*)numbers, taken);
  return 0;
}
