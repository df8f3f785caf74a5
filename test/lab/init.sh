#!/bin/sh
# PID 1 of the lab kernel (user-mode Linux). The root is the machine's own file system, read-only; an
# overlay on a tmpfs makes it writable without touching the machine. Arguments come as kernel
# parameters: LAB_DIR (a folder shared with the machine) and LAB_MODULES (the kernel's modules).
# Terminals: console = kernel messages, tty1 = standard output, tty2 = standard error of the command.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH

fail() {
  echo "lab: $*"
  exec /bin/sh -c 'mount -t proc proc /proc 2>/dev/null; echo o > /proc/sysrq-trigger; sleep 9'
}

mount -t proc proc /proc || fail "cannot mount /proc"
grep -qw overlay /proc/filesystems || insmod "$LAB_MODULES/kernel/fs/overlayfs/overlay.ko" ||
  fail "cannot load the overlay module"
mount -t tmpfs -o size=75% tmpfs /mnt || fail "cannot mount a tmpfs"
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root ||
  fail "cannot mount the overlay"
root=/mnt/root
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -t devtmpfs devtmpfs $root/dev
mkdir -p $root/dev/pts $root/dev/shm $root/lab
mount -t devpts devpts $root/dev/pts
mount -t tmpfs tmpfs $root/dev/shm
mount -t tmpfs tmpfs $root/run
mount -t hostfs -o "$LAB_DIR" none $root/lab || fail "cannot mount $LAB_DIR"
mkdir -p $root/lib/modules
mount --bind "${LAB_MODULES%/*}" $root/lib/modules
LAB_SCRIPTS=${0%/*}
# A mere chroot would not do: who enters a container's mount namespace later lands on the first root.
cd $root || fail "cannot enter the overlay"
pivot_root . mnt || fail "cannot make the overlay the root"
umount -l mnt
exec chroot . /bin/sh "$LAB_SCRIPTS/guest.sh"
