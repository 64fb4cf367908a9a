#!/bin/sh
# examples.sh KEEP SOURCES
#
# The structures of examples/records, each run a process of its own: what one adds, changes and
# removes the next one finds; and few lines were added for that.
set -eu
keep=$1
"$2/records/count_added.sh"
"$2/count_added.sh"
folder=$(mktemp -d /var/tmp/perdura-examples-XXXXXX)
trap 'rm -rf "$folder"' EXIT
export PERDURA_STORE="file:$folder/kept"

fail() {
  echo "$1" >&2
  exit 1
}

for structure in array list tree hash; do
  adds=$(seq 1 500 | sed 's/.*/+&=value &/' | tr '\n' '\t')
  IFS="$(printf '\t')"
  # shellcheck disable=SC2086
  "$keep" "$structure" $adds
  erases=$(seq 1 3 500 | sed 's/^/-/' | tr '\n' '\t')
  # shellcheck disable=SC2086
  "$keep" "$structure" $erases "+2=another value" "+1000=new"
  unset IFS
  test "$("$keep" "$structure" 1 2 3 1000)" = "(none)
another value
value 3
new" || fail "$structure: a value is wrong"
  test "$("$keep" "$structure" | wc -l)" -eq 334 || fail "$structure: records are missing"
done
