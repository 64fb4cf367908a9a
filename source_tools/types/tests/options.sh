#!/bin/sh
# DRIVER WORK SOURCE: the wrapper says what it adds, refuses what cannot be, and lists what has no
# type, with place and remedy.
set -eu
driver=$1 work=$2
rm -rf "$work" && mkdir -p "$work" && cd "$work"
cat >untyped.c <<'END'
#include <stdlib.h>
#include <perdura/typed.h>
struct a { void* p; };
struct packed { char c; void* p; } __attribute__((packed));
void* give(size_t n) { return malloc(n); }
struct packed* twisted(void) { return malloc(sizeof(struct packed)); }
struct a* typed(void) { return malloc(sizeof(struct a)); }
int main(void) { return give(3) == NULL || perdura_untyped_allocations() != 1; }
END
expect() {  # FILE TEXT
  grep -F -e "$2" "$1" >/dev/null || { echo "no '$2' in $1:"; cat "$1"; exit 1; }
}
"$driver" --perdura-help >help
expect help --perdura-types
"$driver" --perdura-types --perdura-show -c untyped.c >shown
expect shown perdura_types.so
if grep -q perdura_report_stores shown; then echo "stores are reported unasked"; exit 1; fi
"$driver" --perdura-types --perdura-stores --perdura-show -c untyped.c >shown
expect shown perdura_types.so
expect shown perdura_report_stores.so
"$driver" --perdura-show -c untyped.c >shown
expect shown perdura_report_stores.so
"$driver" --perdura-types untyped.c -o untyped 2>said
expect said "2 of 3 allocations have no type"
./untyped
"$driver" --perdura-types --perdura-types-list -c untyped.c 2>said
expect said "untyped.c:5:31: remark: no type for this 'malloc': cast the result"
expect said "the pointer 'p' is not aligned to 8 bytes"
"$driver" --perdura-types --perdura-types-list=list -c untyped.c
expect list "untyped.c:5:31: no type for this 'malloc'"
refused() {  # TEXT ARGUMENT…
  text=$1
  shift
  if "$driver" "$@" 2>said; then echo "$*: not refused"; exit 1; fi
  expect said "$text"
}
refused "need --perdura-types" --perdura-audit -c untyped.c
"$driver" --perdura-types --perdura-audit --perdura-show -c untyped.c >shown
expect shown "perdura_types-audit"
refused "no option --perdura-other" --perdura-other -c untyped.c
refused "need --perdura-types" --perdura-types-list -c untyped.c
refused "both replace what free does" --perdura-types -static untyped.c
refused "no file 'missing'" --perdura-types --perdura-allocators=missing -c untyped.c
cat >clang-18 <<'END'
#!/bin/sh
echo 18.1.8
END
chmod +x clang-18
PERDURA_CLANG=./clang-18 refused "fits Clang 19 alone" --perdura-types -c untyped.c

# What an allocator has to be.
refused "--perdura-types needs the compiler's steps in one process" --perdura-types -save-temps -c untyped.c
cat >no_pointer.c <<'END'
#include <stdlib.h>
#include <perdura/typed.h>
struct span { void* p; size_t n; };
PERDURA_ALLOCATOR int get(void** into, size_t n) { *into = malloc(n); return 0; }
PERDURA_ALLOCATOR struct span get_span(size_t n) { struct span s = {malloc(n), n}; return s; }
int main(void) {
  void* p;
  get(&p, 8);
  return perdura_typed_holds(p) && perdura_typed_holds(get_span(8).p) ? 0 : 1;
}
END
for level in O0 O2; do
  "$driver" --perdura-types --perdura-types-list -$level no_pointer.c -o no_pointer 2>said
  expect said "'get' is named an allocator and returns no pointer: each word of what it gives out"
  ./no_pointer
done
cat >listed.cc <<'END'
#include <cstdlib>
#include <perdura/typed.h>
struct a { void* p; };
extern "C" void* xmalloc(const void* where, std::size_t n) { return where ? malloc(n) : nullptr; }
namespace pool {
void* allocate(std::size_t n) { return malloc(n); }
}
struct arena {
  PERDURA_ALLOCATOR void* get(std::size_t n) { return malloc(n); }
  PERDURA_ALLOCATOR virtual void* get_virtual(std::size_t n) { return malloc(n); }
  PERDURA_ALLOCATOR static void* get_static(std::size_t n) { return malloc(n); }
  void* allocate(std::size_t n) { return malloc(n); }
};
struct pair { long a, b; };
PERDURA_ALLOCATOR void* from(pair which, std::size_t n) { return which.a ? malloc(n) : nullptr; }
PERDURA_ALLOCATOR void* either(int flags, int n) { return flags ? malloc(n) : nullptr; }
struct packed { char c; void* p; } __attribute__((packed));
int main() {
  arena some;
  a* const all[] = {static_cast<a*>(xmalloc(&some, sizeof(a))), static_cast<a*>(pool::allocate(sizeof(a))),
                    static_cast<a*>(some.get(sizeof(a))), static_cast<a*>(some.get_virtual(sizeof(a))),
                    static_cast<a*>(arena::get_static(sizeof(a))), static_cast<a*>(from({1, 2}, sizeof(a))),
                    static_cast<a*>(either(1, sizeof(a)))};
  for (a* each : all) if (!perdura_typed_holds(each)) return 1;
  if (!perdura_typed_holds(static_cast<packed*>(xmalloc(&some, sizeof(packed))))) return 2;
  return perdura_typed_holds(some.allocate(sizeof(a))) ? 3 : 0;
}
END
cat >tail.c <<'END'
#include <stdlib.h>
#include <perdura/typed.h>
struct a { void* p; };
PERDURA_ALLOCATOR void* get(size_t n) { return malloc(n); }
void* get_a(size_t n) { __attribute__((musttail)) return get(n); }
int main(void) { return !perdura_typed_holds(get_a(sizeof(struct a))); }
END
"$driver" --perdura-types -O1 tail.c -o tail && ./tail
printf 'xmalloc\t1 # behind a tab\npool::allocate 0\nallocate 7\n' >allocators
"$driver++" --perdura-types --perdura-types-list --perdura-allocators=allocators -O1 listed.cc -o listed 2>said
./listed
expect said "no type for what 'get' returns: it is a method; each word of it may be a pointer"
expect said "no type for what 'from' returns: it is given a structure; each word of it may be a pointer"
expect said "several arguments of 'either' may be its size: taken is 0"
expect said "'xmalloc' returns: the pointer 'p' is not aligned to 8 bytes; each word of it may be a pointer"
for wrong in "xmalloc 0" "xmalloc 7"; do
  echo "$wrong" >allocators
  refused "'xmalloc' has no integer as its argument ${wrong#* }" \
    --perdura-types --perdura-allocators=allocators -x c++ -c listed.cc
done
for wrong in "xmalloc -1" "xmalloc 1 2"; do
  echo "$wrong" >allocators
  refused "has a line that is no" --perdura-types --perdura-allocators=allocators -x c++ -c listed.cc
done

# What records cannot say.
cat >large.c <<'END'
#include <stdlib.h>
struct large { long all[1ul << 29]; void* p; };
struct large* make(void) { return malloc(sizeof(struct large)); }
struct packed { int a; void* p; int b; } __attribute__((packed));
struct in_union { union { struct packed x; long y[2]; } u; };
struct in_union* make_other(void) { return malloc(sizeof(struct in_union)); }
END
"$driver" --perdura-types --perdura-types-list -c large.c 2>said
expect said "no type for this 'malloc': its size is more than 4 GiB"
expect said "no type for this 'malloc': the pointer 'p' is not aligned to 8 bytes"

# What has no type is counted where others see it.
perdura=${driver%/compiler/*}/tools/perdura
cat >counted.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <perdura/compat/softpm.h>
void* give(size_t n) { return malloc(n); }
int main(void) {
  struct { void* p; } * root = NULL;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  for (int i = 0; i < 7; ++i) free(give(10));
  pPoint(id);
  pSync(id);
  getchar();
  return id < 0;
}
END
"$driver" --perdura-types -w counted.c -o counted 2>said
mkfifo input
PERDURA_STORE=file:$work/counted_store ./counted <input &
exec 3>input
for _ in $(seq 100); do
  "$perdura" info "file:$work/counted_store.00000001" >info.out 2>&1 || true
  if grep -F "7 allocations without a type" info.out >/dev/null; then break; fi
  sleep 0.1
done
expect info.out "7 allocations without a type, in the process that writes to it"
"$perdura" stats "file:$work/counted_store.00000001" >stats.out
expect stats.out "7 without a type"
"$perdura" info --json "file:$work/counted_store.00000001" >info.out
expect info.out '"untyped_allocations": 7'
exec 3>&-
wait
