#!/usr/bin/env bash
# loaded.sh PROGRAM LIBRARY BYTES
#
# Shows that a program loads a shared object with Perdura in it while it runs, under the settings
# that the C library has by itself, and that this takes at most so many bytes of what each thread
# has of its own: the C library has about 1,700 over for all that are loaded so.
set -euo pipefail
unset GLIBC_TUNABLES

taken=$(readelf -lW "$2" | awk '$1 == "TLS" {print $6}')
if ((taken > $3)); then
  echo "$2 takes $((taken)) bytes of each thread's own memory, more than $3"
  exit 1
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" "$folder/state.pd"
