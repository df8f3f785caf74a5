#!/bin/sh
# The lab on this machine's own kernel (LAB=host): runs in new network, mount and process namespaces. A private /run
# contains the named namespaces and the xtables lock. The command cannot change the whole machine: it lacks the
# capabilities to set the clock, load modules or reboot, and in /sys and /proc/sys it can write only net.*.
# LAB_IPTABLES: the backend behind `iptables`, legacy or nft.

LAB_IPVS=present
. "${0%/*}/load-modules.sh"
set -e
mount -t tmpfs tmpfs /run
mount -t sysfs -o ro sysfs /sys
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,rw /proc/sys/net
mount --bind /dev/null /proc/sysrq-trigger
mkdir -p /run/lock /run/lab
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -s "/usr/sbin/xtables-$LAB_IPTABLES-multi" "/run/lab/$name"
done
PATH=/run/lab:$PATH
ip link set lo up
exec setpriv --bounding-set -sys_time,-sys_boot,-sys_module,-sys_rawio -- "$@"
