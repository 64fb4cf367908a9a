#!/bin/sh
# with_ceph.sh COMMAND…: a cluster is started, and stopped behind the command, which finds
# PERDURA_CEPH_CONF in its environment.
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
folder=$(mktemp -d /var/tmp/perdura-ceph-XXXXXX)
end() {
  "$here/ceph.sh" stop "$folder"
  rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' INT TERM
"$here/ceph.sh" start "$folder"
export PERDURA_CEPH_CONF="$folder/ceph.conf"
"$@"
