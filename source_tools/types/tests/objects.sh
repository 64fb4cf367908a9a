#!/bin/sh
# DRIVER WORK SOURCE: what programs allocate in each way is there after a kill, at several levels of
# optimization.
set -eu
driver=$1 work=$2
here=$(cd "$(dirname -- "$0")" && pwd)
rm -rf "$work" && mkdir -p "$work" && cd "$work"

killed() {  # COMMAND…: it ends by SIGKILL, which it sends itself when all was as expected
  status=0
  "$@" || status=$?
  test "$status" -eq 137 || { echo "$*: ended with $status"; exit 1; }
}
for level in O0 O2 Os; do
  "$driver" --perdura-types -$level -rdynamic "$here/objects.c" -o objects_c 2>remarks
  grep -q "perdura: 2 of .* allocations have no type" remarks
  PERDURA_STORE=file:$work/c_$level
  export PERDURA_STORE
  killed ./objects_c make
  killed ./objects_c check
done
# A program with another layout of a type is refused when it opens the container, not later.
"$driver" --perdura-types -DCHANGED -w -O1 -rdynamic "$here/objects.c" -o changed 2>remarks
if ./changed check 2>said; then echo "another layout is not refused"; exit 1; fi
grep "the type 'item' has another layout than in" said >/dev/null || { cat said; exit 1; }
for level in O1 O2; do
  "$driver++" --perdura-types -std=c++20 -$level -rdynamic "$here/objects.cc" -o objects_cc
  killed ./objects_cc make "file:$work/cc_$level"
  killed ./objects_cc check "file:$work/cc_$level"
done
# With each way of keeping a container, and moved to another address.
for way in remap remap_background copies protect region; do
  case $way in copies) medium="emu" ;; *) medium="file" ;; esac
  killed ./objects_cc make "$medium:$work/way_$way" $way
  killed ./objects_cc check "$medium:$work/way_$way" $way
done
killed ./objects_cc make "file:$work/elsewhere"
killed ./objects_cc check "file:$work/elsewhere" elsewhere
# And where the compiler reports stores besides.
"$driver++" --perdura-types --perdura-stores -std=c++20 -O2 -rdynamic "$here/objects.cc" -o both_cc
killed ./both_cc make "file:$work/both"
killed ./both_cc check "file:$work/both"
# With a library that is loaded at run time, and with optimization when the program is linked.
for flags in "-O0" "-O2" "-O2 -flto"; do
  # shellcheck disable=SC2086 # several
  "$driver" --perdura-types $flags -fPIC -shared "$here/item_library.c" -o item_library.so 2>remarks
  # shellcheck disable=SC2086 # several
  "$driver" --perdura-types $flags -rdynamic "$here/libraries.c" -ldl -o libraries 2>remarks
  rm -rf libraries_store* && PERDURA_STORE=file:$work/libraries_store
  killed ./libraries ./item_library.so make
  killed ./libraries ./item_library.so check
done
