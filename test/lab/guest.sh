#!/bin/sh
# Second stage inside the lab kernel, in the writable overlay: loads the modules that tests need, runs the command in
# /lab/command, writes its exit status to /lab/status, and powers the kernel off. tty1 carries standard output and tty2
# standard error, without any line editing. With LAB_ROWS, the command has a terminal, tty3.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
[ -r /lab/environment ] && . /lab/environment

# iptables and related programs, for the requested backend.
PATH=/lab/bin:$PATH
mkdir -p /run/lock

[ "$LAB_IPTABLES" != none ] || rm -f /usr/sbin/xtables-*-multi /usr/sbin/ipset
. "${0%/*}/load-modules.sh"
[ "$LAB_IPVS" = present ] || mount -t tmpfs tmpfs "/lib/modules/${LAB_MODULES##*/}"
ip link set lo up

# User-mode Linux 6.12 frees io_uring pages while they are mapped. Node.js works without io_uring.
[ ! -e /proc/sys/kernel/io_uring_disabled ] || echo 2 > /proc/sys/kernel/io_uring_disabled

stty -F /dev/tty1 raw
stty -F /dev/tty2 raw
echo > /lab/booted
if [ -n "$LAB_ROWS" ]; then
  stty -F /dev/tty3 rows "$LAB_ROWS" cols "$LAB_COLUMNS"
  setsid --ctty --wait /bin/sh /lab/command < /dev/tty3 > /dev/tty3 2>&1
  echo $? > /lab/status
  stty -F /dev/tty3 sane # Waits until all output has been transferred.
  sync
  echo o > /proc/sysrq-trigger
  sleep 60
fi
mkfifo /run/lab-out /run/lab-err
cat /run/lab-out > /dev/tty1 &
out=$!
cat /run/lab-err > /dev/tty2 &
err=$!
setsid /bin/sh /lab/command < /dev/null > /run/lab-out 2> /run/lab-err
status=$?
wait $out $err
echo "$status" > /lab/status
sync
echo o > /proc/sysrq-trigger
sleep 60
