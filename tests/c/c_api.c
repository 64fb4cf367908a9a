/* Goal: a C11 program can use everything that perdura/perdura.h declares, and its errors are
 * negative codes with a sentence.
 * Method: open, allocate, name, checkpoint, close and open again; then every kind of misuse. */
#define _DEFAULT_SOURCE
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <perdura/perdura.h>

struct counter {
  uint64_t value;
};

static void check_error(int code, int expected, const char* sentence) {
  if (code != -expected || strstr(perdura_last_error(), sentence) == NULL) {
    fprintf(stderr, "got %d \"%s\", expected %d \"%s\"\n", code, perdura_last_error(), -expected,
            sentence);
    exit(1);
  }
}

static void use(const char* path) {
  perdura_options options = {0};
  options.region_limit_bytes = (uint64_t)64 << 20;
  options.tracking = PERDURA_TRACK_REPORTED;
  for (uint64_t round = 0; round < 3; ++round) {
    perdura_store* store = NULL;
    assert(perdura_open(path, &options, &store) == 0);
    struct counter* counter = perdura_root_get(store, "counter");
    assert((counter == NULL) == (round == 0));
    if (counter == NULL) {
      counter = perdura_alloc(store, sizeof *counter);
      assert(counter != NULL && perdura_usable_size(store, counter) >= sizeof *counter);
      counter->value = 0;
      assert(perdura_root_set(store, "counter", counter) == 0);
    }
    assert(counter->value == round);
    assert(perdura_operation_begin(store) == 0);
    assert(perdura_operation_begin(store) == 0);
    perdura_operation_end(store);
    perdura_touch(store, counter, sizeof *counter);
    ++counter->value;
    check_error(perdura_checkpoint(store, NULL), PERDURA_MISUSE, "inside an operation");
    check_error(perdura_close(store), PERDURA_MISUSE, "inside an operation");
    perdura_operation_end(store);

    uint64_t version = 0;
    assert(perdura_checkpoint(store, &version) == 0);
    assert(version != 0 && perdura_durable_version(store) == version);
    uint64_t next = 0;
    assert(perdura_checkpoint_async(store, &next) == 0 && next == version + 1);
    assert(perdura_wait(store, next) == 0 && perdura_durable_version(store) >= next);
    check_error(perdura_wait(store, 1000000), PERDURA_NOT_FOUND, "never begun");
    assert(perdura_checkpoint_every(store, 1) == 0);
    assert(perdura_checkpoint_every(store, 0) == 0);
    perdura_statistics statistics;
    assert(perdura_get_statistics(store, &statistics) == 0);
    assert(statistics.durable_version == perdura_durable_version(store));
    assert(statistics.checkpoints >= 2 && statistics.failed_checkpoints == 0);
    assert(statistics.tracking != PERDURA_TRACK_AUTOMATIC && statistics.aliases == 0);
    check_error(perdura_get_statistics(store, NULL), PERDURA_INVALID_ARGUMENT, "need a place");

    char* text = perdura_aligned_alloc(store, 4096, 100);
    assert(text != NULL && (uintptr_t)text % 4096 == 0);
    strcpy(text, "text");
    char* longer = perdura_realloc(store, text, 100000);
    assert(longer != NULL && strcmp(longer, "text") == 0);
    assert(perdura_free(store, longer) == 0);
    check_error(perdura_free(store, longer), PERDURA_MISUSE, "not allocated");
    assert(perdura_free(store, NULL) == 0);
    assert(perdura_close(store) == 0);
  }
}

static void misuse(const char* path) {
  perdura_store* store = NULL;
  perdura_options options = {0};
  options.region_limit_bytes = (uint64_t)64 << 20;
  check_error(perdura_open(NULL, NULL, &store), PERDURA_INVALID_ARGUMENT, "needs a URI");
  check_error(perdura_open(path, NULL, NULL), PERDURA_INVALID_ARGUMENT, "needs a URI");
  options.must_exist = 1;
  check_error(perdura_open("/nonexistent/x.pd", &options, &store), PERDURA_NOT_FOUND,
              "/nonexistent/x.pd");
  options.must_exist = 0;
  assert(perdura_open(path, &options, &store) == 0);
  perdura_store* second = NULL;
  check_error(perdura_open(path, &options, &second), PERDURA_LOCKED, "which is this process");
  assert(second == NULL);
  assert(perdura_alloc(store, SIZE_MAX) == NULL);
  check_error(-PERDURA_NO_SPACE, PERDURA_NO_SPACE, "larger than the region's limit");
  assert(perdura_aligned_alloc(store, 3, 8) == NULL);
  check_error(-PERDURA_INVALID_ARGUMENT, PERDURA_INVALID_ARGUMENT, "power of two");
  check_error(perdura_root_set(store, NULL, NULL), PERDURA_INVALID_ARGUMENT, "needs a name");
  assert(perdura_root_get(store, NULL) == NULL);
  assert(perdura_root_get(store, "absent") == NULL);
  int outside = 0;
  check_error(perdura_free(store, &outside), PERDURA_MISUSE, "not a block of this store");
  assert(perdura_usable_size(store, &outside) == 0);
  check_error(perdura_root_set(store, "outside", &outside), PERDURA_INVALID_ARGUMENT,
              "must point into the store");
  assert(perdura_close(store) == 0);
  assert(perdura_close(NULL) == 0);
}

static void regions(const char* path) {
  perdura_store* stores[2];
  const char* const names[2] = {"index", "cache"};
  perdura_options options = {0};
  options.region_limit_bytes = (uint64_t)64 << 20;
  for (int i = 0; i < 2; ++i) {
    options.region = names[i];
    assert(perdura_open(path, &options, &stores[i]) == 0);
    assert(perdura_root_set(stores[i], "block", perdura_alloc(stores[i], 16)) == 0);
  }
  check_error(perdura_region_remove(path, "cache"), PERDURA_LOCKED, "is open in process");
  for (int i = 0; i < 2; ++i) assert(perdura_close(stores[i]) == 0);
  check_error(perdura_region_remove(path, NULL), PERDURA_INVALID_ARGUMENT,
              "needs a URI and a name");
  check_error(perdura_region_remove(path, "other"), PERDURA_NOT_FOUND, "'index', 'cache'");
  assert(perdura_region_remove(path, "cache") == 0);
  options.must_exist = 1;
  check_error(perdura_open(path, &options, &stores[1]), PERDURA_NOT_FOUND, "no region 'cache'");
}

int main(void) {
  char folder[] = "/tmp/perdura-c-XXXXXX";
  if (mkdtemp(folder) == NULL) return 1;
  char path[128];
  snprintf(path, sizeof path, "%s/state.pd", folder);
  use(path);
  misuse(path);
  unlink(path);
  regions(path);
  unlink(path);
  rmdir(folder);
  return 0;
}
