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
