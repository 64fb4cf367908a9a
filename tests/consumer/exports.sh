#!/usr/bin/env bash
# exports.sh LIBRARY [PROGRAM…]
#
# Shows that a shared libperdura exports the API and nothing else of its own, that it has a soname,
# and that programs which were linked to it run with it. A program that is linked to it and lacks a
# symbol is not built in the first place.
set -euo pipefail

library=$1
shift

soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
if [[ $soname != libperdura*.so.[0-9]*.[0-9]* ]] && [[ $library != *perdura_shared* ]]; then
  echo "the library's soname is '$soname'"
  exit 1
fi

exported=$(nm -D --defined-only --no-demangle "$library" | awk '{print $3}' | c++filt)
inner='base|commit|format|heap|log|media|object|region|store|track'
if grep -E "perdura::($inner)::" <<<"$exported"; then
  echo "these are the library's own"
  exit 1
fi
allowed='^(perdura_|nv_|pC|po|pPoint|pSync|pExclude|pthread_sigmask|sigprocmask|pthread_create_simpo)'
allowed+='|perdura::|POBase'
if grep -vE "$allowed" <<<"$exported"; then
  echo "these are nobody's"
  exit 1
fi
for each in perdura_open perdura_container_open nv_malloc pCAlloc pos_create pocreate \
  'perdura::Store::checkpoint()' 'perdura::Container::point()' 'typeinfo for perdura::Error'; do
  if ! grep -qF "$each" <<<"$exported"; then
    echo "$each is not exported"
    exit 1
  fi
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for program in "$@"; do
  if ! readelf -d "$program" | grep -qF "[$soname]"; then
    echo "$program is not linked to $soname"
    exit 1
  fi
  (cd "$folder" && LD_LIBRARY_PATH=$(dirname "$library") "$program" "$folder/state.pd")
  rm -f "$folder"/*
done
