#!/bin/sh
# BUILD CLANG: programs that report their stores are watched by Clang's sanitizers as well: these find
# what is wrong with such a program, no store goes unreported, and nothing is said of a program that
# is right. ThreadSanitizer has to watch the library too, which is built for it here.
set -eu
build=$1
clang=$2
here=$(cd "$(dirname -- "$0")" && pwd)
work=$build/compiler/tests/sanitizers
mkdir -p "$work"

compile() {  # DRIVER SANITIZER NAME
  "$1++" -std=c++20 -g1 -O1 -fsanitize="$2" -pthread "$here/$3.cc" -o "$work/$3_$2"
}
expect_found() {  # TEXT PROGRAM ARGUMENT
  if "$2" "$3" >"$work/found" 2>&1; then
    echo "'$2 $3' ends as if nothing were wrong"
    exit 1
  fi
  grep -F "$1" "$work/found" >/dev/null || {
    cat "$work/found"
    exit 1
  }
}

echo "== AddressSanitizer"
for name in containers operations library sanitized; do
  compile "$build/compiler/perdura-clang" address $name
done
for name in containers operations library; do "$work/${name}_address"; done
expect_found "heap-buffer-overflow" "$work/sanitized_address" overflow

echo "== ThreadSanitizer"
cmake -S "$here/../.." -B "$work/tsan" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1 -DNDEBUG" \
  -DCMAKE_C_COMPILER="$clang" -DCMAKE_CXX_COMPILER="$clang++" -DPERDURA_SANITIZE=thread \
  -DPERDURA_UNITY=ON -DPERDURA_COMPILER=ON -DPERDURA_INSTALL=OFF -DPERDURA_BUILD_TESTS=OFF \
  -DPERDURA_BUILD_TOOLS=OFF -DPERDURA_BUILD_EXAMPLES=OFF -DPERDURA_BUILD_APPS=OFF >"$work/tsan.log"
cmake --build "$work/tsan" --parallel "$(nproc)" \
  --target perdura perdura_compiled perdura_report_stores >"$work/tsan.log"
for name in containers operations sanitized; do
  compile "$work/tsan/compiler/perdura-clang" thread $name
done
# A child of a program with threads may begin threads of its own.
export TSAN_OPTIONS=die_after_fork=0
for name in containers operations; do "$work/${name}_thread"; done
expect_found "WARNING: ThreadSanitizer: data race" "$work/sanitized_thread" race
