#!/bin/sh
# The tools over programs of others, from Debian's sources: PERDURA-SOURCE FETCH-SCRIPT WORK. None
# may crash, and each source is judged.
set -eu
tool=$1
fetch=$2
work=$3
"$fetch" "$work/sources" sqlite3 lua5.4 libzstd pbzip2 memcached
cd "$work/sources"

judged() {  # NAME LEAST FLAGS… -- FILE…
  name=$1 least=$2
  shift 2
  flags=
  while [ "$1" != -- ]; do flags="$flags $1" && shift; done
  shift
  # shellcheck disable=SC2086 # several
  "$tool" classify --functions "$@" --save "$work/$name.verdicts" --html "$work/$name.html" -- \
    $flags >/dev/null
  count=$(grep -c . "$work/$name.verdicts")
  echo "$name: $count functions, $(grep -c '^deferrable' "$work/$name.verdicts") deferrable"
  test "$count" -ge "$least"
}

judged sqlite 2000 -- sqlite/sqlite3.c
judged lua 900 -Ilua/src -- lua/src/*.c
judged zstd 900 -Izstd/lib -Izstd/lib/common -- zstd/lib/common/*.c zstd/lib/compress/*.c \
  zstd/lib/decompress/*.c
judged pbzip2 30 -std=gnu++98 -Ipbzip2 -- pbzip2/pbzip2.cpp pbzip2/BZ2StreamScanner.cpp
printf '#define HAVE_CONFIG_H 1\n#include <stdbool.h>\n#define ENDIAN_LITTLE 1\n#define VERSION "0"\n#define PACKAGE "memcached"\n#define PACKAGE_STRING "memcached"\n' >memcached/config.h
judged memcached 150 -include stdbool.h -D_GNU_SOURCE -DNDEBUG -Imemcached -- memcached/assoc.c memcached/slabs.c \
  memcached/items.c memcached/hash.c memcached/murmur3_hash.c memcached/jenkins_hash.c \
  memcached/cache.c memcached/util.c memcached/bipbuffer.c
