#!/bin/sh
# in_cluster.sh FOLDER COMMAND…: the command, beside the cluster that ceph.sh has started in FOLDER:
# it finds PERDURA_CEPH_CONF in its environment, and what S3 clients look for. Where FOLDER says that
# there is none, this exits with 77: skipped.
# in_cluster.sh --start FOLDER: starts one there, unless Ceph is not installed.
# in_cluster.sh --stop FOLDER
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
case $1 in
  --start)
    "$here/ceph.sh" stop "$2"
    rm -rf "$2"
    mkdir -p "$2"
    for each in ceph-mon ceph-mgr ceph-osd ceph radosgw curl; do
      if ! command -v "$each" >/dev/null; then
        echo "skipped: there is no $each; Debian has it in ceph-mon, ceph-mgr, ceph-osd," \
          "ceph-common, radosgw and curl" | tee "$2/skipped"
        exit 77
      fi
    done
    exec "$here/ceph.sh" start "$2" ;;
  --stop)
    "$here/ceph.sh" stop "$2"
    rm -rf "$2"
    exit ;;
esac
folder=$1
shift
if test -e "$folder/skipped"; then
  cat "$folder/skipped"
  exit 77
fi
export PERDURA_CEPH_CONF="$folder/ceph.conf"
# shellcheck disable=SC2046
export $(cat "$folder/s3")
exec "$@"
