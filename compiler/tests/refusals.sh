#!/bin/sh
# What perdura-clang and a store of a program that reports by itself refuse, each with a sentence.
set -eu
driver=$1
work=$2
here=$(dirname -- "$0")
mkdir -p "$work"
cd "$work"

expect() {  # STATUS TEXT COMMAND…
  status=$1 text=$2
  shift 2
  found=0
  output=$("$@" 2>&1) || found=$?
  case $output in *"$text"*) ;; *) echo "'$*' says '$output', not '$text'"; exit 1 ;; esac
  if [ "$found" != "$status" ]; then echo "'$*' ends with $found, not $status"; exit 1; fi
}

# Another version of Clang.
printf '#!/bin/sh\necho 18.1.0\n' >clang-18
chmod +x clang-18
expect 1 "is of version 18, and the pass fits Clang 19 alone" \
  env PERDURA_CLANG="$work/clang-18" "$driver" -c "$here/refused.cc"
# A program none of which reports, and one whose store is elsewhere than reports reach.
"$driver++" -std=c++20 -O1 -c "$here/refused.cc" -o compiled.o
"$driver++" compiled.o -o compiled
expect 0 "compiled reports are of addresses from 0x400000000000 to 0x500000000000" ./compiled
${CLANG:-clang++-19} -std=c++20 -O1 -isystem "$here/../../include" -c "$here/refused.cc" -o plain.o
"$driver++" plain.o -o plain
expect 0 "no part of this program reports its stores by itself" ./plain
# A store that nobody reported, by its function and line where it is done again.
"$driver++" -std=c++20 -O2 -g "$here/unreported.cc" -o unreported
expect 0 "was not reported (in the block of" ./unreported
expect 0 "; stored to by forget(long*) (unreported.cc:5), called by main (unreported.cc:15)" ./unreported
# A part as ThreadSanitizer watches it, beside one that it does not.
cat >watched.c <<'END'
void perdura_compiled_part(const char*, unsigned);
__attribute__((constructor)) static void tell(void) { perdura_compiled_part("watched.c", 5); }
END
"$driver" -c watched.c -o watched.o
"$driver++" compiled.o watched.o -o mixed
expect 0 "some parts of this program are compiled with -fsanitize=thread and others are not" ./mixed
echo "all refused"
