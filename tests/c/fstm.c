/* Goal: Figure 2 of the OpF-STM paper works as it stands, in C, from several threads and after a
 * restart. Method: two threads put nodes into one list; the heap is unmapped, and mapped again. */
#define _DEFAULT_SOURCE
#include <perdura/compat/fstm.h>
#include <perdura/compat/heapo.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kThreads = 2, kInserts = 2000 };

struct node {
  uint64_t key;
  uint64_t value;
  struct node* next;
};
struct list {
  struct node* head;
  uint64_t count;
};

static struct list* list;

static void insert(uint64_t key, uint64_t value) {
  struct node* node;
  TM_INIT_THREAD
  TM_START
  node = pos_malloc("list", sizeof *node);
  assert(node != NULL);
  TM_STORE(&node->key, key);
  TM_STORE(&node->value, value);
  TM_STORE(&node->next, TM_LOAD(&list->head));
  TM_STORE(&list->head, (uintptr_t)node);
  TM_STORE(&list->count, TM_LOAD(&list->count) + 1);
  TM_COMMIT
  TM_EXIT_THREAD
}

static void remove_last(void) {
  struct node* const last = list->head;
  TM_START
  TM_STORE(&list->head, TM_LOAD(&last->next));
  TM_STORE(&list->count, TM_LOAD(&list->count) - 1);
  assert(pos_free("list", last) == 0);
  TM_COMMIT
}

/* The same in each way. */
static void configure(void) {
  for (int durability = PERDURA_FSTM_NON_TEMPORAL; durability <= PERDURA_FSTM_NONE; ++durability)
    for (int logging = PERDURA_FSTM_REDO; logging <= PERDURA_FSTM_UNDO; ++logging) {
      assert(perdura_fstm_configure(list, (enum perdura_fstm_durability)durability,
                                    (enum perdura_fstm_logging)logging) == 0);
      const uint64_t count = list->count;
      insert(kThreads * kInserts, 1);
      assert(list->count == count + 1 && list->head->key == kThreads * kInserts);
      remove_last();
      assert(list->count == count);
    }
  assert(perdura_fstm_configure(&list, PERDURA_FSTM_NONE, PERDURA_FSTM_REDO) ==
         -PERDURA_INVALID_ARGUMENT);
  assert(perdura_fstm_configure(list, (enum perdura_fstm_durability)5, PERDURA_FSTM_REDO) ==
         -PERDURA_INVALID_ARGUMENT);
}

static void* work(void* argument) {
  const uint64_t first = (uint64_t)(uintptr_t)argument * kInserts;
  for (uint64_t i = 0; i < kInserts; ++i) insert(first + i, 2 * (first + i));
  return NULL;
}

static void check(void) {
  uint64_t count = 0;
  uint64_t sum = 0;
  for (const struct node* node = list->head; node != NULL; node = node->next, ++count) {
    assert(node->value == 2 * node->key);
    sum += node->key;
  }
  const uint64_t all = kThreads * kInserts;
  assert(count == all && list->count == all && sum == all * (all - 1) / 2);
}

int main(void) {
  char folder[] = "/tmp/perdura-fstm-XXXXXX";
  if (mkdtemp(folder) == NULL) return 1;
  char uri[128];
  snprintf(uri, sizeof uri, "emu:%s/heap.pd", folder);
  setenv("PERDURA_STORE", uri, 1);
  assert(pos_map("list") == NULL && perdura_last_code() == PERDURA_NOT_FOUND);
  assert(pos_create("a/b") == NULL && perdura_last_code() == PERDURA_INVALID_ARGUMENT);
  list = pos_create("list");
  assert(list != NULL && list->head == NULL && list->count == 0);
  assert(pos_create("list") == NULL && perdura_last_code() == PERDURA_MISUSE);

  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i)
    assert(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  check();
  assert(pos_unmap("list") == 0);
  assert(pos_unmap("list") == -PERDURA_NOT_FOUND);
  list = pos_map("list");
  assert(list != NULL);
  check();

  configure();
  remove_last();
  assert(list->count == kThreads * kInserts - 1);
  assert(pos_delete("list") == 0);
  assert(pos_map("list") == NULL && perdura_last_code() == PERDURA_NOT_FOUND);
  rmdir(folder);
  return 0;
}
