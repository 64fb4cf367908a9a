#!/bin/sh
# DRIVER WORK SOURCE: Debian's Lua with at most 20 added lines keeps its whole state in a container.
# A script that changes values of all kinds takes a checkpoint a round, and prints the round and a
# sum of the state when that is durable. It is killed 20 times at random moments; every other time
# it then finds the place of its container taken, and has its state at another address. Each run
# goes on with the last round that was printed or with the one after it, all sums are those that
# plain Lua prints in one run, and so is the end. PERDURA_SEED repeats the moments.
set -eu
driver=$1 work=$2 source=$3
here=$source/source_tools/types/tests programs=$source/bench/unmodified
mkdir -p "$work" && cd "$work"
sh "$programs/fetch_sources.sh" "$work/sources" lua5.4
added=$(sh "$programs/patch_lua.sh" sources patched)
echo "$added lines added"
test "$added" -le 20

eval "set -- $("$driver" --perdura-show -c none.c)"
clang=$1
built() {  # SOURCES FOLDER COMPILER FLAGS…
  sources=$1 folder=$2
  shift 2
  for step in compile link; do
    sh "$programs/compile_program.sh" $step "$work/$sources" lua "$work/$folder" "$@" -O2
  done
}
built sources plain "$clang"
built patched durable "$driver" --perdura-types "--perdura-allocators=$programs/lua_allocators"
"$clang" -shared -fPIC "$here/take_address.c" -o take_address.so

plain/lua "$here/lua_state.lua" >expected 2>/dev/null

rm -rf store rounds && mkdir store && : >rounds
LUA_STATE=file:$work/store/lua.pd
export LUA_STATE
seed=${PERDURA_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "PERDURA_SEED=$seed"
moments=$(awk -v seed="$seed" \
  'BEGIN { srand(seed); for (i = 0; i < 40; ++i) printf "%.3f ", 0.02 + rand() * rand() * 0.4 }')
fail() {
  echo "$*"
  exit 1
}
last() { tail -n 1 rounds | cut -f 2; }

# What a run printed, but for a line that it was killed in, follows on what was printed before.
joined() {
  sed '$!d' out | grep -q . || return 0
  if [ -n "$(tail -c 1 out)" ]; then sed -i '$d' out; fi
  [ -s out ] || return 0
  first=$(head -n 1 out | cut -f 2)
  known=$(last)
  if [ "$first" = "${known:-0}" ]; then
    test "$(head -n 1 out)" = "$(tail -n 1 rounds)" || fail "round $first has another state"
    sed -i 1d out
  elif [ "$first" != $((${known:-0} + 1)) ]; then
    fail "after round ${known:-0} was printed a run went on with $first"
  fi
  cat out >>rounds
}
kills=0 moved=0 at=
for moment in $moments; do
  preload='' taken=''
  if [ $((kills % 2)) -eq 1 ]; then preload=$work/take_address.so taken=$at; fi
  status=0
  timeout -s KILL "$moment" env LD_PRELOAD="$preload" TAKEN="$taken" \
    durable/lua "$here/lua_state.lua" >out 2>err || status=$?
  joined
  if grep -q '^finished' rounds; then  # on a fast machine: once more from the beginning
    cmp expected rounds
    rm -rf store && mkdir store && : >rounds
    if [ $status -eq 0 ]; then continue; fi
  fi
  test $status -eq 137 || fail "a run ended with $status: $(cat err)"
  now=$(grep '^0x' err | head -n 1)
  if [ -n "$taken" ] && [ -n "$now" ] && [ "$now" != "$at" ]; then moved=$((moved + 1)); fi
  if [ -n "$now" ]; then at=$now; fi
  kills=$((kills + 1))
  if [ $kills -eq 20 ]; then break; fi
done
echo "$kills kills; the last after round $(last) of $(tail -n 1 expected | cut -f 2);" \
  "$moved times at another address"
test $kills -eq 20
test $moved -gt 0
durable/lua "$here/lua_state.lua" >out 2>err || fail "the last run: $(cat err)"
joined
cmp expected rounds
