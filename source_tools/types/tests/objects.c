/* What each way of allocating in C makes is in the container, with all that it leads to, when the
 * program is killed and started again; and calls that are no allocations of
 * objects do what the C library's do. PERDURA_STORE says where; the argument is make or check. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <perdura/compat/softpm.h>
#include <perdura/typed.h>

#include "expect.h"

struct item {
  struct item* next;
  char* text;
#ifdef CHANGED
  char* added;
#endif
};
struct derived {
  struct item item;
  void* more;
};
struct flexible {
  int count;
  char* texts[];
};
struct header {
  char* name;
  long bytes;
}; /* text follows it, and a pointer behind that */
struct tagged {
  int kind;
  union {
    char* text PERDURA_COUNTS_WHEN(kind, 1);
    uint64_t number;
  } u;
};
/* What structures have in common, by a macro, as interpreters declare it. */
#define HEAD       \
  struct item* of; \
  int kind
struct head {
  HEAD;
};
struct whole {
  HEAD;
  uint64_t number;
  char* text;
};
struct root {
  struct item *by_assignment, *by_cast, *by_return, *by_argument, *by_calloc, *by_sizeof_alone;
  struct item *by_choice, *from_allocator, *with_header, *grown_in_container;
  struct item* array;
  struct flexible* flexible;
  struct header* header;
  struct tagged* tagged[2];
  char** texts;
  struct item* derived;
  void* conflict;
  struct head* head;
  struct item* near;
  int (*function)(const char*);
  const char* literal;
  char *buffer, *returned_buffer, *handed_buffer, *passed_buffer;
  struct item *in_expression, *pooled;
  struct numbers* numbers;
  PERDURA_MAY_POINT void* marks[3];
  struct item *carved, *from_pool;
};

static struct item* by_return(void) { return malloc(sizeof(struct item)); }
static void by_argument(struct item* item, struct root* root) { root->by_argument = item; }

/* Allocators of the program: one as it is, one that keeps the size in front. */
PERDURA_ALLOCATOR static void* take(size_t bytes) {
  void* memory = malloc(bytes);
  if (memory == NULL) abort();
  return memory;
}
PERDURA_ALLOCATOR static void* take_with_header(size_t bytes) {
  size_t* memory = malloc(bytes + sizeof(size_t));
  *memory = bytes;
  return memory + 1;
}
static char* returned_buffer(void) { return malloc(100); }

/* Parts of a larger block: of characters that somebody casts, in a function before or after; and of
 * one that an allocator with a header gave out, to which nobody gave a type. */
static void* pool;
static void carve(struct root* root);

/* Gives out again what it was given back. */
struct numbers {
  long a, b;
};
static void* free_block;
PERDURA_ALLOCATOR static void* take_again(size_t bytes) {
  void* const again = free_block;
  free_block = NULL;
  return again != NULL ? again : malloc(bytes < 24 ? 24 : bytes);
}
static struct item* filled(struct item* item, const char* text) {
  item->next = NULL;
  item->text = strdup(text);
  return item;
}
static void is_passed(struct root* root, char* buffer) {
  root->passed_buffer = buffer;
  filled((struct item*)(buffer + 16), "passed");
}

static void make(struct root* root) {
  struct item* item = malloc(sizeof *item);
  root->by_assignment = filled(item, "by assignment");
  root->by_cast = filled((struct item*)malloc(16), "by cast");
  root->by_return = filled(by_return(), "by return");
  by_argument(malloc(sizeof(struct item)), root);
  filled(root->by_argument, "by argument");
  root->by_calloc = calloc(1, sizeof(struct item));
  EXPECT(root->by_calloc->next == NULL && root->by_calloc->text == NULL);
  filled(root->by_calloc, "by calloc");
  void* unknown = malloc(sizeof(struct item));
  root->by_sizeof_alone = filled(unknown, "by sizeof");
  root->by_choice = filled(root != NULL ? malloc(sizeof *item) : NULL, "by choice");
  root->from_allocator = filled(take(sizeof(struct item)), "from an allocator");
  root->with_header = filled(take_with_header(sizeof(struct item)), "with a header");
  root->array = malloc(5 * sizeof *root->array);
  for (int i = 0; i < 5; ++i) {
    char text[20];
    sprintf(text, "of array %d", i);
    filled(&root->array[i], text);
  }
  root->array = realloc(root->array, 50 * sizeof *root->array);
  for (int i = 5; i < 50; ++i) root->array[i] = (struct item){NULL, NULL};
  filled(&root->array[49], "the last one");
  root->flexible = malloc(sizeof *root->flexible + 3 * sizeof(char*));
  root->flexible->count = 3;
  for (int i = 0; i < 3; ++i) root->flexible->texts[i] = strndup("flexible and more", 8);
  root->header = malloc(sizeof *root->header + 16 + sizeof(char*));
  root->header->name = strdup("header");
  strcpy((char*)(root->header + 1), "fifteen letters");
  *(char**)((char*)(root->header + 1) + 16) = strdup("behind it");
  for (int i = 0; i < 2; ++i) {
    root->tagged[i] = malloc(sizeof(struct tagged));
    root->tagged[i]->kind = i;
    if (i == 1) root->tagged[i]->u.text = strdup("tagged");
    else
      root->tagged[i]->u.number = (uint64_t)(uintptr_t)root->flexible; /* a number all the same */
  }
  root->texts = malloc(2 * sizeof(char*));
  root->texts[0] = strdup("first");
  root->texts[1] = NULL;
  struct derived* derived = malloc(sizeof(struct derived));
  filled(&derived->item, "derived");
  derived->more = strdup("more");
  root->derived = &derived->item;
  root->conflict = (struct flexible*)malloc(3 * sizeof(struct tagged));
  memset(root->conflict, 0, 3 * sizeof(struct tagged));
  ((char**)root->conflict)[3] = strdup("in conflict");
  struct head* head = take(sizeof(struct whole));
  struct whole* whole = (struct whole*)head;
  whole->of = root->by_cast;
  whole->number = (uint64_t)(uintptr_t)root->by_cast; /* stays when that object moves */
  whole->text = strdup("behind the head");
  root->head = head;
  root->function = puts;
  root->literal = "a literal";
  carve(root);
}

static void carve(struct root* root) {
  root->buffer = malloc(200);
  root->carved = (struct item*)(root->buffer + 64);
  filled(&root->carved[1], "carved");
  root->returned_buffer = returned_buffer();
  filled((struct item*)returned_buffer() + 1, "another buffer");
  filled((struct item*)root->returned_buffer, "returned");
  root->handed_buffer = malloc(64);
  void* handed = root->handed_buffer;
  struct item* in_handed = handed;
  filled(in_handed, "handed");
  is_passed(root, malloc(64));
  root->in_expression = (struct item*)((char*)malloc(64) + 16);
  filled(root->in_expression, "in an expression");
  root->numbers = take_again(sizeof *root->numbers);
  root->numbers->a = 1;
  root->marks[0] = (void*)1;
  root->marks[1] = (void*)-1;
  root->marks[2] = root->in_expression;
  pool = take_with_header(1000);
  root->from_pool = pool;
  filled(&root->from_pool[9], "from a pool");
}

static void check(struct root* root) {
  EXPECT(strcmp(root->carved[1].text, "carved") == 0);
  EXPECT((char*)root->carved == root->buffer + 64);
  EXPECT(strcmp(((struct item*)root->handed_buffer)->text, "handed") == 0);
  EXPECT(strcmp(((struct item*)(root->passed_buffer + 16))->text, "passed") == 0);
  EXPECT(strcmp(root->in_expression->text, "in an expression") == 0);
  EXPECT(root->marks[0] == (void*)1 && root->marks[1] == (void*)-1);
  EXPECT(root->marks[2] == root->in_expression);
  EXPECT(strcmp(((struct item*)root->returned_buffer)->text, "returned") == 0);
  EXPECT(strcmp(root->from_pool[9].text, "from a pool") == 0);
  EXPECT(strcmp(root->by_assignment->text, "by assignment") == 0);
  EXPECT(strcmp(root->by_cast->text, "by cast") == 0);
  EXPECT(strcmp(root->by_return->text, "by return") == 0);
  EXPECT(strcmp(root->by_argument->text, "by argument") == 0);
  EXPECT(strcmp(root->by_calloc->text, "by calloc") == 0);
  EXPECT(strcmp(root->by_sizeof_alone->text, "by sizeof") == 0);
  EXPECT(strcmp(root->by_choice->text, "by choice") == 0);
  EXPECT(strcmp(root->from_allocator->text, "from an allocator") == 0);
  EXPECT(strcmp(root->with_header->text, "with a header") == 0);
  EXPECT(((size_t*)root->with_header)[-1] == sizeof(struct item));
  EXPECT(strcmp(root->array[4].text, "of array 4") == 0);
  EXPECT(strcmp(root->array[49].text, "the last one") == 0);
  EXPECT(strcmp(root->flexible->texts[2], "flexible") == 0);
  EXPECT(strcmp(root->header->name, "header") == 0);
  EXPECT(strcmp((char*)(root->header + 1), "fifteen letters") == 0);
  EXPECT(strcmp(*(char**)((char*)(root->header + 1) + 16), "behind it") == 0);
  EXPECT(strcmp(root->tagged[1]->u.text, "tagged") == 0);
  EXPECT(root->tagged[0]->u.number != 0);
  EXPECT(strcmp(root->texts[0], "first") == 0);
  EXPECT(strcmp(root->derived->text, "derived") == 0);
  EXPECT(strcmp(((struct derived*)root->derived)->more, "more") == 0);
  EXPECT(strcmp(((char**)root->conflict)[3], "in conflict") == 0);
  EXPECT(strcmp(((struct whole*)root->head)->text, "behind the head") == 0);
  EXPECT(root->function == puts);
  EXPECT(strcmp(root->literal, "a literal") == 0);
}

/* What is allocated near the root is where it stays, and in the next version. */
static void allocate_near(int id, struct root* root) {
  EXPECT(perdura_allocate_near(&id) == -PERDURA_NOT_FOUND);
  EXPECT(perdura_allocate_near(root) == 0);
  struct item* first = filled(malloc(sizeof *first), "near");
  first->next = filled(take(sizeof *first), "from an allocator");
  first->next->next = filled(calloc(1, sizeof *first), "zeroed");
  struct item* const second = first->next;
  first->next = realloc(second, 100 * sizeof *second);
  struct item* const grown = first->next;
  free(malloc(sizeof *first));
  root->near = first;
  EXPECT(perdura_allocate_near(NULL) == 0);
  struct item* const moving = filled(malloc(sizeof *moving), "volatile");
  grown->next->next = moving;
  pPoint(id);
  EXPECT(pSync(id) == 0);
  EXPECT(root->near == first && first->next == grown && grown->next->next != moving);
  struct item* other = NULL;
  const int closed = pCAlloc(2, sizeof *other, (void**)&other);
  EXPECT(closed > 0 && perdura_allocate_near(other) == 0);
  pCFree(closed);
  free(filled(malloc(sizeof *first), "volatile again")->text);
  EXPECT(perdura_allocate_near(NULL) == 0);
  pCDelete(2);
}
static void check_near(const struct item* item) {
  const char* const texts[] = {"near", "from an allocator", "zeroed", "volatile"};
  for (int i = 0; i < 4; ++i, item = item->next)
    EXPECT(item != NULL && strcmp(item->text, texts[i]) == 0);
  EXPECT(item == NULL);
}

/* Objects in the container are ordinary memory to free and realloc. */
static void change(struct root* root) {
  root->array = realloc(root->array, 500 * sizeof *root->array);
  for (int i = 50; i < 500; ++i) root->array[i] = (struct item){NULL, NULL};
  filled(&root->array[499], "grown");
  free_block = root->numbers;
  root->numbers = NULL;
  root->pooled = filled(take_again(sizeof(struct item)), "pooled");
  free(root->by_cast->text);
  free(root->by_cast);
  root->by_cast = filled(malloc(sizeof(struct item)), "by cast");
}

static void* allocate_much(void* unused) {
  (void)unused;
  struct item* last = NULL;
  for (int i = 0; i < 100000; ++i) {
    struct item* item = malloc(sizeof *item);
    item->next = i % 3 == 0 ? NULL : last;
    if (i % 3 == 0) free(last);
    last = item;
  }
  free(last);
  return NULL;
}

static void as_the_library_does(void) {
  free(NULL);
  volatile size_t many = SIZE_MAX / 2;
  errno = 0;
  char* sparse = calloc((size_t)1 << 34, 1); /* of which nothing is touched but this */
  EXPECT(sparse[(size_t)1 << 33] == 0);
  free(sparse);
  struct item* none = calloc(many, sizeof *none);
  EXPECT(none == NULL && errno == ENOMEM);
  errno = 0;
  none = malloc(many);
  EXPECT(none == NULL && errno == ENOMEM);
  struct item* a = malloc(0);
  struct item* b = malloc(0);
  EXPECT(a != NULL && b != NULL && a != b);
  free(a);
  EXPECT(realloc(b, 0) == NULL);
  const unsigned long before = perdura_untyped_allocations();
  void* untyped = malloc(100);
  memset(untyped, 7, 100);
  EXPECT(perdura_untyped_allocations() == before + 1);
  char* typed = realloc(untyped, 200);
  EXPECT(typed[99] == 7);
  /* The library takes back and grows what the program made. */
  char* line = malloc(1);
  size_t room = 1;
  FILE* file = fmemopen("a line that is longer", 21, "r");
  EXPECT(getline(&line, &room, file) == 21 && strcmp(line, "a line that is longer") == 0);
  fclose(file);
  free(line);
  free(typed);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, allocate_much, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  struct item* parents = malloc(sizeof *parents);
  const pid_t child = fork();
  if (child == 0) {
    struct item* own = filled(malloc(sizeof *own), "a child's");
    free(own->text);
    free(own);
    free(parents);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(status == 0);
  free(parents);
}

int main(int argc, char** argv) {
  struct root* root = NULL;
  EXPECT(argc == 2);
  if (strcmp(argv[1], "make") == 0) {
    as_the_library_does();
    struct item* before = filled(malloc(sizeof *before), "made before");
    const int id = pCAlloc(1, sizeof(*root), (void**)&root);
    EXPECT(id > 0);
    make(root);
    root->grown_in_container = before;
    const uint64_t number = ((struct whole*)root->head)->number;
    pPoint(id);
    EXPECT(pSync(id) == 0);
    check(root);
    EXPECT(root->head->of == root->by_cast && (uint64_t)(uintptr_t)root->by_cast != number);
    EXPECT(((struct whole*)root->head)->number == number);
    allocate_near(id, root);
    change(root);
    pPoint(id);
    EXPECT(pSync(id) == 0);
  } else {
    const int id = pCRestore(1, (void**)&root);
    if (id < 0) fprintf(stderr, "%s\n", perdura_last_error());
    EXPECT(id > 0);
    check(root);
    check_near(root->near);
    EXPECT(strcmp(root->array[499].text, "grown") == 0);
    EXPECT(strcmp(root->pooled->text, "pooled") == 0);
    EXPECT(strcmp(root->grown_in_container->text, "made before") == 0);
  }
  raise(SIGKILL);
}
