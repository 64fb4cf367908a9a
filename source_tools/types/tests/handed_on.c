/* Buffers that are handed to whoever is called by pointer, or become numbers between; sizes that
 * are of another type than the first one; storage as C programs write it. Each is in the container
 * when the program is killed and started again. make | check, which end by SIGKILL when all is as
 * expected. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <perdura/compat/softpm.h>
#include <perdura/typed.h>

#include "expect.h"

struct node {
  struct node* next;
  long value;
};
struct operations {
  void (*fill)(void* to, long value);
};
struct short_name {
  long port;
  long address;
};
struct long_name {
  struct node* scope;
  long address;
  long more;
};
struct head {
  long number;
  struct node* at;
};
union most_aligned {
  char data[32];
  max_align_t align;
};
union aligned_as_pointer {
  char data[32];
  void* align;
};
struct stored {
  long tag;
  union most_aligned most;
  union aligned_as_pointer pointer;
};
#define ALIGN(n, to) (((n) + (to) - 1) & ~((size_t)(to) - 1))

struct root {
  char* by_callback;
  char* by_table;
  char* by_variable;
  char* aligned;
  char* aligned_by_function;
  void* name; /* sized by a variable that was another type's */
  struct head* rounded;
  struct stored* stored;
};

static struct node* make_node(long value) {
  struct node* node = malloc(sizeof *node);
  node->next = NULL;
  node->value = value;
  return node;
}
static long value_at(const char* bytes) {
  struct node* node;
  memcpy(&node, bytes, sizeof node);
  return node->value;
}

static void fill(void* to, long value) { ((struct node**)to)[1] = make_node(value); }
static void call(void (*function)(void*, long), void* to, long value) { function(to, value); }
static const struct operations operations = {fill};
static struct node** aligned(char* bytes) {
  return (struct node**)(((uintptr_t)bytes + 15) & ~15ul);
}
static char* aligned_bytes(char* bytes) {
  return (char*)(((uintptr_t)bytes + 15) & ~(uintptr_t)15);
}

static void make(struct root* root, int count) {
  root->by_callback = malloc(64);
  call(fill, root->by_callback, 1);
  root->by_table = malloc(64);
  operations.fill(root->by_table, 2);
  root->by_variable = malloc(64);
  void (*volatile function)(void*, long) = fill;
  function(root->by_variable, 3);
  root->aligned = malloc(64);
  aligned(root->aligned)[1] = make_node(4);
  root->aligned_by_function = malloc(64);
  ((struct node**)aligned_bytes(root->aligned_by_function))[1] = make_node(5);
  size_t size = sizeof(struct short_name);
  if (count > 0) size = sizeof(struct long_name);
  root->name = calloc(1, size);
  ((struct long_name*)root->name)->scope = make_node(6);
  root->rounded = malloc(ALIGN(sizeof *root->rounded + 8, 8));
  root->rounded->at = make_node(7);
  *(struct node**)(root->rounded + 1) = make_node(8);
  root->stored = calloc(1, sizeof *root->stored);
  *(struct node**)root->stored->most.data = make_node(9);
  *(struct node**)root->stored->pointer.data = make_node(10);
}

static void check(struct root* root) {
  EXPECT(value_at(root->by_callback + 8) == 1);
  EXPECT(value_at(root->by_table + 8) == 2);
  EXPECT(value_at(root->by_variable + 8) == 3);
  EXPECT(value_at(aligned_bytes(root->aligned) + 8) == 4);
  EXPECT(value_at(aligned_bytes(root->aligned_by_function) + 8) == 5);
  EXPECT(((struct long_name*)root->name)->scope->value == 6);
  EXPECT(root->rounded->at->value == 7 && value_at((char*)(root->rounded + 1)) == 8);
  EXPECT(value_at(root->stored->most.data) == 9 && value_at(root->stored->pointer.data) == 10);
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  struct root* root = NULL;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  EXPECT(id >= 0);
  if (strcmp(argv[1], "make") == 0) make(root, argc);
  check(root);
  pPoint(id);
  EXPECT(pSync(id) == 0);
  check(root);
  raise(SIGKILL);
}
