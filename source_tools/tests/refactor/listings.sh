#!/bin/sh
# shellcheck disable=SC2086 # several flags in one word
# Goal: SIMPO's listings follow from each other by the tools: the first one with directives is the
# second one, and refactored the third one, which compiles without a warning, runs as the fourth
# one, and goes on after it was killed. What is written once is not written again. Method:
# perdura-source on examples/simpo, and two compilers.
#
#   listings.sh PERDURA_SOURCE SOURCE_FOLDER LIBRARY WORK_FOLDER COMPILER...
set -eu
tool=$1 root=$2 library=$3 work=$4
shift 4
fail() { echo "listings: $*" >&2; exit 1; }
without_head() { sed '/^#pragma once/,$!d' "$1"; }

rm -rf "$work" && mkdir -p "$work/out"
cd "$work"
cp "$root/.clang-format" .
flags="-std=c++20 -I$root/include"

# Directives, once.
cp "$root/examples/simpo/array_written.hpp" array.hpp
"$tool" classify --diff --directives array.hpp -- $flags >array.patch
cp array.hpp patched.hpp && patch -s patched.hpp array.patch
"$tool" classify --write --directives array.hpp -- $flags
cmp array.hpp patched.hpp || fail "--diff is not what --write does"
without_head array.hpp >directives
without_head "$root/examples/simpo/array_classified.txt" | cmp - directives ||
  fail "the directives are not those of the second listing"
cp array.hpp once.hpp
"$tool" classify --write --directives array.hpp -- $flags
"$tool" classify --write array.hpp -- $flags
cmp array.hpp once.hpp || fail "what has directives is marked again"

# Attributes, once, and no warnings.
cp "$root/examples/simpo/array_written.hpp" attributes.hpp
"$tool" classify --write attributes.hpp -- $flags
[ "$(grep -c 'perdura::deferrable\]\]\|perdura::instant\]\]' attributes.hpp)" = 5 ] ||
  fail "five methods have no attributes"
cp attributes.hpp once.hpp
"$tool" classify --write attributes.hpp -- $flags
cmp attributes.hpp once.hpp || fail "what has attributes is marked again"
echo '#include "attributes.hpp"' >attributes.cc
for compiler; do
  case $compiler in *clang*) more=-Wno-unknown-attributes ;; *) more= ;; esac
  "$compiler" $flags -Wall -Wextra -Werror $more -fsyntax-only attributes.cc
done

# The third listing, of directives and of attributes.
for from in array attributes; do
  "$tool" refactor $from.hpp -- $flags >out/array_refactored.hpp
  without_head out/array_refactored.hpp >third
  without_head "$root/examples/simpo/array_refactored.hpp" | cmp - third ||
    fail "what is made of $from.hpp is not the third listing"
done
[ -z "$("$tool" refactor out/array_refactored.hpp -- $flags 2>/dev/null)" ] ||
  fail "what is refactored is refactored again"

# A program that uses the first listing, rewritten with it.
cat >threads.cc <<'END'
#include <pthread.h>
#include "array.hpp"
void* work(void* array) {
  static_cast<TwoDimIntArray*>(array)->rowInc(3);
  return nullptr;
}
int main() {
  TwoDimIntArray array(1);
  TwoDimIntArray& same = array;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &work, &array) != 0) return 2;
  pthread_join(thread, nullptr);
  same.allInc();
  return array.rowSum(3) == 100 && array.rowSum(4) == 50 ? 0 : 1;
}
END
cp "$root/examples/simpo/array_written.hpp" array.hpp
"$tool" refactor --callers --in-place threads.cc -- $flags
grep -q 'pthread_create_simpo(&thread, nullptr, &work, &array, 0)' threads.cc ||
  fail "pthread_create is as it was"

# Both run.
cp "$root/examples/simpo/array_threads.cc" out
for compiler; do
  for unit in threads.cc out/array_threads.cc; do
    "$compiler" $flags -Wall -Wextra -Werror -O1 "$unit" "$library" -luring -lxxhash -lzstd \
      -pthread -o "$(basename "$unit" .cc)"
  done
  PERDURA_STORE="file:$work/threads.pd" ./threads || fail "the rewritten program counts wrong"
  rm -f array.pd
  export PERDURA_STORE="file:$work/array.pd"
  for life in 1 2 3 4; do
    ./array_threads 4 300000 >life 2>&1 &
    sleep 0.$life
    kill -9 $! 2>/dev/null || true
    wait $! 2>/dev/null || true
  done
  ./array_threads 4 300000 >life 2>&1 || fail "$(cat life)"
  grep -q '^complete' life || fail "$(cat life)"
  grep -q 'goes on at [1-9]' life || fail "the last life began anew: $(cat life)"
done
