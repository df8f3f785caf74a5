#!/bin/sh
# Second stage inside the lab kernel, in the writable overlay: loads what the tests need, runs the command
# that lies in /lab/command, writes its exit status to /lab/status, and switches the kernel off.
# Standard output goes through tty1, standard error through tty2: as the command wrote them, no line edited. With LAB_ROWS
# the command has a terminal, tty3.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
[ -r /lab/environment ] && . /lab/environment

# iptables and its like, of the wanted backend.
PATH=/lab/bin:$PATH
mkdir -p /run/lock

[ "$LAB_IPTABLES" != none ] || rm -f /usr/sbin/xtables-*-multi /usr/sbin/ipset
. "${0%/*}/load-modules.sh"
[ "$LAB_IPVS" = present ] || mount -t tmpfs tmpfs "/lib/modules/${LAB_MODULES##*/}"
ip link set lo up

# In user-mode Linux 6.12 pages of an io_uring are freed while they are mapped; Node does without.
[ ! -e /proc/sys/kernel/io_uring_disabled ] || echo 2 > /proc/sys/kernel/io_uring_disabled

stty -F /dev/tty1 raw
stty -F /dev/tty2 raw
echo > /lab/booted
if [ -n "$LAB_ROWS" ]; then
  stty -F /dev/tty3 rows "$LAB_ROWS" cols "$LAB_COLUMNS"
  setsid --ctty --wait /bin/sh /lab/command < /dev/tty3 > /dev/tty3 2>&1
  echo $? > /lab/status
  stty -F /dev/tty3 sane # Waits until what was written is shown.
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
