/* Counts how often it was run, in memory that survives. The C API.
 *
 *   counter [STORE] */

#include <stdio.h>

#include <perdura/perdura.h>

struct counter {
  unsigned long runs;
};

static int fail(const char* what) {
  fprintf(stderr, "counter: %s: %s\n", what, perdura_last_error());
  return 1;
}

int main(int argc, char** argv) {
  perdura_store* store;
  struct counter* counter;

  /* No options: the store is made if it does not exist, and changes to its memory are found by
   * the system, without telling. */
  if (perdura_open(argc > 1 ? argv[1] : "counter.pd", NULL, &store) != 0) return fail("open");

  counter = perdura_root_get(store, "counter");
  if (counter == NULL) {
    /* Allocating it and naming it is one step: a crash leaves both or neither. */
    perdura_operation_begin(store);
    counter = perdura_alloc(store, sizeof *counter);
    if (counter != NULL) {
      counter->runs = 0;
      perdura_root_set(store, "counter", counter);
    }
    perdura_operation_end(store);
    if (counter == NULL) return fail("alloc");
  }

  ++counter->runs; /* an ordinary store to memory */
  if (perdura_checkpoint(store, NULL) != 0) return fail("checkpoint");

  printf("run %lu, durable as version %llu\n", counter->runs,
         (unsigned long long)perdura_durable_version(store));
  return perdura_close(store) == 0 ? 0 : fail("close");
}
