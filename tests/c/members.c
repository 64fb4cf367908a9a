/* Types that change, in C: a record says all members once, a store tells a program that has others,
 * and converts objects with a function; a process that is killed before the next version leaves all
 * of them as they were. */
#define _POSIX_C_SOURCE 200809L
#include <perdura/perdura.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, #condition, perdura_last_error()); \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

/* --- the example of docs/evolution.md
 * -----------------------------------------------------------*/

struct account_v1 {
  int32_t number;
  int64_t cents;
  struct account_v1* next;
};
PERDURA_STRUCT_AS(account_v1_type, struct account_v1, struct account,
                  PERDURA_MEMBER(struct account_v1, number),
                  PERDURA_MEMBER(struct account_v1, cents),
                  PERDURA_MEMBER(struct account_v1, next));

struct account {
  int32_t number;
  int64_t cents;
  int64_t limit;
  struct account* next;
};
PERDURA_STRUCT(account_type, struct account, PERDURA_MEMBER(struct account, number),
               PERDURA_MEMBER(struct account, cents), PERDURA_MEMBER(struct account, limit),
               PERDURA_MEMBER(struct account, next));

static void evolve(perdura_store* store) {
  const struct account defaults = {.limit = 1000};
  CHECK(perdura_evolve(store, &account_v1_type, &account_type, &defaults, NULL) == 0);
  CHECK(perdura_checkpoint(store, NULL) == 0);
  const struct account* first = perdura_root_get_typed(store, "bank", &account_type);
  CHECK(first != NULL && first->limit == 1000);
}

struct rich {
  int32_t number;
  double euros;
  struct account* next;
};
PERDURA_STRUCT_AS(rich_type, struct rich, struct account, PERDURA_MEMBER(struct rich, number),
                  PERDURA_MEMBER(struct rich, euros), PERDURA_MEMBER(struct rich, next));

static int to_euros(const void* was, void* object, void* user) {
  const struct account* account = was;
  struct rich* rich = object;
  rich->number = account->number;
  rich->euros = (double)account->cents / 100;
  rich->next = account->next; /* leads to what was, and to the new object afterwards */
  return account->number == *(const int*)user ? 7 : 0;
}

/* ------------------------------------------------------------------------------------------------*/

enum { kAccounts = 100 };

static perdura_store* open_store(const char* path) {
  const perdura_options options = {.region_limit_bytes = 64 << 20};
  perdura_store* store = NULL;
  CHECK(perdura_open(path, &options, &store) == 0);
  return store;
}

static void make(perdura_store* store) {
  struct account_v1* next = NULL;
  for (int i = kAccounts; i-- > 0;) {
    struct account_v1* made = perdura_alloc_typed(store, &account_v1_type, 1);
    CHECK(made != NULL);
    made->number = i;
    made->cents = 100 * i;
    made->next = next;
    next = made;
  }
  CHECK(perdura_root_set_typed(store, "bank", next, &account_v1_type) == 0);
  CHECK(perdura_checkpoint(store, NULL) == 0);
}

static void check_v1(perdura_store* store) {
  const struct account_v1* each = perdura_root_get_typed(store, "bank", &account_v1_type);
  for (int i = 0; i < kAccounts; ++i, each = each->next)
    CHECK(each != NULL && each->number == i && each->cents == 100 * i);
  CHECK(each == NULL);
}

/* Other members are refused, with both texts. */
static void refused(perdura_store* store) {
  CHECK(perdura_root_get_typed(store, "bank", &account_type) == NULL);
  CHECK(perdura_last_code() == PERDURA_TYPE_MISMATCH);
  const char* said = perdura_last_error();
  CHECK(strstr(said,
               "in the store: 24 bytes, aligned to 8: number int32 at 0, cents int64 at 8, "
               "next pointer at 16") != NULL);
  CHECK(strstr(said,
               "in this program: 32 bytes, aligned to 8: number int32 at 0, cents int64 at 8, "
               "limit int64 at 16, next pointer at 24") != NULL);
  CHECK(perdura_alloc_typed(store, &account_type, 1) == NULL);
  CHECK(perdura_last_code() == PERDURA_TYPE_MISMATCH);
  check_v1(store);
}

/* Killed between the conversion and the version that has it. */
static void killed(const char* path) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    perdura_store* store = open_store(path);
    uint64_t converted = 0;
    CHECK(perdura_evolve(store, &account_v1_type, &account_type, NULL, &converted) == 0);
    CHECK(converted == kAccounts);
    const struct account* first = perdura_root_get_typed(store, "bank", &account_type);
    CHECK(first != NULL && first->next->cents == 100 && first->limit == 0);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  perdura_store* store = open_store(path);
  check_v1(store);
  CHECK(perdura_close(store) == 0);
}

/* A function that fails leaves all as it was. */
static void converted_by_a_function(perdura_store* store) {
  int refuse = 50;
  perdura_conversion conversion = {
      .former = &account_type, .now = &rich_type, .convert = to_euros, .user = &refuse};
  CHECK(perdura_migrate(store, &conversion, 1, NULL) == -PERDURA_INVALID_ARGUMENT);
  CHECK(strstr(perdura_last_error(), "returned 7 for the object at") != NULL);
  const struct account* still = perdura_root_get_typed(store, "bank", &account_type);
  CHECK(still != NULL && still->next->cents == 100);
  refuse = -1;
  uint64_t converted = 0;
  CHECK(perdura_migrate(store, &conversion, 1, &converted) == 0);
  CHECK(converted == kAccounts);
  const struct rich* each = perdura_root_get_typed(store, "bank", &rich_type);
  for (int i = 0; i < kAccounts; ++i, each = (const struct rich*)each->next)
    CHECK(each != NULL && each->number == i && each->euros == i);
  CHECK(each == NULL);
}

/* Members that cannot be made of what they were need a function, and records all members. */
struct textual {
  char number[4];
};
PERDURA_STRUCT_AS(textual_type, struct textual, struct account,
                  PERDURA_MEMBER(struct textual, number));
struct narrow {
  int32_t number;
  int32_t cents;
  struct account* next;
};
PERDURA_STRUCT_AS(narrow_type, struct narrow, struct account, PERDURA_MEMBER(struct narrow, number),
                  PERDURA_MEMBER(struct narrow, cents), PERDURA_MEMBER(struct narrow, next));
struct cube {
  struct textual rows[2][2][2];
};
PERDURA_STRUCT(row_type, struct textual, PERDURA_MEMBER(struct textual, number));
PERDURA_STRUCT(cube_type, struct cube, PERDURA_VALUE(struct cube, rows, row_type));
struct line {
  int32_t numbers[2];
};
struct table {
  int32_t numbers[2][3];
};
PERDURA_STRUCT_AS(line_type, struct line, struct table, PERDURA_MEMBER(struct line, numbers));
PERDURA_STRUCT(table_type, struct table, PERDURA_MEMBER(struct table, numbers));
PERDURA_STRUCT(unrelated_type, struct textual, PERDURA_MEMBER(struct textual, number));
PERDURA_DEFINE_PLAIN_TYPE(plain_type, struct account);

static void misuse(perdura_store* store) {
  CHECK(perdura_evolve(store, &account_v1_type, &textual_type, NULL, NULL) ==
        -PERDURA_INVALID_ARGUMENT);
  CHECK(strstr(perdura_last_error(), "member 'number'") != NULL);
  struct account_v1* last = perdura_root_get_typed(store, "bank", &account_v1_type);
  while (last->next != NULL) last = last->next;
  const int64_t cents = last->cents;
  last->cents = 5000000000;
  CHECK(perdura_evolve(store, &account_v1_type, &narrow_type, NULL, NULL) ==
        -PERDURA_INVALID_ARGUMENT);
  CHECK(strstr(perdura_last_error(), "'cents' has the value 5000000000") != NULL);
  last->cents = cents;
  CHECK(perdura_alloc_typed(store, &cube_type, 1) == NULL);
  CHECK(strstr(perdura_last_error(), "more than two dimensions, 'rows'") != NULL);
  CHECK(perdura_evolve(store, &line_type, &table_type, NULL, NULL) == -PERDURA_INVALID_ARGUMENT);
  CHECK(strstr(perdura_last_error(), "member 'numbers'") != NULL);
  CHECK(perdura_evolve(store, &plain_type, &account_type, NULL, NULL) == -PERDURA_INVALID_ARGUMENT);
  CHECK(strstr(perdura_last_error(), "PERDURA_STRUCT") != NULL);
  CHECK(perdura_evolve(store, &account_v1_type, &unrelated_type, NULL, NULL) ==
        -PERDURA_INVALID_ARGUMENT);
  CHECK(strstr(perdura_last_error(), "PERDURA_STRUCT_AS") != NULL);
  CHECK(perdura_evolve(store, NULL, &account_type, NULL, NULL) == -PERDURA_INVALID_ARGUMENT);
  CHECK(perdura_migrate(store, NULL, 1, NULL) == -PERDURA_INVALID_ARGUMENT);
  perdura_conversion conversion = {.former = &account_v1_type, .now = &account_type};
  CHECK(perdura_migrate(store, &conversion, 0, NULL) == -PERDURA_INVALID_ARGUMENT);
  CHECK(perdura_migrate_sized(store, &conversion, 1, 16, NULL) == -PERDURA_INVALID_ARGUMENT);
  /* A later program's, with a field that is not known here. */
  struct {
    perdura_conversion known;
    uint64_t later;
  } longer = {.known = conversion, .later = 1};
  CHECK(perdura_migrate_sized(store, &longer.known, 1, sizeof longer, NULL) ==
        -PERDURA_UNSUPPORTED);
  CHECK(perdura_root_get_typed(store, "bank", NULL) == NULL &&
        perdura_last_code() == PERDURA_INVALID_ARGUMENT);
  CHECK(perdura_root_get_typed(store, NULL, &account_v1_type) == NULL &&
        perdura_last_code() == PERDURA_INVALID_ARGUMENT);
  /* Known by another name, since the record does not say all members. */
  void* plain = perdura_alloc_typed(store, &plain_type, 1);
  CHECK(plain != NULL && perdura_root_set(store, "plain", plain) == 0);
  CHECK(perdura_root_get_typed(store, "plain", &account_v1_type) == NULL &&
        perdura_last_code() == PERDURA_TYPE_MISMATCH);
  CHECK(perdura_root_get_typed(store, "plain", &plain_type) == plain);
  CHECK(perdura_root_set(store, "plain", NULL) == 0 && perdura_free(store, plain) == 0);
  /* The store is as it was. */
  check_v1(store);
}

int main(void) {
  char path[] = "/tmp/perdura-members-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  close(file);

  perdura_store* store = open_store(path);
  make(store);
  CHECK(perdura_close(store) == 0);

  killed(path);
  store = open_store(path);
  refused(store);
  misuse(store);
  evolve(store);
  CHECK(perdura_root_get_typed(store, "bank", &account_v1_type) == NULL);
  CHECK(perdura_last_code() == PERDURA_TYPE_MISMATCH);
  converted_by_a_function(store);
  CHECK(perdura_close(store) == 0);
  CHECK(unlink(path) == 0);
  return 0;
}
