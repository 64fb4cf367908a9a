#!/bin/sh
# BUILD CLANG: what is installed compiles programs that report, and such that have types, wherever it
# is put: by perdura-clang, by CMake's perdura_instrument() and by pkg-config. Other compilers are
# refused.
set -eu
build=$1
clang=$2
here=$(cd "$(dirname -- "$0")" && pwd)
work=$(mktemp -d "$build/compiled.XXXXXX")
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/install.log"

echo "== perdura-clang++"
"$prefix/bin/perdura-clang++" -std=c++20 -O2 "$here/installed/program.cc" -o "$work/program"
"$work/program"

echo "== perdura_instrument()"
cmake -S "$here/installed" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_C_COMPILER="$clang" -DCMAKE_CXX_COMPILER="$clang++"
cmake --build "$work/cmake"
"$work/cmake/program"
if cmake -S "$here/installed" -B "$work/other" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ >"$work/refused" 2>&1; then
  echo "g++ was not refused"
  exit 1
fi
tr -s ' \n' ' ' <"$work/refused" | grep -F "the pass fits Clang 19 alone; configure with" >/dev/null

echo "== pkg-config"
pc=$(find "$prefix" -name perdura-instrument.pc)
export PKG_CONFIG_PATH="${pc%/*}"
# shellcheck disable=SC2046 # several
"$clang++" -std=c++20 -O2 $(pkg-config --cflags perdura-instrument) "$here/installed/program.cc" \
  $(pkg-config --static --libs perdura-instrument) -o "$work/by_pkg_config"
LD_LIBRARY_PATH=${pc%/pkgconfig/*} "$work/by_pkg_config"

if [ ! -e "${pc%/*}/perdura-types.pc" ]; then exit 0; fi
echo "== types: perdura-clang, perdura_instrument(), pkg-config"
"$prefix/bin/perdura-clang" --perdura-types -O2 "$here/installed/list.c" -o "$work/list"
# shellcheck disable=SC2046 # several
"$clang" -O2 $(pkg-config --cflags perdura-types) "$here/installed/list.c" \
  $(pkg-config --static --libs perdura-types) -o "$work/list_by_pkg_config"
export PERDURA_STORE="file:$work/list.pd" LD_LIBRARY_PATH="${pc%/pkgconfig/*}"
"$work/list" 1
"$work/list_by_pkg_config" 2
"$work/cmake/list" 3
"$work/cmake/list_audit" 4
