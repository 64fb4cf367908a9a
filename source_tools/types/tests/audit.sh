#!/bin/sh
# DRIVER WORK SOURCE: an audit build tells each store of a pointer that no record names, once, with
# the place of the store and that where the object was made; and no other store.
set -eu
driver=$1 work=$2
here=$(cd "$(dirname -- "$0")" && pwd)
rm -rf "$work" && mkdir -p "$work" && cd "$work"
expect() {  # FILE TEXT
  grep -F -e "$2" "$1" >/dev/null || { echo "no '$2' in $1:"; cat "$1"; exit 1; }
}
cp "$here/audit.c" .
grep -n "told:" audit.c | cut -d: -f1 >wanted
for level in O0 O2; do
  "$driver" --perdura-types --perdura-audit -$level -w audit.c -o audit
  rm -rf store_* && PERDURA_STORE=file:$work/store_$level ./audit 2>said
  sed -n 's/^perdura: audit\.c:\([0-9]*\):.*/\1/p' said | sort -nu >found
  diff wanted found || { cat said; exit 1; }
  expect said "in bad: a pointer is stored to byte 8 of an object of 'node', made at audit.c:"
  expect said " in make: its record names no pointer there"
  expect said "annotate it PERDURA_MAY_POINT"
  expect said "the audit found "
done
status=0
PERDURA_AUDIT_EXIT=77 PERDURA_STORE=file:$work/store_exit ./audit 2>said || status=$?
test $status -eq 77 || { echo "ended with $status, not as PERDURA_AUDIT_EXIT says"; exit 1; }
# Without the option nothing is checked, and nothing told.
"$driver" --perdura-types -O2 -w -c audit.c -o audit.o
if nm audit.o | grep -q "U perdura_audit_pointer"; then echo "checks without an audit"; exit 1; fi
