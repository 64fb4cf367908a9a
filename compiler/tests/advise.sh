#!/bin/sh
# DRIVER COMMAND LIBRARY WORK: programs under libperdura_malloc.so that are compiled to report. Each
# store is counted once, and `perdura advise` predicts what that costs; with checkpoints the store
# under the heap has all of them. A program that reports nothing is told so.
set -eu
driver=$1
command=$2
library=$3
work=$4
here=$(cd "$(dirname -- "$0")" && pwd)/advise
mkdir -p "$work"
cd "$work"
stores=50000000
fail() {
  echo "$*" >&2
  exit 1
}
"$driver" -O2 "$here/counted.c" -Wl,-z,dynamic-undefined-weak -o counted
"${CC:-cc}" -O2 -I"$here/../../../include" "$here/counted.c" -Wl,-z,dynamic-undefined-weak -o plain

"$command" advise --library "$library" --medium emu --json advice.json -- ./counted $stores >output ||
  fail "$(cat output)"
grep -q "^$stores\$" output || fail "the program counts otherwise: $(cat output)"
python3 - $stores <<'END'
import json, sys
stores = int(sys.argv[1])
advice = json.load(open("advice.json"))
# What the C library does beside that is a few hundred.
assert stores <= advice["reports"] <= stores * 1.001 + 10000, advice["reports"]
way, = [each for each in advice["ways"] if each["tracking"] == "compiled"]
assert way["predictions"], way
for each in way["predictions"]:
    assert each["slowdown"] > 1 and each["faults"] > 0, each
END

LD_PRELOAD=$library PERDURA_TRACKING=compiled PERDURA_CHECKPOINT_MS=1 \
  PERDURA_STATISTICS=statistics.json ./counted $stores >output 2>messages
grep -q "^$stores\$" output || fail "the program counts otherwise: $(cat output messages)"
[ ! -s messages ] || fail "$(cat messages)"
python3 - <<'END'
import json
statistics = json.load(open("statistics.json"))
assert statistics["tracking"] == "compiled", statistics
# A word of each page at least, of which the first checkpoint after they were stored to has all.
assert statistics["checkpoints"] >= 3, statistics
assert statistics["changed_bytes"] >= (1 << 17) * 8, statistics
END

LD_PRELOAD=$library PERDURA_TRACKING=compiled ./plain 1000 >output 2>messages
grep -q "no part of this program reports" messages || fail "nothing is said: $(cat messages)"
"$command" advise --library "$library" --medium emu --json advice.json -- ./plain $stores >output
grep -q "compile it with perdura-clang" output || fail "$(cat output)"
