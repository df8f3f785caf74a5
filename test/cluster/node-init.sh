#!/bin/sh
# PID 1 of a node (user-mode Linux). The root is an overlay: the machine's file system, read-only; the Debian packages
# from fetch-packages.sh; and a tmpfs for all writes. NODE_FOLDER, a kernel parameter, is shared with the machine.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
. "$NODE_FOLDER/environment"

fail() {
  echo "node: $*"
  exec /bin/sh -c 'mount -t proc proc /proc 2>/dev/null; echo o > /proc/sysrq-trigger; sleep 9'
}

mount -t proc proc /proc || fail "cannot mount /proc"
insmod "$MODULES/kernel/fs/overlayfs/overlay.ko" || fail "cannot load the overlay module"
mount -t tmpfs -o size=75% tmpfs /mnt || fail "cannot mount a tmpfs"
mkdir /mnt/upper /mnt/work /mnt/root /mnt/packages
# Needs its own mount, because overlayfs rejects a lower layer inside another one.
mount -t hostfs -o "$PACKAGES" none /mnt/packages || fail "cannot mount the Debian packages"
root=/mnt/root
echo "
overlay $root overlay lowerdir=/mnt/packages:/,upperdir=/mnt/upper,workdir=/mnt/work
proc $root/proc proc defaults
sysfs $root/sys sysfs defaults
cgroup2 $root/sys/fs/cgroup cgroup2 defaults
bpf $root/sys/fs/bpf bpf defaults
devtmpfs $root/dev devtmpfs defaults
devpts $root/dev/pts devpts X-mount.mkdir
tmpfs $root/dev/shm tmpfs X-mount.mkdir
mqueue $root/dev/mqueue mqueue X-mount.mkdir
tmpfs $root/run tmpfs defaults
none $root$NODE_FOLDER hostfs $NODE_FOLDER
${MODULES%/*} $root/lib/modules none bind,X-mount.mkdir
" > /mnt/fstab
mount --all --fstab /mnt/fstab || fail "cannot mount the root or its file systems"
scripts=${0%/*}
cd $root || fail "cannot enter the overlay"
# Does not use chroot, because containers enter mount namespaces, whose root would be the read-only one.
pivot_root . mnt || fail "cannot make the overlay the root"
umount -l mnt
exec chroot . /bin/sh "$scripts/node.sh"
