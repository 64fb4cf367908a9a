#!/bin/sh
# DRIVER WORK: SQLite from Debian's sources, with its heap in a store and each store reported by the
# pass, survives 25 kills, or 500 with PERDURA_CAMPAIGNS=whole.
set -eu
driver=$1
work=$2
kills=25
if [ "${PERDURA_CAMPAIGNS-}" = whole ]; then kills=500; fi
here=$(cd "$(dirname -- "$0")" && pwd)
"$here/../../bench/unmodified/fetch_sources.sh" "$work/sources" sqlite3
cd "$work"
"$driver" -O2 -w -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_TEMP_STORE=3 \
  -DSQLITE_DEFAULT_MEMSTATUS=0 -c sources/sqlite/sqlite3.c -o sqlite3.o
"$driver++" -std=c++20 -O1 -Wall -Wextra -Werror -no-pie -I"$here" -isystem sources/sqlite \
  "$here/sqlite/kills.cc" sqlite3.o -o kills
./kills "$kills"
