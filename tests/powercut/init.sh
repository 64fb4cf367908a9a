#!/bin/busybox sh
# shellcheck shell=dash
#
# The virtual machine's first process. Its settings come from the kernel's command line:
# MODULES, DEVICE, FILESYSTEM, FORMAT (1: the disk is new), and those that guest.cc reads.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
echo 1 >/proc/sys/vm/overcommit_memory

for module in $(echo "$MODULES" | tr , ' '); do
  modprobe "$module" || echo "init: no module $module"
done

# A driver may still look at its device when modprobe returns.
wait_for_disk() {
  local tries=600
  until [ -b "/dev/$DEVICE" ] || [ $tries = 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
  done
}

# A new NVDIMM is a raw namespace, which cannot do DAX. This makes it fsdax; the info block it
# writes tells later boots.
make_fsdax() {
  local nd=/sys/bus/nd/devices pfn
  pfn=$(cat $nd/region0/pfn_seed)
  echo namespace0.0 >/sys/bus/nd/drivers/nd_pmem/unbind
  cat /proc/sys/kernel/random/uuid >"$nd/$pfn/uuid"
  echo 2097152 >"$nd/$pfn/align"
  echo ram >"$nd/$pfn/mode"
  echo namespace0.0 >"$nd/$pfn/namespace"
  echo "$pfn" >/sys/bus/nd/drivers/nd_pmem/bind
}

wait_for_disk
if [ "$FORMAT" = 1 ]; then
  case $DEVICE in pmem*) make_fsdax && wait_for_disk ;; esac
  case $FILESYSTEM in
    ext4) mkfs.ext4 -q -b 4096 "/dev/$DEVICE" ;;
    xfs) mkfs.xfs -q -f -s size=4096 -m reflink=0 "/dev/$DEVICE" ;;
  esac
fi

powercut_guest
echo "powercut_guest ended with $?"
poweroff -f
