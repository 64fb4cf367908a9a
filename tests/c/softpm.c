/* SoftPM's interface from C, each step in a process of its own, which lies elsewhere: the paper's
 * Figure 2; pointers into the program and into libraries; what is refused. */
#define _GNU_SOURCE
#include <perdura/compat/softpm.h>

#include <dlfcn.h>
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

typedef struct list {
  struct list* next;
  int value;
} list;
PERDURA_DEFINE_TYPE(list_type, struct list, PERDURA_POINTER(struct list, next));

enum { kLinks = 1000, kMagic = 42, kTyped = 43, kPlugin = 44 };

/* --- Figure 2 */

struct c_root {
  list* l;
}* cr;

static void figure_2(void) {
  list* list_head = NULL;
  for (int i = 0; i < kLinks; ++i) {
    list* link = perdura_new(&list_type, 1);
    CHECK(link != NULL);
    link->value = i;
    link->next = list_head;
    list_head = link;
  }
  int id = pCAlloc(kMagic, sizeof(*cr), (void**)&cr);
  CHECK(id > 0);
  cr->l = list_head;
  pPoint(id);
  CHECK(pSync(id) == 0);
  CHECK(cr->l != list_head);
  cr->l = NULL; /* what no point covers is lost */
}

static void figure_2_again(void) {
  int id = pCRestore(kMagic, (void**)&cr);
  CHECK(id > 0);
  int value = kLinks;
  for (list* link = cr->l; link != NULL; link = link->next) CHECK(link->value == --value);
  CHECK(value == 0);
  while (cr->l->value != 0) {
    list* first = cr->l;
    cr->l = first->next;
    CHECK(perdura_delete(first) == 0);
  }
  pPoint(id);
  pPoint(id);
  CHECK(pSync(id) == 0);
  pCFree(id);
  id = pCRestore(kMagic, (void**)&cr);
  CHECK(id > 0 && cr->l->value == 0 && cr->l->next == NULL);
  struct cattr attributes = {.interval_ms = 5};
  CHECK(pCSetAttr(id, &attributes) == 0);
  struct cattr* read = pCGetAttr(kMagic);
  CHECK(read != NULL && read->magic == kMagic && read->interval_ms == 5 && read->version >= 2);
  CHECK(pCAlloc(kMagic, sizeof(*cr), (void**)&cr) == -PERDURA_MISUSE);
  pCFree(id);
  CHECK(pCAlloc(kMagic, sizeof(*cr), (void**)&cr) == -PERDURA_MISUSE);
  pCDelete(kMagic);
  CHECK(pCRestore(kMagic, (void**)&cr) == -PERDURA_NOT_FOUND);
  CHECK(pSync(id) == -PERDURA_NOT_FOUND);
  CHECK(pCGetAttr(kMagic) == NULL);
  CHECK(pCAlloc(kMagic, 0, (void**)&cr) == -PERDURA_INVALID_ARGUMENT);
}

/* --- an object of two containers */

enum { kFirst = 45, kSecond = 46 };

static void shared(void) {
  struct c_root* second = NULL;
  const int first_id = pCAlloc(kFirst, sizeof(*cr), (void**)&cr);
  const int second_id = pCAlloc(kSecond, sizeof(*second), (void**)&second);
  CHECK(first_id > 0 && second_id > 0);
  second->l = cr->l = perdura_new(&list_type, 1);
  cr->l->value = 6;
  pPoint(first_id);
  CHECK(second->l == cr->l);
  struct cattr attributes = {.warn_of_sharing = 1};
  CHECK(pCSetAttr(second_id, &attributes) == 0);
  pPoint(second_id);
  CHECK(pSync(first_id) == 0 && pSync(second_id) == 0);
  struct cattr* read = pCGetAttr(kSecond);
  CHECK(read != NULL && read->shared == 1 && read->warn_of_sharing == 1);
}

static void shared_again(void) {
  CHECK(pCRestore(kSecond, (void**)&cr) > 0);
  CHECK(cr->l != NULL && cr->l->value == 6);
  cr->l->value = 7; /* each has its own */
  CHECK(pCRestore(kFirst, (void**)&cr) > 0);
  CHECK(cr->l != NULL && cr->l->value == 6);
}

/* --- pointers into the program */

static int doubled(int value) { return 2 * value; }
static const char* const kNames[] = {"nobody", "somebody"};
static int table[100];

struct handler {
  int (*call)(int);
  const char* name;
  const char* const* names;
  int* number;
  FILE* file; /* null when it is restored */
  void* cache;
  struct handler* self;
};
PERDURA_DEFINE_TYPE(handler_type, struct handler, PERDURA_POINTER(struct handler, call),
                    PERDURA_POINTER(struct handler, name), PERDURA_POINTER(struct handler, names),
                    PERDURA_POINTER(struct handler, number), PERDURA_POINTER(struct handler, file),
                    PERDURA_POINTER(struct handler, cache), PERDURA_POINTER(struct handler, self));

static void typed(void) {
  struct handler* root = NULL;
  int id = pCAllocTyped(kTyped, &handler_type, (void**)&root);
  CHECK(id > 0);
  root->call = doubled;
  root->name = "a literal";
  root->names = &kNames[1];
  root->number = &table[50];
  root->file = malloc(10);
  root->cache = perdura_new(&list_type, 1);
  root->self = root;
  pExclude(id, &root->cache);
  pPoint(id);
  CHECK(pSync(id) == 0);
  CHECK(root->cache != NULL);
}

static void typed_again(void) {
  struct handler* root = NULL;
  int id = pCRestore(kTyped, (void**)&root);
  CHECK(id > 0);
  CHECK(root->call == doubled && root->call(21) == 42);
  CHECK(strcmp(root->name, "a literal") == 0);
  CHECK(root->names == &kNames[1] && root->number == &table[50]);
  CHECK(root->file == NULL && root->cache == NULL && root->self == root);
}

/* --- pointers into a library that was built again */

static void* symbol(const char* folder, const char* name) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s/plugin.so", PLUGINS, folder);
  void* plugin = dlopen(path, RTLD_NOW);
  if (plugin == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(plugin != NULL);
  return dlsym(plugin, name);
}

struct use {
  int (*call)(int);
  const char** name;
  int (*old)(int);
};
PERDURA_DEFINE_TYPE(use_type, struct use, PERDURA_POINTER(struct use, call),
                    PERDURA_POINTER(struct use, name), PERDURA_POINTER(struct use, old));

static void plugin_1(void) {
  struct use* use = NULL;
  int id = pCAllocTyped(kPlugin, &use_type, (void**)&use);
  CHECK(id > 0);
  *(void**)&use->call = symbol("1", "plugin_add");
  use->name = (const char**)symbol("1", "plugin_names") + 2;
  pPoint(id);
  CHECK(pSync(id) == 0);
}

static void check_use(const struct use* use) {
  CHECK(use->call(41) == 42);
  CHECK(strcmp(*use->name, "two") == 0);
}

static void plugin_same(void) {
  struct use* use = NULL;
  symbol("1", "plugin_add");
  CHECK(pCRestore(kPlugin, (void**)&use) > 0);
  check_use(use);
}

static void plugin_missing(void) {
  struct use* use = NULL;
  CHECK(pCRestore(kPlugin, (void**)&use) == -PERDURA_NOT_FOUND);
  CHECK(strstr(perdura_last_error(), "plugin.so") != NULL);
}

static void plugin_2(void) {
  struct use* use = NULL;
  void* add = symbol("2", "plugin_add");
  const int id = pCRestore(kPlugin, (void**)&use);
  CHECK(id > 0);
  CHECK(*(void**)&use->call == add);
  check_use(use);
  pPoint(id);
  CHECK(pSync(id) == 0);
}

static void plugin_2_again(void) {
  struct use* use = NULL;
  symbol("2", "plugin_add");
  const int id = pCRestore(kPlugin, (void**)&use);
  CHECK(id > 0);
  check_use(use);
  *(void**)&use->old = symbol("1", "plugin_old");
  pPoint(id);
  CHECK(pSync(id) == 0);
}

static void plugin_gone(void) {
  struct use* use = NULL;
  symbol("2", "plugin_add");
  CHECK(pCRestore(kPlugin, (void**)&use) == -PERDURA_NOT_FOUND);
  CHECK(strstr(perdura_last_error(), "plugin_old") != NULL);
}

/* --- steps */

static const struct step {
  const char* name;
  void (*run)(void);
} kSteps[] = {{"figure 2", figure_2},
              {"figure 2 again", figure_2_again},
              {"shared", shared},
              {"shared again", shared_again},
              {"typed", typed},
              {"typed again", typed_again},
              {"typed once more", typed_again},
              {"plugin 1", plugin_1},
              {"plugin same", plugin_same},
              {"plugin missing", plugin_missing},
              {"plugin 2", plugin_2},
              {"plugin 2 again", plugin_2_again},
              {"plugin gone", plugin_gone}};

int main(int argc, char** argv) {
  if (argc == 2) {
    for (size_t i = 0; i < sizeof kSteps / sizeof *kSteps; ++i)
      if (strcmp(argv[1], kSteps[i].name) == 0) {
        kSteps[i].run();
        _exit(0); /* no destructors: as after a crash */
      }
    return 2;
  }
  char folder[] = "/var/tmp/perdura-softpm-XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  char uri[200];
  snprintf(uri, sizeof uri, "file:%s/store", folder);
  setenv("PERDURA_STORE", uri, 1);
  int failed = 0;
  for (size_t i = 0; i < sizeof kSteps / sizeof *kSteps && !failed; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", argv[0], kSteps[i].name, (char*)NULL);
      _exit(3);
    }
    int status = 0;
    failed = waitpid(child, &status, 0) != child || status != 0;
    if (failed) fprintf(stderr, "step '%s' ended with status %x\n", kSteps[i].name, status);
  }
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command) != 0) failed = 1;
  return failed;
}
