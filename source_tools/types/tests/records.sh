#!/bin/sh
# DRIVER WORK SOURCE: the records of types of many shapes, in C and C++, are as somebody would write
# them; and the same input makes the same object file.
set -eu
driver=$1 work=$2
here=$(cd "$(dirname -- "$0")" && pwd)
rm -rf "$work" && mkdir -p "$work" && cd "$work"
"$driver" --perdura-types -O1 -Wall -Wextra -Werror "$here/records.c" -o records_c
./records_c
"$driver++" --perdura-types -std=c++20 -O1 -Wall -Wextra -Werror "$here/records.cc" -o records_cc
./records_cc
for time in first second; do
  "$driver" --perdura-types -O2 -c "$here/objects.c" -o "$time.o" 2>/dev/null
  "$driver++" --perdura-types -std=c++20 -O2 -c "$here/objects.cc" -o "$time.cc.o"
done
cmp first.o second.o
cmp first.cc.o second.cc.o
