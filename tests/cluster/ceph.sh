#!/bin/sh
# ceph.sh start FOLDER | stop FOLDER | kill|begin DAEMON FOLDER: a Ceph cluster on loopback, for
# tests: a monitor, a manager and three OSDs, all in FOLDER, which is made. No authentication. Every
# process that it starts has a file DAEMON.pid there, and is ended by that number. FOLDER/ceph.conf
# is what clients need; the pool is called "tests". FOLDER/s3 has the lines of an environment for
# its S3 gateway, which has a bucket "tests".
#
# Daemons: mon.a, mgr.x, osd.0, osd.1, osd.2, rgw.x
set -eu

# The daemon's process goes on in the background once it has begun.
begin() {
  daemon=$1
  kind=${daemon%%.*} id=${daemon#*.}
  if test "$kind" = rgw; then
    radosgw -f -n "client.$daemon" -c "$folder/ceph.conf" >>"$folder/$daemon.out" 2>&1 &
  else
    "ceph-$kind" -f -i "$id" -c "$folder/ceph.conf" >>"$folder/$daemon.out" 2>&1 &
  fi
  echo $! >"$folder/$daemon.pid"
}

end() {  # SIGNAL DAEMON
  test -e "$folder/$2.pid" || return 0
  pid=$(cat "$folder/$2.pid")
  kill "-$1" "$pid" 2>/dev/null || true
  for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  rm -f "$folder/$2.pid"
}

# Until COMMAND… succeeds; its last words where it does not.
until_good() {
  for _ in $(seq 600); do
    if "$@" >"$folder/last.out" 2>&1; then return 0; fi
    sleep 0.1
  done
  echo "ceph.sh: '$*' does not come to be:" >&2
  cat "$folder/last.out" >&2
  return 1
}
ask() { ceph -c "$folder/ceph.conf" --connect-timeout 20 "$@"; }

start() {
  mkdir -p "$folder/mgr.x"
  # Three ports that nobody listens to now.
  # shellcheck disable=SC2046
  set -- $(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))')
  address="[v2:127.0.0.1:$1,v1:127.0.0.1:$2]" gateway=$3
  fsid=$(cat /proc/sys/kernel/random/uuid)
  cat >"$folder/ceph.conf" <<END
[global]
fsid = $fsid
mon host = $address
public network = 127.0.0.0/8
auth cluster required = none
auth service required = none
auth client required = none
run dir = $folder
admin socket = $folder/\$name.\$pid.asok
log file = $folder/\$name.log
pid file =
debug ms = 0
osd crush chooseleaf type = 0
osd pool default size = 3
osd pool default min size = 2
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd memory target = 939524096
osd objectstore = bluestore
bluestore block create = true
bluestore block size = ${CEPH_OSD_BYTES:-4294967296}
bluestore cache autotune = false
bluestore cache size = 33554432
mon osd down out interval = 600
mon data avail crit = 1
mon data avail warn = 1
mon pg warn min per osd = 0
osd heartbeat grace = 5
osd heartbeat interval = 1
osd mon heartbeat interval = 2
osd fast fail on connection refused = true
[mon.a]
mon data = $folder/mon.a
[mgr.x]
mgr data = $folder/mgr.x
[osd]
osd data = $folder/\$name
[client.rgw.x]
rgw data = $folder/rgw.x
rgw frontends = beast endpoint=127.0.0.1:$gateway
rgw enable ops log = false
ms mon client mode = crc
rgw enable usage log = false
END
  monmaptool --create --addv a "$address" --fsid "$fsid" "$folder/monmap" >/dev/null
  ceph-mon --mkfs -i a -c "$folder/ceph.conf" --monmap "$folder/monmap" >"$folder/mkfs.out" 2>&1
  begin mon.a
  until_good ask mon stat
  begin mgr.x
  for id in 0 1 2; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    ask osd new "$uuid" "$id" >/dev/null
    mkdir -p "$folder/osd.$id"
    ceph-osd --mkfs -i "$id" -c "$folder/ceph.conf" --osd-uuid "$uuid" >>"$folder/mkfs.out" 2>&1
    begin "osd.$id"
  done
  until_good sh -c "ceph -c '$folder/ceph.conf' osd stat -f json | grep -q '\"num_up_osds\":3'"
  ask osd pool create tests 8 >/dev/null 2>&1
  until_good rados -c "$folder/ceph.conf" -p tests ls
  if ! command -v radosgw >/dev/null; then return 0; fi
  mkdir -p "$folder/rgw.x"
  begin rgw.x
  until_good radosgw-admin -c "$folder/ceph.conf" user create --uid tests --display-name tests \
    --access-key tests --secret-key secret
  cat >"$folder/s3" <<END
AWS_ENDPOINT_URL=http://127.0.0.1:$gateway
AWS_ACCESS_KEY_ID=tests
AWS_SECRET_ACCESS_KEY=secret
END
  until_good curl --silent --fail --request PUT --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD' \
    --aws-sigv4 aws:amz:us-east-1:s3 --user tests:secret "http://127.0.0.1:$gateway/tests"
}

stop() {
  for file in "$folder"/*.pid; do
    if test -e "$file"; then kill -KILL "$(cat "$file")" 2>/dev/null || true; fi
  done
  for daemon in rgw.x osd.0 osd.1 osd.2 mgr.x mon.a; do end KILL "$daemon"; done
}

what=${1-}
case $what in
  start) folder=$(realpath -m -- "$2"); start ;;
  stop) folder=$(realpath -m -- "$2"); stop ;;
  kill) folder=$(realpath -m -- "$3"); end KILL "$2" ;;
  begin) folder=$(realpath -m -- "$3"); begin "$2" ;;
  *)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2 ;;
esac
