#!/bin/sh
# with_ceph.sh COMMAND…: a cluster is started, and stopped behind the command, which finds
# PERDURA_CEPH_CONF in its environment, and what S3 clients look for.
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
folder=$(mktemp -d /var/tmp/perdura-ceph-XXXXXX)
trap '"$here/in_cluster.sh" --stop "$folder"' EXIT
trap 'exit 1' INT TERM
"$here/in_cluster.sh" --start "$folder"
"$here/in_cluster.sh" "$folder" "$@"
