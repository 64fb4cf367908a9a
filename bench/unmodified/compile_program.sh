#!/bin/sh
# STEP SOURCES NAME FOLDER COMPILER FLAGS…: one of the programs that fetch_sources.sh has fetched.
# The step `compile` makes its object files, alone in FOLDER; `link` makes FOLDER/NAME of them.
set -eu

step=$1 sources=$2/$3 name=$3 folder=$4 compiler=$5
shift 5
if [ "$step" = link ]; then
  exec "$compiler" "$@" "$folder"/*.o -o "$folder/$name" -lm
fi

rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
compile() { exec "$compiler" -w -c "$@"; }
case $name in
  bzip2)
    for file in blocksort huffman crctable randtable compress decompress bzlib bzip2; do
      set -- "$@" "$sources/$file.c"
    done
    compile -D_FILE_OFFSET_BITS=64 "$@" ;;
  zstd)
    compile -DZSTD_DISABLE_ASM -DZSTD_LEGACY_SUPPORT=0 -I"$sources/lib" -I"$sources/lib/common" \
      "$@" "$sources"/lib/common/*.c "$sources"/lib/compress/*.c "$sources"/lib/decompress/*.c \
      "$sources"/lib/dictBuilder/*.c "$sources"/programs/*.c ;;
  lua)
    for file in "$sources"/src/*.c; do
      if [ "${file##*/}" != luac.c ]; then set -- "$@" "$file"; fi
    done
    compile -DLUA_USE_POSIX "$@" ;;
  sqlite)
    compile -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I"$sources" "$@" \
      "$sources/sqlite3.c" "$sources/test/speedtest1.c" ;;
  *)
    echo "there is no program '$name'" >&2
    exit 1 ;;
esac
