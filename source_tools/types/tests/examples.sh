#!/bin/sh
# DRIVER WORK SOURCE: the structures of examples/containers, which say nothing of Perdura: what
# one run of a process adds, changes and removes the next one finds.
set -eu
driver=$1 work=$2 source=$3
examples=$source/examples/containers
rm -rf "$work" && mkdir -p "$work" && cd "$work"
test "$(grep -c '/\* added \*/' "$examples/keep.c")" -le 3
for structure in array list tree hash; do
  if grep -i perdura "$examples/$structure.c"; then echo "$structure.c is modified"; exit 1; fi
done
"$driver" --perdura-types -std=c11 -O2 -Wall -Wextra -Werror "$examples"/*.c -o keep
sed "s,\"\$2/.*count_added.sh\",true," "$source/tests/examples.sh" >run.sh
sh run.sh ./keep "$source/examples"
