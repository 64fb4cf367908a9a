/* What once was lost without a word, in C: each is in the container when the program is killed and
 * started again. make | check, which end by SIGKILL when all is as expected. */
#include <signal.h>
#include <stdarg.h>
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

/* An annotation of a flexible array, and of members of unions. */
struct marks {
  long count;
  PERDURA_MAY_POINT struct node* slot[];
};
struct bytes {
  size_t count;
  PERDURA_MAY_POINT char data[];
};
struct in_union {
  long kind;
  union {
    PERDURA_MAY_POINT uint64_t number;
    double real;
  } of;
};

/* Flexible arrays that are not the last member of the structure itself. */
struct inner {
  long count;
  struct node* all[];
};
struct nested {
  long head;
  struct inner inner;
};
struct overlaid {
  long count;
  union {
    struct {
      struct {
      } empty;
      struct node* all[];
    };
    long numbers[1];
  };
};
struct anonymous {
  long count;
  struct {
    long more;
    struct node* all[];
  };
};

/* Buffers that an initializer takes. */
struct arena {
  char* memory;
  size_t bytes;
};
struct cell {
  char bytes[16];
};

typedef uintptr_t VALUE;

/* What an allocator gives out again, from a block that was something larger. */
struct header {
  struct header* next;
  size_t bytes;
};
struct large {
  struct node* at;
  long numbers[20];
};
struct small {
  long number;
  struct node* at;
};

/* What the size says of other things than what is there. */
struct chunk {
  struct chunk* next;
  size_t used;
};
struct vec {
  struct node* head;
  long count;
};
struct numbers {
  long all[4];
};
struct numbered {
  long number;
  struct node* at;
};
struct derived {
  struct node node;
  long number;
};
struct derived_pointer {
  struct node node;
  struct node* at;
};
#define MAX(a, b) ((a) > (b) ? (a) : (b))

struct by_size {
  struct node** table; /* counted in what it leads to */
  struct node** buckets;
  struct chunk* chunk; /* in front of what is carved up */
  struct chunk* chunks;
  void* larger; /* of two */
  struct node* larger_base;
  void* behind; /* pointers before a structure */
  struct numbers* with_word;
  uintptr_t* integers;
  VALUE* values;
  struct vec* grown;
  struct node** from_text;
  char* text_again;
  struct vec* by_line;
  char *by_pointer, *by_rest, *of_integers;
};

struct root {
  struct by_size* by_size;
  struct marks* marks;
  struct bytes* bytes;
  struct in_union* in_union;
  struct nested* nested;
  struct overlaid* overlaid;
  struct anonymous* anonymous;
  struct node *designated, *literal, *cell, *chosen, *by_address;
  struct small* again;
  struct small* grown;
};

static struct header* pool;
PERDURA_ALLOCATOR static void* get(size_t bytes) {
  for (struct header** at = &pool; *at != NULL; at = &(*at)->next) {
    if ((*at)->bytes < bytes) continue;
    struct header* const found = *at;
    *at = found->next;
    return memset(found + 1, 0, bytes);
  }
  struct header* const made = malloc(sizeof *made + bytes);
  made->bytes = bytes;
  made->next = NULL;
  return memset(made + 1, 0, bytes);
}
static void give_back(void* object) {
  struct header* const of = (struct header*)object - 1;
  of->next = pool;
  pool = of;
}
PERDURA_ALLOCATOR static void* grown(void* old, size_t bytes) { return realloc(old, bytes); }

static struct node* make_node(long value) {
  struct node* const made = malloc(sizeof *made);
  made->value = value;
  return made;
}
static struct node* pushed(struct node* at, long value) {
  at->next = make_node(value);
  return at;
}
static struct arena made_arena(size_t bytes) { return (struct arena){malloc(bytes), bytes}; }

/* As allocators for debugging are. */
PERDURA_ALLOCATOR static void* get_at(size_t bytes, const char* file, int line) {
  return file != NULL && line != 0 ? malloc(bytes) : NULL;
}
static char* give(void) { return malloc(64); }
static char* (*const kGive)(void) = give;
static char* first_of(int count, ...) {
  va_list rest;
  va_start(rest, count);
  char* const first = va_arg(rest, char*);
  va_end(rest);
  ((struct node**)first)[2] = make_node(31);
  return first;
}

static void make_by_size(struct by_size* all) {
  all->table = malloc(4 * sizeof(struct node));
  all->buckets = calloc(4, sizeof(struct node));
  for (int i = 0; i < 4; ++i) all->table[i] = all->buckets[i] = make_node(20 + i);
  all->chunk = malloc(4096);
  all->chunks = calloc(4, 1024);
  ((struct node**)(all->chunk + 1))[1] = make_node(24);
  ((struct node**)(all->chunks + 1))[1] = make_node(24);
  all->larger = malloc(MAX(sizeof(struct numbers), sizeof(struct numbered)));
  ((struct numbered*)all->larger)->at = make_node(25);
  all->larger_base = malloc(MAX(sizeof(struct derived), sizeof(struct derived_pointer)));
  ((struct derived_pointer*)all->larger_base)->at = make_node(25);
  all->behind = malloc(4 * sizeof(struct node*) + sizeof(struct numbers));
  ((struct numbers*)all->behind)->all[0] = 77;
  ((struct node**)all->behind)[5] = make_node(26);
  all->with_word = malloc(sizeof *all->with_word + 8);
  struct node* const last = make_node(27);
  memcpy(all->with_word + 1, &last, sizeof last);
  all->integers = malloc(4 * sizeof(uintptr_t));
  all->values = calloc(4, sizeof(VALUE));
  all->integers[1] = all->values[2] = (uintptr_t)make_node(28);
  struct vec* vec = malloc(sizeof *vec);
  vec->head = NULL;
  vec = realloc(vec, sizeof *vec + 2 * sizeof(struct node*));
  ((struct node**)(vec + 1))[1] = make_node(29);
  all->grown = vec;
  char* const text = malloc(16);
  strcpy(text, "a text");
  all->from_text = realloc(text, 8 * sizeof(struct node*));
  all->from_text[7] = make_node(30);
  all->text_again = realloc(strdup("text"), 100);
#line 2000 /* larger than what is allocated, as its size would be */
  all->by_line = get_at(sizeof *all->by_line + 2 * sizeof(struct node*), __FILE__, __LINE__);
  ((struct node**)(all->by_line + 1))[1] = make_node(31);
  all->by_pointer = kGive();
  ((struct node**)all->by_pointer)[2] = make_node(31);
  all->of_integers = malloc(64);
  ((uintptr_t*)all->of_integers)[3] = (uintptr_t)make_node(32);
  char* const rest = malloc(64);
  all->by_rest = first_of(1, rest);
}
static void check_by_size(const struct by_size* all) {
  for (int i = 0; i < 4; ++i)
    EXPECT(all->table[i]->value == 20 + i && all->buckets[i] == all->table[i]);
  EXPECT(((struct node**)(all->chunk + 1))[1]->value == 24);
  EXPECT(((struct node**)(all->chunks + 1))[1]->value == 24);
  EXPECT(((struct numbered*)all->larger)->at->value == 25);
  EXPECT(((struct derived_pointer*)all->larger_base)->at->value == 25);
  EXPECT(((struct numbers*)all->behind)->all[0] == 77);
  EXPECT(((struct node**)all->behind)[5]->value == 26);
  struct node* last = NULL;
  memcpy(&last, all->with_word + 1, sizeof last);
  EXPECT(last->value == 27);
  EXPECT(((struct node*)all->integers[1])->value == 28 && all->values[2] == all->integers[1]);
  EXPECT(((struct node**)(all->grown + 1))[1]->value == 29);
  EXPECT(all->from_text[7]->value == 30);
  EXPECT(strcmp(all->text_again, "text") == 0);
  EXPECT(((struct node**)(all->by_line + 1))[1]->value == 31);
  EXPECT(((struct node**)all->by_pointer)[2]->value == 31);
  EXPECT(((struct node**)all->by_rest)[2]->value == 31);
  struct node* of_integers = NULL; /* no cast of the buffer to a pointer to pointers */
  memcpy(&of_integers, all->of_integers + 3 * sizeof of_integers, sizeof of_integers);
  EXPECT(of_integers->value == 32);
}

static void make(struct root* root) {
  root->by_size = malloc(sizeof *root->by_size);
  make_by_size(root->by_size);
  root->marks = calloc(1, sizeof *root->marks + 4 * sizeof(struct node*));
  root->marks->slot[0] = (void*)1;
  root->marks->slot[1] = make_node(1);
  root->bytes = calloc(1, sizeof *root->bytes + 32);
  struct node* const hidden = make_node(2);
  memcpy(root->bytes->data + 8, &hidden, sizeof hidden);
  root->in_union = calloc(1, sizeof *root->in_union);
  root->in_union->of.number = (uint64_t)make_node(3);
  root->nested = calloc(1, sizeof *root->nested + 4 * sizeof(struct node*));
  root->nested->inner.all[2] = make_node(4);
  root->overlaid = calloc(1, sizeof *root->overlaid + 4 * sizeof(struct node*));
  root->overlaid->all[2] = make_node(5);
  root->anonymous = calloc(1, sizeof *root->anonymous + 4 * sizeof(struct node*));
  root->anonymous->all[2] = make_node(6);

  struct arena designated = {.bytes = 64, .memory = malloc(64)};
  root->designated = pushed((struct node*)designated.memory, 7);
  root->literal = pushed((struct node*)made_arena(64).memory, 8);
  struct cell* const cells = malloc(4 * sizeof *cells);
  root->cell = pushed((struct node*)cells, 9);
  char* const one = malloc(64);
  char* const other = malloc(64);
  root->chosen = pushed((struct node*)(root->cell != NULL ? one : other), 10);
  char* as_address = malloc(64);
  root->by_address = pushed(*(struct node**)&as_address, 11);

  struct large* const large = get(sizeof *large);
  large->at = NULL;
  give_back(large);
  root->again = get(sizeof *root->again);
  root->again->number = 1;
  root->again->at = get(sizeof(struct node));
  root->again->at->value = 12;
  struct large* const array = grown(NULL, 4 * sizeof *array);
  root->grown = grown(array, 30 * sizeof *root->grown);
  memset(root->grown, 0, 30 * sizeof *root->grown);
  root->grown[1].number = 1;
  root->grown[1].at = make_node(13);
}

static void check(const struct root* root) {
  check_by_size(root->by_size);
  EXPECT(root->marks->slot[0] == (void*)1 && root->marks->slot[1]->value == 1);
  struct node* hidden = NULL;
  memcpy(&hidden, root->bytes->data + 8, sizeof hidden);
  EXPECT(hidden->value == 2);
  EXPECT(((struct node*)root->in_union->of.number)->value == 3);
  EXPECT(root->nested->inner.all[2]->value == 4);
  EXPECT(root->overlaid->all[2]->value == 5);
  EXPECT(root->anonymous->all[2]->value == 6);
  EXPECT(root->designated->next->value == 7);
  EXPECT(root->literal->next->value == 8);
  EXPECT(root->cell->next->value == 9);
  EXPECT(root->chosen->next->value == 10);
  EXPECT(root->by_address->next->value == 11);
  EXPECT(root->again->number == 1 && root->again->at->value == 12);
  EXPECT(root->grown[1].number == 1 && root->grown[1].at->value == 13);
}

/* Near the root: until its container is closed, and not when it is open again. */
static void check_near(int id, struct root** root) {
  EXPECT(perdura_allocate_near(*root) == 0);
  EXPECT((char*)malloc(sizeof(struct node)) != NULL);
  pCFree(id);
  EXPECT(pCOpen(1, sizeof **root, (void**)root) >= 0);
  struct node* const made = malloc(sizeof *made);
  made->next = (struct node*)*root;
  const ptrdiff_t away = (char*)made - (char*)*root;
  EXPECT(away < -(1L << 30) || away > (1L << 30));
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  struct root* root = NULL;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  EXPECT(id >= 0);
  if (strcmp(argv[1], "make") == 0) make(root);
  check(root);
  pPoint(id);
  EXPECT(pSync(id) == 0);
  check(root);
  if (strcmp(argv[1], "check") == 0) check_near(id, &root);
  raise(SIGKILL);
}
