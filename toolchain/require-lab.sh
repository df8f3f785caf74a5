#!/bin/sh
# require-lab.sh: makes sure that there is a kernel with IPVS for tests and demo: this machine's own, or the lab
# kernel, installed where it is missing. One line says what is missing where there can be none.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
ipvs_file=${LAB_IPVS_FILE:-/proc/net/ip_vs} # there once the module is loaded; the variable is for tests

if [ "$(id -u)" -ne 0 ]; then
  echo "setup: not root: network namespaces and kernel modules need it; run as root, or: sudo make …" >&2
  exit 1
fi
modprobe -q ip_vs 2> /dev/null
[ -e "$ipvs_file" ] && exit 0
if [ "$(uname -m)" != x86_64 ]; then
  echo "setup: this machine's kernel has no IPVS (modprobe ip_vs fails) and there is no lab kernel for $(uname -m): use a machine whose kernel has IPVS, or an amd64 one" >&2
  exit 1
fi
exec "$here/install-packages.sh" lab-kernel
