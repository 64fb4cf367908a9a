#!/bin/sh
# FOLDER [PACKAGE…]: Debian's sources of bzip2, zstd, Lua and SQLite, or of those that are named,
# pbzip2 and memcached among them, unpacked into folders of these names, for the benchmark `unmodified`. Takes them from where this system's
# packages come from, and leaves the system's own lists of packages alone.
set -eu

folder=$(mkdir -p "$1" && cd "$1" && pwd)
if [ -e "$folder/complete" ]; then exit 0; fi
shift
packages=${*:-bzip2 libzstd lua5.4 sqlite3}

# Lists of binary packages say where there are sources as well.
rm -rf "$folder/apt"
mkdir -p "$folder/apt/parts" "$folder/apt/lists/partial" "$folder/archives"
for list in /etc/apt/sources.list.d/*.sources; do
  if [ ! -e "$list" ]; then continue; fi
  sed 's/^Types:.*/Types: deb-src/' "$list" >"$folder/apt/parts/$(basename "$list")"
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  if [ ! -e "$list" ]; then continue; fi
  sed -n 's/^deb /deb-src /p' "$list" >>"$folder/apt/parts/sources.list"
done
apt() {
  apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$folder/apt/parts" \
    -o Dir::State::lists="$folder/apt/lists" -o APT::Sandbox::User=root -qq "$@"
}
cd "$folder/archives"
apt update
# An archive of security updates may have lost what its list still names: then another version does.
for package in $packages; do
  apt source --download-only "$package" 2>/dev/null && continue
  rm -f "$package"_*
  for version in $(apt-cache -o Dir::Etc::sourcelist=/dev/null \
    -o Dir::Etc::sourceparts="$folder/apt/parts" -o Dir::State::lists="$folder/apt/lists" \
    showsrc "$package" | sed -n 's/^Version: //p'); do
    apt source --download-only "$package=$version" 2>/dev/null && continue 2
  done
  echo "the sources of $package are not to be had" >&2
  exit 1
done
unpack() {  # ARCHIVE NAME
  mkdir -p "$folder/$2"
  tar -xf "$1" -C "$folder/$2" --strip-components=1
}
for package in $packages; do
  case $package in
    bzip2) unpack bzip2_*.orig.tar.* bzip2 ;;
    pbzip2) for archive in pbzip2_*.orig.tar.*; do unpack "$archive" pbzip2; done ;;
    memcached) for archive in memcached_*.orig.tar.*; do unpack "$archive" memcached; done ;;
    lua5.4) unpack lua5.4_*.orig.tar.* lua ;;
    libzstd) for archive in libzstd_*.orig.tar.xz; do unpack "$archive" zstd; done ;;
    sqlite3)
      for archive in sqlite3_*.orig.tar.xz; do unpack "$archive" sqlite; done
      cd "$folder/sqlite"
      sh ./configure --disable-shared >/dev/null
      make sqlite3.c >/dev/null
      cd "$folder/archives"
      ;;
  esac
done
touch "$folder/complete"
