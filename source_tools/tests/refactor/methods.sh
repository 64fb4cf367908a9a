#!/bin/sh
# shellcheck disable=SC2086 # several flags in one word
# Goal: a state of perdura::Objects gets its perdura::Methods behind its namespace, its methods
# become noexcept, and two compilers take it without a warning; a second time changes nothing; what
# cannot be is refused. Method: perdura-source refactor --methods on a state of two sources.
#
#   methods.sh PERDURA_SOURCE SOURCE_FOLDER WORK_FOLDER COMPILER...
set -eu
tool=$1 root=$2 work=$3
shift 3
fail() { echo "methods: $*" >&2; exit 1; }
flags="-std=c++20 -I$root/include"

rm -rf "$work" && mkdir -p "$work"
cd "$work"
cp "$root/.clang-format" .
cat >seats.hpp <<'END'
#pragma once

#include <cstdint>

namespace hall {

struct Seats {
  std::int32_t sold[64];
  // Sells some.
  void sell(int row, int count) { sold[row] += count; }
  int reserve(int row);
  int left(int row) const { return 100 - sold[row]; }
};

}  // namespace hall
END
cat >seats.cc <<'END'
#include "seats.hpp"

namespace hall {
int Seats::reserve(int row) { return sold[row]++; }
}  // namespace hall
END
cat >main.cc <<'END'
#include "seats.hpp"
int main() {}
END
cat >expected <<'END'
#pragma once

#include <cstdint>

#include <perdura/objects.hpp>

namespace hall {

struct Seats {
  std::int32_t sold[64];
  // Sells some.
  void sell(int row, int count) noexcept { sold[row] += count; }
  int reserve(int row) noexcept;
  int left(int row) const { return 100 - sold[row]; }
};

}  // namespace hall

template <>
struct perdura::Methods<hall::Seats>
    : perdura::MethodList<perdura::Deferrable<&hall::Seats::sell>,
                          perdura::Instant<&hall::Seats::reserve>> {};
END
"$tool" refactor --methods --class hall::Seats --in-place main.cc seats.cc -- $flags
cmp seats.hpp expected || fail "$(cat seats.hpp)"
grep -q 'int Seats::reserve(int row) noexcept {' seats.cc || fail "reserve is not noexcept"
for compiler; do
  "$compiler" $flags -Wall -Wextra -Werror -fsyntax-only main.cc seats.cc
done
[ -z "$("$tool" refactor --methods --class hall::Seats --diff main.cc seats.cc -- $flags)" ] ||
  fail "the second time changes something"

# Of attributes, without a name.
cat >said.hpp <<'END'
#include <perdura/objects.hpp>
struct Said {
  int count;
  [[perdura::instant]] void add() { ++count; }
};
END
"$tool" refactor --methods said.hpp -- $flags | grep -q 'perdura::Instant<&Said::add>' ||
  fail "what is said of a method is not written"

refused() {  # SENTENCE < STATE
  cat >refused.hpp
  cp refused.hpp before
  "$tool" refactor --methods --class S --in-place refused.hpp -- $flags 2>said && fail "takes: $1"
  grep -qF "$1" said || fail "does not say '$1': $(cat said)"
  cmp -s refused.hpp before || fail "writes what it refuses: $1"
}
refused "refused.hpp:3:8: S::add: there are several of this name" <<'END'
struct S {
  int count;
  void add() { ++count; }
  void add(int by) { count += by; }
};
END
refused "refused.hpp:2:17: S::add: the argument by is a pointer (int *)" <<'END'
struct S {
  void add(int* by) { count += *by; }
  int count;
};
END
refused "refused.hpp:2:8: S: is not trivially copyable" <<'END'
#include <string>
struct S {
  std::string text;
  void clear() { text.clear(); }
};
END
refused "refused.hpp:4:" <<'END'
struct S {
  int count;
  void add(int by) {
    if (by < 0) throw by;
    count += by;
  }
};
END
