#!/bin/sh
# PID 1 after the initramfs: runs /lab/command, writes its output to the console and to /lab/output and its exit status
# to /lab/status, and powers the kernel off.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
. /lab/environment
[ "$LAB_IPTABLES" != none ] || rm -f /usr/sbin/xtables-*-multi /usr/sbin/ipset
mkdir -p /run/lock
ip link set lo up
if [ -n "$LAB_ROOT" ]; then
  mount --bind "$LAB_PROJECT/build/stock/program-arm64" "$LAB_PROJECT/dist"
  mount --bind "$LAB_PROJECT/build/stock/network_namespace.node" "$LAB_PROJECT/build/test/network_namespace.node"
fi
{ sh /lab/command; echo $? > /lab/status; } 2>&1 < /dev/null | tee /lab/output > /dev/console
sync
echo o > /proc/sysrq-trigger
sleep 60
