/* Goal: a C program keeps its objects by perdura/compat/fgck.h as the header says: a checkpoint of
 * all, one of one object, what was not checkpointed, names, the default store, and every misuse an
 * error code and a sentence.
 * Method: runs itself again and again as further processes, since a process has one heap. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <perdura/compat/fgck.h>

struct pair {
  long a;
  struct pair* other;
};

static void check_error(int code, int expected, const char* sentence) {
  if (code != -expected || perdura_last_code() != expected ||
      strstr(perdura_last_error(), sentence) == NULL) {
    fprintf(stderr, "got %d \"%s\", expected %d \"%s\"\n", code, perdura_last_error(), -expected,
            sentence);
    exit(1);
  }
}

static void check_null(const void* object, int expected, const char* sentence) {
  assert(object == NULL);
  check_error(-perdura_last_code(), expected, sentence);
}

static void first(void) {
  check_null(nv_find("x"), PERDURA_NOT_FOUND, "no object is called 'x'");
  struct pair* x = nv_malloc(sizeof *x, "x");
  struct pair* y = nv_malloc(sizeof *y, "y");
  assert(x != NULL && y != NULL && nv_find("x") == x && nv_find("y") == y);
  *x = (struct pair){1, y};
  *y = (struct pair){1, x};
  assert(nv_ckall() == 0);
  x->a = 2;
  y->a = 2;
  struct pair* z = nv_malloc(sizeof *z, "z");
  *z = (struct pair){3, x};
  assert(nv_ckone("z") == 0);
  assert(nv_malloc(100, "lost") != NULL);
}

/* As the first run left it, at the same addresses. */
static void second(void) {
  struct pair* x = nv_find("x");
  struct pair* y = nv_find("y");
  struct pair* z = nv_find("z");
  assert(x != NULL && y != NULL && z != NULL);
  assert(x->a == 1 && x->other == y && y->a == 1 && y->other == x);
  assert(z->a == 3 && z->other == x);
  check_null(nv_find("lost"), PERDURA_NOT_FOUND, "no object is called 'lost'");
  x->a = 5;
  y->a = 5;
  assert(nv_ckone("y") == 0);
  y->a = 6;
}

static void third(void) {
  struct pair* x = nv_find("x");
  struct pair* y = nv_find("y");
  assert(x->a == 1 && y->a == 5 && y->other == x);
  assert(nv_free(y) == 0);
  check_null(nv_find("y"), PERDURA_NOT_FOUND, "'y'");
  assert(nv_ckall() == 0);
}

static void misuse(void) {
  char name[300];
  memset(name, 'n', sizeof name);
  name[255] = 0;
  void* longest = nv_malloc(10, name);
  assert(longest != NULL && nv_find(name) == longest && nv_ckone(name) == 0);
  name[255] = 'n';
  name[256] = 0;
  check_null(nv_malloc(10, name), PERDURA_INVALID_ARGUMENT, "1 to 255 bytes");
  check_null(nv_malloc(10, ""), PERDURA_INVALID_ARGUMENT, "1 to 255 bytes");
  check_null(nv_malloc(10, "x"), PERDURA_MISUSE, "an object is called 'x' already");
  check_null(nv_malloc((size_t)1 << 60, NULL), PERDURA_NO_SPACE, "larger than the region");
  check_null(nv_malloc((size_t)1 << 60, "huge"), PERDURA_NO_SPACE, "larger than the region");
  check_null(nv_find("huge"), PERDURA_NOT_FOUND, "no object is called 'huge'");
  check_error(nv_ckone("nobody"), PERDURA_NOT_FOUND, "'nobody'");
  check_error(nv_ckone(NULL), PERDURA_INVALID_ARGUMENT, "not NULL");
  check_null(nv_find(NULL), PERDURA_INVALID_ARGUMENT, "not NULL");
  char* object = nv_malloc(0, NULL);
  assert(object != NULL);
  check_error(nv_free(object + 1), PERDURA_MISUSE, "inside a block");
  check_error(nv_free(&name), PERDURA_MISUSE, "not a block of this store");
  assert(nv_free(object) == 0);
  check_error(nv_free(object), PERDURA_MISUSE, "freed before");
  assert(nv_free(NULL) == 0);
  void* x = nv_find("x");
  assert(nv_free(x) == 0);
  check_error(nv_free(x), PERDURA_MISUSE, "freed before");
  x = nv_malloc(sizeof(struct pair), "x");
  assert(x != NULL);
  check_error(nv_ckone("x"), PERDURA_MISUSE, "take a checkpoint of everything");
}

/* A larger object begins where one of the same name did, and reaches over another one. */
enum { kUnit = 64 * 1024 };

static void larger(void) {
  char* a = nv_malloc(kUnit, "a");
  char* b = nv_malloc(kUnit, "b");
  assert(a != NULL && b == a + kUnit);
  memset(a, 'a', kUnit);
  memset(b, 'b', kUnit);
  assert(nv_ckall() == 0);
  assert(nv_free(a) == 0 && nv_free(b) == 0);
  char* both = nv_malloc(2 * kUnit, "a");
  assert(both == a);
  memset(both, 'x', 2 * kUnit);
  check_error(nv_ckone("a"), PERDURA_MISUSE, "another object's");
}

static void both_are_there(void) {
  const char* a = nv_find("a");
  const char* b = nv_find("b");
  assert(a != NULL && b == a + kUnit);
  for (int i = 0; i < kUnit; ++i) assert(a[i] == 'a' && b[i] == 'b');
}

/* One thread frees named objects; another one has unnamed objects of their size, in their places as
 * soon as they are free, and frees them. */
enum { kHanded = 300 };
static void* _Atomic handed = NULL;
static atomic_int freed = 0;

static void* free_named(void* unused) {
  while (atomic_load(&freed) < kHanded) {
    void* object = atomic_exchange(&handed, NULL);
    if (object == NULL) {
      sched_yield();
      continue;
    }
    assert(nv_free(object) == 0);
    atomic_fetch_add(&freed, 1);
  }
  return unused;
}

static void two_threads(void) {
  pthread_t thread;
  assert(pthread_create(&thread, NULL, free_named, NULL) == 0);
  for (int i = 0; i < kHanded; ++i) {
    void* object = nv_malloc(64, "handed over");
    assert(object != NULL);
    check_error(nv_free((char*)object + 16), PERDURA_MISUSE, "inside a block");
    atomic_store(&handed, object);
    while (atomic_load(&freed) == i) assert(nv_free(nv_malloc(64, NULL)) == 0);
  }
  assert(pthread_join(thread, NULL) == 0);
}

static void bad_store(void) { check_null(nv_malloc(10, NULL), PERDURA_FOREIGN, "not a Perdura"); }
static void bad_aliases(void) {
  check_null(nv_malloc(10, NULL), PERDURA_INVALID_ARGUMENT, "PERDURA_ALIASES is a power of two");
}

/* A run of its own that ends without a word to the store. */
static void run(void (*part)(void)) {
  fflush(stdout);
  const pid_t child = fork();
  assert(child >= 0);
  if (child == 0) {
    part();
    _exit(0);
  }
  int status = 0;
  assert(waitpid(child, &status, 0) == child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "a run ended with status %x\n", status);
    exit(1);
  }
}

static void all(void) {
  run(first);
  run(second);
  run(third);
  run(misuse);
  run(larger);
  run(both_are_there);
  run(two_threads);
}

int main(void) {
  char folder[] = "/var/tmp/perdura-fgck-XXXXXX";
  assert(mkdtemp(folder) != NULL);
  char path[200];
  snprintf(path, sizeof path, "emu:%s/named.pd", folder);
  setenv("PERDURA_STORE", path, 1);
  all();
  snprintf(path, sizeof path, "file:%s/file.pd", folder);
  setenv("PERDURA_STORE", path, 1);
  setenv("PERDURA_ALIASES", "8", 1);
  all();
  /* The default: named after the program and the user. */
  unsetenv("PERDURA_STORE");
  unsetenv("PERDURA_ALIASES");
  setenv("XDG_STATE_HOME", folder, 1);
  all();
  snprintf(path, sizeof path, "ls %s/perdura/c_fgck-*-%u.pd >/dev/null", folder, getuid());
  assert(system(path) == 0);

  snprintf(path, sizeof path, "%s/foreign", folder);
  const int fd = open(path, O_CREAT | O_WRONLY, 0600);
  for (int i = 0; i < 2000; ++i) assert(write(fd, "not a store ", 12) == 12);
  close(fd);
  setenv("PERDURA_STORE", path, 1);
  run(bad_store);
  snprintf(path, sizeof path, "%s/other.pd", folder);
  setenv("PERDURA_STORE", path, 1);
  setenv("PERDURA_ALIASES", "2x", 1);
  run(bad_aliases);
  snprintf(path, sizeof path, "rm -r %s", folder);
  return system(path);
}
