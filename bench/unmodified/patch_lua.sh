#!/bin/sh
# SOURCES FOLDER: Lua of SOURCES/lua, which fetch_sources.sh has fetched, with the lines in FOLDER/lua
# that keep its state in a container. Prints how many lines these are: those that were added, or
# that replace one.
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
rm -rf "$2/lua"
mkdir -p "$2"
cp -r "$1/lua" "$2/lua"
patch -s -d "$2/lua" -p1 <"$here/lua_durable.patch"
diff -r "$1/lua" "$2/lua" | grep -c '^>'
