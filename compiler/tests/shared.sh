#!/bin/sh
# DRIVER WORK: programs of several parts: shared libraries, and functions with names of the C
# library's.
set -eu
driver=$1
work=$2
here=$(cd "$(dirname -- "$0")" && pwd)/shared
mkdir -p "$work"
cd "$work"
for level in O0 O1 O2 Os; do
  "$driver" -$level -fPIC -shared "$here/registers.c" -o libregisters.so
  "$driver" -$level -fPIC -shared "$here/plugin.c" -o plugin.so
  "$driver++" -std=c++20 -$level "$here/program.cc" -o program -L. -Wl,-rpath,"$work" -lregisters
  ./program "$work/plugin.so"
  "$driver" -std=c99 -$level "$here/own_getline.c" "$here/own_getline_2.c" -o own_getline
  if [ "$(echo hello | ./own_getline)" != "6 hello" ]; then
    echo "-$level: a program's own getline() is taken for the C library's"
    exit 1
  fi
done
