#!/bin/sh
# Parts of a program that do not report are named; where there is none, kAutomatic takes reports.
set -eu
driver=$1
work=$2
here=$(dirname -- "$0")
rm -rf "$work"
mkdir -p "$work/other"
cd "$work"

expect() {  # TEXT COMMAND…: each line of what it says, in order
  text=$1
  shift
  output=$("$@" 2>&1)
  case $output in $text) ;; *) echo "'$*' says '$output', not '$text'"; exit 1 ;; esac
}
expect_pages() {  # COMMAND…
  output=$("$@" 2>/dev/null)
  case $output in userfault | sigbus | protect) ;; *) echo "'$*' takes '$output'"; exit 1 ;; esac
}
plain() { "${CLANG:-clang-19}" -O1 "$@"; }

printf 'void plain_part(int *to) { *to = 1; }\n' >plain.c
printf 'void other_part(int *to) { *to = 1; }\n' >other/parts.cc  # named as one that reports
"$driver++" -std=c++20 -O1 -c "$here/parts.cc" -o parts.o
"$driver" -O1 -c plain.c -o reporting.o
plain -c plain.c -o plain.o
plain -x c -c other/parts.cc -o other.o

# All of it reports, or all that is not the system's.
"$driver++" parts.o reporting.o -o whole
expect compiled ./whole
expect compiled ./whole tracking=compiled
expect_pages ./whole aliases=4

# A part that does not, and two of the same name.
"$driver++" parts.o plain.o -o mixed
expect_pages ./mixed
expect "*report none: plain.c; what they store*perdura_trusted_part(\"plain.c\")*compiled" \
  ./mixed tracking=compiled
expect compiled ./mixed part=trusted
expect compiled ./mixed tracking=compiled part=trusted
"$driver++" parts.o other.o -o named_alike
expect_pages ./named_alike
expect "*report none: parts.cc;*" ./named_alike tracking=compiled

# Nothing is known of a program without symbols, or whose symbols lack parts that report, as those
# of one that is optimized as a whole: pages, and no part can be named.
strip -o stripped whole
objcopy --strip-symbol=parts.cc whole lacking
for program in stripped lacking; do
  expect_pages ./$program
  expect compiled ./$program tracking=compiled
done

# Libraries of the program's: none of which reports, part of which does, and all.
plain -shared -fPIC plain.c -o libplain.so
"$driver" -O1 -shared -fPIC plain.c -o libreporting.so
"$driver" -O1 -fPIC -c plain.c -o reporting_pic.o
plain -fPIC -x c -c other/parts.cc -o other_pic.o
"$driver" -shared reporting_pic.o other_pic.o -o libmixed.so
expect_pages ./whole library=./libplain.so
expect "*report none: */libplain.so;*compiled" ./whole library="$work/libplain.so" tracking=compiled
expect "*report none: parts.cc;*" ./whole library="$work/libmixed.so" tracking=compiled
expect compiled ./whole library="$work/libreporting.so"
echo "all parts are told apart"
