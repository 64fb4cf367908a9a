/* Stores of pointers where records name none: each line that is to be told says so, and no other
 * is (audit.sh). */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perdura/compat/softpm.h>
#include <perdura/typed.h>

struct node {
  struct node* next;
  uint64_t number;
  uintptr_t for_pointers;
  char text[24];
  PERDURA_NO_POINTER struct node* cache;
  double real;
  struct {
    int kind;
    union {
      struct node* one PERDURA_COUNTS_WHEN(kind, 1);
      uint64_t two;
    } of;
  } tagged;
};
struct pair {
  struct node* first;
  uint64_t second;
};
struct plain {
  uint64_t numbers[4];
};

static struct node* make(void) { return malloc(sizeof(struct node)); }
static uint64_t hidden(const void* pointer) { return (uint64_t)(uintptr_t)pointer; }
static struct pair paired(struct node* node) { return (struct pair){node, hidden(node)}; }

/* What is as it should be. */
static void good(struct node* a, struct node* b) {
  a->next = b;
  a->for_pointers = hidden(b);
  a->cache = b;
  a->number = 12345678;
  a->real = 0.5;
  a->tagged.of.one = b; /* before its kind */
  a->tagged.kind = 1;
  strcpy(a->text, "text");
  struct node* copies = malloc(2 * sizeof *copies);
  copies[1] = *a;
  memcpy(&copies[0], a, sizeof *a);
  void* anything[2] = {a, b};
  struct node** table = malloc(2 * sizeof *table);
  memcpy(table, anything, sizeof anything);
  free(table);
  free(copies);
  void* outside = malloc(64); /* without a type: nothing of it is checked */
  memcpy(outside, anything, sizeof anything);
  free(outside);
}

static void bad(struct node* a, struct node* b, struct plain* plain) {
  a->number = hidden(b);                    /* told: a number that is a pointer */
  *(struct node**)(a->text + 8) = b;        /* told: a pointer in characters */
  memcpy(a->text + 1, &b, sizeof b);        /* told: the same, not aligned */
  a->tagged.of.two = hidden(b);             /* a union's word may be one */
  memcpy(&plain->numbers[1], &b, sizeof b); /* told: copied by hand */
  const struct pair both = paired(a);
  *(struct pair*)&plain->numbers[2] = both;                  /* told: a structure by assignment */
  __atomic_store_n(&b->number, hidden(a), __ATOMIC_RELEASE); /* the same slot as above */
  struct node** const slot = (struct node**)&plain->numbers[0];
  __atomic_exchange_n(slot, a, __ATOMIC_SEQ_CST); /* told: an exchange */
  *(int (**)(const char*))(a->text + 16) = puts;  /* told: a function */
}

static void carve(struct node* a) {
  char* buffer = malloc(100 * sizeof(char));
  struct node** table; /* the compiler does not see that it is the buffer */
  memcpy(&table, &buffer, sizeof table);
  for (int i = 0; i < 10; ++i) table[i] = a; /* told: a buffer, once */
  free(buffer);
}

/* Words that nobody knows more of, made in two places: each tells what lies across them. */
struct packed {
  int before;
  struct node* at;
} __attribute__((packed));
PERDURA_ALLOCATOR static void* take(size_t bytes) { return malloc(bytes); }
static void across(struct node* a) {
  struct packed* const one = take(sizeof *one);
  one->at = a; /* told: not aligned */
  struct packed* const other = take(sizeof *other);
  other->at = a; /* told: made elsewhere */
  free(one);
  free(other);
}

static void add(const char* made, const char* type, const perdura_audit_census* one, void* all) {
  perdura_audit_census* const sum = all;
  if (strstr(made, "audit.c:") == NULL || type[0] == 0) return; /* the heap's own */
  sum->named += one->named;
  sum->maybe += one->maybe;
  sum->missed += one->missed;
  sum->objects += one->objects;
}

int main(void) {
  struct node* a = make();
  struct node* b = calloc(1, sizeof *b);
  good(a, b);
  if (perdura_audit_findings() != 0) return 1;
  struct plain* plain = malloc(sizeof *plain);
  bad(a, b, plain);
  carve(a);
  across(a);
  perdura_audit_census census = {0, 0, 0, 0};
  if (perdura_audit_take_census(add, &census) != 0) return 6;
  /* next, of.one; for_pointers; twice number, cache and all of the plain one. One in characters may
   * lead to something since another one lies across its first byte. */
  if (census.named != 2 || census.maybe != 1 || census.objects != 3) return 7;
  if (census.missed < 7 || census.missed > 8) return 8;
  /* And of objects that a point has moved. */
  struct node** root = NULL;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  if (id < 0) return 2;
  *root = make();
  (*root)->next = make();
  pPoint(id);
  if (pSync(id) != 0) return 3;
  const unsigned long before = perdura_audit_findings();
  (*root)->next->number = hidden(*root); /* the same slot of the same type, made there as well */
  (*root)->real = 1.5;
  if (perdura_audit_findings() != before) return 4;
  *(struct node**)&(*root)->next->real = *root; /* told: in a container */
  if (perdura_audit_findings() != before + 1) return 5;
  return 0;
}
