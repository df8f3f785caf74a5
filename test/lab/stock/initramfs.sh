#!/bin/busybox sh
# /init of the initramfs: mounts the machine's file system over 9p with a writable overlay, and continues in it.
# Kernel parameters become variables: LAB_ROOT is the root's folder on the machine (empty: the machine's own root),
# LAB_MODULES the folder with the kernel's modules, and LAB_PROJECT the project.
PATH=/bin
fail() { echo "lab: $*"; busybox poweroff -f; }
share() { busybox mount -t 9p -o "trans=virtio,version=9p2000.L,msize=524288,$3" "$1" "$2" || fail "cannot mount $1"; }

busybox mkdir -p /proc /host /over /root
busybox mount -t proc proc /proc
while read -r module; do busybox insmod "$module" || fail "cannot load $module"; done < /modules
share host /host ro,cache=loose
busybox mount -t tmpfs -o size=75% tmpfs /over
busybox mkdir /over/upper /over/work
busybox mount -t overlay -o "lowerdir=/host$LAB_ROOT,upperdir=/over/upper,workdir=/over/work" overlay /root || fail "cannot mount the overlay"
busybox mount -t proc proc /root/proc
busybox mount -t sysfs sysfs /root/sys
busybox mount -t devtmpfs devtmpfs /root/dev
busybox mount -t tmpfs tmpfs /root/run
busybox mkdir -p /root/lab /root/lib/modules "/root$LAB_PROJECT"
share lab /root/lab rw,cache=none
busybox mount -o bind "/host$LAB_MODULES" /root/lib/modules
[ -z "$LAB_ROOT" ] || busybox mount -o bind "/host$LAB_PROJECT" "/root$LAB_PROJECT"
busybox umount /proc
exec busybox switch_root /root /bin/sh "$LAB_PROJECT/test/lab/stock/guest.sh"
