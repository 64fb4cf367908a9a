#!/bin/sh
# DRIVER WORK SOURCE: what readers of docs/types.md once showed to be lost, or to end the program or
# the compiler.
set -eu
driver=$1 work=$2
here=$(cd "$(dirname -- "$0")" && pwd)
rm -rf "$work" && mkdir -p "$work" && cd "$work"
expect() {  # FILE TEXT
  grep -F -e "$2" "$1" >/dev/null || { echo "no '$2' in $1:"; cat "$1"; exit 1; }
}
killed() {  # COMMAND…: it ends by SIGKILL, which it sends itself when all was as expected
  status=0
  "$@" || status=$?
  test "$status" -eq 137 || { echo "$*: ended with $status"; exit 1; }
}
for level in O0 O2; do
  "$driver" --perdura-types -$level -w -rdynamic "$here/refuted.c" -o refuted_c
  PERDURA_STORE=file:$work/c_$level
  export PERDURA_STORE
  killed ./refuted_c make
  killed ./refuted_c check
done
for standard in c++20 c++23; do
  "$driver++" --perdura-types -std=$standard -O1 -w -rdynamic "$here/refuted.cc" -o refuted_cc
  killed ./refuted_cc make "file:$work/$standard"
  killed ./refuted_cc check "file:$work/$standard"
done
for level in O0 O2; do
  "$driver" --perdura-types -$level -w "$here/handed_on.c" -o handed_on_c
  PERDURA_STORE=file:$work/handed_on_c_$level
  killed ./handed_on_c make
  killed ./handed_on_c check
  for first in handed_on handed_on_other; do
    second=$(test $first = handed_on && echo handed_on_other || echo handed_on)
    "$driver++" --perdura-types -std=c++20 -$level -w "$here/$first.cc" "$here/$second.cc" -o handed_on
    PERDURA_STORE=file:$work/${first}_$level
    killed ./handed_on make
    killed ./handed_on check
  done
done

# A library at the place of one that was unloaded, which has another type where that had one.
cat >grows.c <<'END'
#include <stdlib.h>
struct node;
#ifdef FIRST
struct first { struct node* p; long q; };
void* grow(void* at, size_t n) { struct first* all = realloc(at, n * sizeof *all); return all; }
#else
struct other { long q; struct node* p; };
void* grow(void* at, size_t n) { struct other* all = realloc(at, n * sizeof *all); return all; }
#endif
END
cat >loads.c <<'END'
#include <dlfcn.h>
#include <perdura/compat/softpm.h>
#include <signal.h>
#include <stdlib.h>
struct node { struct node* next; long value; };
struct first { struct node* p; long q; };
struct other { long q; struct node* p; };
struct root { void* kept; };
static void* grown(const char* library, void* at, void** handle) {
  *handle = dlopen(library, RTLD_NOW);
  void* (*const grow)(void*, size_t) = (void* (*)(void*, size_t))dlsym(*handle, "grow");
  return grow(at, 2);
}
int main(void) {
  struct root* root;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  if (!root->kept) {
    void* handle;
    struct first* one = calloc(1, sizeof *one);
    free(grown("./libfirst.so", one, &handle));
    dlclose(handle);
    one = calloc(1, sizeof *one);
    struct other* const all = grown("./libother.so", one, &handle);
    struct node* const node = malloc(sizeof *node);
    node->next = NULL;
    node->value = 7;
    all[0].q = all[1].q = 0;
    all[0].p = all[1].p = node;
    root->kept = all;
    pPoint(id);
    if (pSync(id) != 0) return 1;
    raise(SIGKILL);
  }
  const struct other* const all = root->kept;
  if (!perdura_typed_holds(all[1].p) || all[1].p->value != 7) return 2;
  raise(SIGKILL);
}
END
"$driver" --perdura-types -w -O1 -DFIRST -shared -fPIC grows.c -o libfirst.so
"$driver" --perdura-types -w -O1 -shared -fPIC grows.c -o libother.so
"$driver" --perdura-types -w -O1 -include perdura/typed.h loads.c -o loads -ldl
PERDURA_STORE=file:$work/loads
killed ./loads
killed ./loads

# Two structures of one name, made in two sessions.
cat >one.c <<'END'
#include <stdlib.h>
struct item { struct item* next; long n; };
void* make_one(void) { struct item* i = malloc(sizeof *i); i->next = i; i->n = 1; return i; }
long of_one(void* p) { return p ? ((struct item*)p)->next->n : 0; }
END
cat >other.c <<'END'
#include <stdlib.h>
struct item { long n; struct item* next; long more; };
void* make_other(void) { struct item* i = malloc(sizeof *i); i->next = i; i->n = 2; return i; }
long of_other(void* p) { return p ? ((struct item*)p)->next->n : 0; }
END
cat >two.c <<'END'
#include <perdura/compat/softpm.h>
void *make_one(void), *make_other(void);
long of_one(void*), of_other(void*);
struct root { void *one, *other; };
int main(int argc, char** argv) {
  struct root* root = 0;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  if (id < 0) return 100;
  if (argc > 1 && argv[1][0] == 'o') root->one = make_one();
  if (argc > 1 && argv[1][0] == 't') root->other = make_other();
  pPoint(id);
  if (pSync(id) != 0) return 101;
  return (int)(of_one(root->one) + of_other(root->other));
}
END
"$driver" --perdura-types -O2 -w two.c one.c other.c -o two
PERDURA_STORE=file:$work/two_store
for expected in o1 t3 -3; do
  status=0
  ./two "${expected%?}" || status=$?
  test "$status" -eq "${expected#?}" || { echo "two $expected: ended with $status"; exit 1; }
done

# A file that does not compile has the compiler's errors, and nothing else.
printf 'struct B; struct A { struct B b; long v; };\nstruct A* f(void) { return __builtin_malloc(sizeof(struct A)); }\n' >bad.c
printf 'struct B; struct A { B b; long v; };\nA* f() { return new A; }\n' >bad.cc
for file in bad.c bad.cc; do
  if "$driver" --perdura-types -c $file 2>said; then echo "$file compiles"; exit 1; fi
  expect said "incomplete type"
  if grep "bug report" said >/dev/null; then cat said; exit 1; fi
done
# A precompiled header: what it has that allocates has types where it is used.
cat >header.h <<'END'
#include <perdura/typed.h>
struct node { node* next; long v; };
inline node* make_inline() { return new node; }
template <class T> T* make_template() { return new T; }
struct maker { node* make() { return static_cast<node*>(__builtin_malloc(sizeof(node))); } };
END
cat >use.cc <<'END'
int main() {
  const auto held = [](void* p) { return perdura_typed_holds(p) != 0; };
  return held(make_inline()) && held(make_template<node>()) && held(maker().make()) ? 0 : 1;
}
END
"$driver++" --perdura-types -std=c++20 -O2 -x c++-header header.h -o header.h.pch
"$driver++" --perdura-types -std=c++20 -O2 -include-pch header.h.pch use.cc -o use
./use

# A module: what it has that allocates has types, exported as well as used in another file.
cat >maker.cppm <<'END'
module;
#include <stdlib.h>
export module maker;
export struct node { node* next; long v; };
export node* make() { return new node; }
export inline node* make_inline() { return new node; }
export template <class T> T* make_template() { return static_cast<T*>(malloc(sizeof(T))); }
END
cat >imports.cc <<'END'
import maker;
extern "C" int perdura_typed_holds(const void*);
int main() {
  const auto held = [](void* p) { return perdura_typed_holds(p) != 0; };
  return held(make()) && held(make_inline()) && held(make_template<node>()) ? 0 : 1;
}
END
"$driver++" --perdura-types -std=c++20 -O2 --precompile maker.cppm -o maker.pcm
"$driver++" --perdura-types -std=c++20 -O2 -c maker.pcm -o maker.o
"$driver++" --perdura-types -std=c++20 -O2 -fmodule-file=maker=maker.pcm imports.cc maker.o -o imports
./imports

# Two files that have one inline function: a buffer to one of them, characters to the other.
cat >shared.hpp <<'END'
#include <perdura/compat/softpm.h>
struct node { node* next; long v; };
template <class T> __attribute__((noinline)) T* make_all(int n) { return new T[n]; }
char* characters();
END
cat >characters.cc <<'END'
#include "shared.hpp"
char* characters() { return make_all<char>(64); }
END
cat >buffer.cc <<'END'
#include "shared.hpp"
struct root { char* buffer; };
int main() {
  root* all = nullptr;
  const int id = pCOpen(1, sizeof *all, (void**)&all);
  if (id < 0) return 100;
  if (all->buffer != nullptr) return ((node**)all->buffer)[1]->v == 1 ? 0 : 1;
  all->buffer = make_all<char>(64);
  ((node**)all->buffer)[1] = new node{nullptr, 1};
  pPoint(id);
  return pSync(id) != 0 || characters() == nullptr ? 101 : 0;
}
END
for file in characters buffer; do
  "$driver++" --perdura-types -O1 -w -c $file.cc -o $file.o
done
"$driver++" --perdura-types characters.o buffer.o -o shared
PERDURA_STORE=file:$work/shared_store
./shared && ./shared

# The audit's end is behind that of static objects.
cat >static.cc <<'END'
#include <cstdint>
#include <cstdio>
#include <perdura/typed.h>
struct node { node* next; std::uint64_t number; };
struct says { ~says() { std::puts("the last destructor"); } };
static says last;
int main() { static says in_main; node* n = new node; n->number = reinterpret_cast<std::uint64_t>(n); }
END
"$driver++" --perdura-types --perdura-audit -O1 -w static.cc -o static
status=0
PERDURA_AUDIT_EXIT=9 ./static >said 2>&1 || status=$?
test "$status" -eq 9
test "$(grep -c "the last destructor" said)" -eq 2

if "$driver" --perdura-types --perdura-types-list="$work/none/list" -c one.c 2>said; then
  echo "a list that cannot be written is no error"
  exit 1
fi
expect said "none/list' of --perdura-types-list cannot be written"
if PERDURA_CLANG=/nonexistent "$driver" -c one.c 2>said; then exit 1; fi
expect said "PERDURA_CLANG is '/nonexistent', which is no compiler that runs"
if "$driver" --perdura-types -static-pie one.c 2>said; then exit 1; fi
expect said "--perdura-types and -static-pie both replace what free does"
cat >address.c <<'END'
#include <stdlib.h>
void* (*const kAllocate)(size_t) = malloc;
void* take(void* p) { return reallocarray(p, 2, 8); }
END
"$driver" --perdura-types --perdura-types-list -D_DEFAULT_SOURCE -c address.c 2>said
expect said "the address of 'malloc' is taken here"
expect said "no type for this 'reallocarray': write realloc(p, n * sizeof *p)"
