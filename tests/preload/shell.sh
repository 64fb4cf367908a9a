#!/bin/bash
# What shells do with memory and descriptors: subshells, pipes, low descriptors by number, arrays.
# shellcheck disable=SC2030,SC2031 # that a subshell changes only its copy is the point
dir=$1
exec 3>"$dir/three" 4>"$dir/four" 9>"$dir/nine"
numbers=()
for ((i = 0; i < 20000; i++)); do numbers+=("number $i"); done
for round in 1 2 3 4 5; do
  (
    for ((i = 0; i < 2000; i++)); do numbers[i]="changed $i in $round"; done
    echo "${numbers[*]}" | cksum >&3
    echo "subshell $round: ${#numbers[@]}"
  )
  first=$(echo "${numbers[@]:0:5}" | tr '[:lower:]' '[:upper:]')
  echo "$first" >&4
  echo "round $round" >&9
done
exec 3>&- 4>&- 9>&-
cat "$dir/three" "$dir/four" "$dir/nine"
echo "${numbers[*]}" | cksum
bash -c 'echo "another program: $0"' "with its own store"
