#!/bin/sh
# How many lines made each example durable. An example and what it was in memory alone differ by the
# lines that are marked with a D, and by nothing else, but for the comment at their heads.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# added BEFORE AFTER MOST
added() {
  sed -n '/^#include/,$p' "$1" >"$folder/before"
  sed -n '/^#include/,$p' "$2" >"$folder/after"
  diff "$folder/before" "$folder/after" | grep '^> *[^ ]' >"$folder/added" || true
  if grep -vE '(// D|/\* D \*/)$' "$folder/added"; then
    echo "$2: not marked with a D, and not in $1" >&2
    exit 1
  fi
  count=$(grep -c . "$folder/added") || true
  marked=$(grep -cE '(// D|/\* D \*/)$' "$2") || true
  echo "$2: $count lines added"
  test "$count" -gt 0
  test "$count" -eq "$marked"
  test "$count" -le "$3"
}

added graph/graph_in_memory.c graph/graph.c 10
added orders/orders_in_memory.cc orders/orders.cc 4
added mpi/cannon_in_memory.cc mpi/cannon.cc 6
