#!/bin/sh
# PID 1 of the lab kernel (user-mode Linux). The root is the machine's own file system, read-only; an overlay on a tmpfs
# makes it writable without changing the machine. Arguments are kernel parameters: LAB_DIR (a folder shared with the
# machine) and LAB_MODULES (the kernel's modules). Terminals: console = kernel messages, tty1 = standard output, tty2 =
# standard error of the command.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH

fail() {
  echo "lab: $*"
  exec /bin/sh -c 'mount -t proc proc /proc 2>/dev/null; echo o > /proc/sysrq-trigger; sleep 9'
}

mount -t proc proc /proc || fail "cannot mount /proc"
overlay=$LAB_MODULES/kernel/fs/overlayfs/overlay.ko
[ ! -e "$overlay" ] || insmod "$overlay" || fail "cannot load the overlay module"
mount -t tmpfs -o size=75% tmpfs /mnt || fail "cannot mount a tmpfs"
mkdir /mnt/upper /mnt/work /mnt/root
root=/mnt/root
# Uses one program, because starting a program takes 20 ms here.
echo "
overlay $root overlay lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work
proc $root/proc proc defaults
sysfs $root/sys sysfs defaults
devtmpfs $root/dev devtmpfs defaults
devpts $root/dev/pts devpts X-mount.mkdir
tmpfs $root/dev/shm tmpfs X-mount.mkdir
tmpfs $root/run tmpfs defaults
none $root/lab hostfs $LAB_DIR,X-mount.mkdir
${LAB_MODULES%/*} $root/lib/modules none bind,X-mount.mkdir
" > /mnt/fstab
mount --all --fstab /mnt/fstab || fail "cannot mount the root or its file systems"
LAB_SCRIPTS=${0%/*}
# chroot is not enough: a process that later enters a container's mount namespace would see the first root.
cd $root || fail "cannot enter the overlay"
pivot_root . mnt || fail "cannot make the overlay the root"
umount -l mnt
exec chroot . /bin/sh "$LAB_SCRIPTS/guest.sh"
