#!/bin/sh
# DRIVER WORK SOURCE: programs of others, from Debian's sources, unmodified, do with types what they
# do without: SQLite's load, a script of Lua, zstd and pbzip2 there and back. Audit builds compile
# as well, and so do memcached's sources.
set -eu
driver=$1 work=$2 source=$3
unmodified=$source/bench/unmodified
rm -rf "$work" && mkdir -p "$work" && cd "$work"
"$unmodified/fetch_sources.sh" "$work/sources" sqlite3 lua5.4 libzstd pbzip2 memcached
sources=$work/sources
same() { cmp "$1" "$2" || { echo "$3: not the same with types"; exit 1; }; }

for name in sqlite lua zstd; do
  allocators=$unmodified/${name}_allocators
  [ -e "$allocators" ] || : >"${allocators=$work/none}"
  for step in compile link; do
    "$unmodified/compile_program.sh" $step "$sources" $name "$work/$name" "$driver" \
      --perdura-types --perdura-allocators="$allocators" -O1 2>>remarks
  done
done
"$driver++" --perdura-types -std=gnu++98 -w -O1 -I"$sources/pbzip2" "$sources/pbzip2/pbzip2.cpp" \
  "$sources/pbzip2/BZ2StreamScanner.cpp" "$sources/pbzip2/ErrorContext.cpp" -lbz2 -pthread \
  -DUSE_STACKSIZE_CUSTOMIZATION -o pbzip2

./sqlite/sqlite --size 3 "$work/speed.db" >/dev/null
test "$(sqlite3 "$work/speed.db" 'PRAGMA integrity_check')" = ok
./lua/lua "$unmodified/trees.lua" 8 >lua.out
test -s lua.out
cat "$sources"/lua/src/*.c "$sources"/zstd/lib/compress/*.c >text
./zstd/zstd -q -9 -T2 text -o text.zst && ./zstd/zstd -q -d text.zst -o text.back
same text text.back zstd
./pbzip2 -k -p3 text && ./pbzip2 -d -c text.bz2 >text.back
same text text.back pbzip2

# The compiler alone.
cd "$sources/memcached"
printf '#define HAVE_CONFIG_H 1\n#include <stdbool.h>\n#define ENDIAN_LITTLE 1\n#define VERSION "0"\n#define PACKAGE "memcached"\n#define PACKAGE_STRING "memcached"\n' >config.h
for file in assoc slabs items hash murmur3_hash jenkins_hash cache util bipbuffer; do
  "$driver" --perdura-types --perdura-audit -include stdbool.h -D_GNU_SOURCE -DNDEBUG -w -O1 -c \
    $file.c -o "$work/$file.o" 2>>"$work/remarks"
done
cd "$work"
"$driver" --perdura-types --perdura-audit -w -O1 -c -DLUA_USE_POSIX "$sources"/lua/src/l*.c 2>>remarks
"$driver++" --perdura-types --perdura-audit -std=gnu++98 -w -O1 -c -I"$sources/pbzip2" \
  "$sources/pbzip2/BZ2StreamScanner.cpp" 2>>remarks
