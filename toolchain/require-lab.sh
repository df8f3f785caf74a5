#!/bin/sh
# require-lab.sh: provides a kernel with IPVS for tests and demo. Installs the lab kernel if it is missing.
# This machine's own kernel is used, and its modules are loaded, only with LAB=host in the environment.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
ipvs_file=${LAB_IPVS_FILE:-/proc/net/ip_vs} # exists once the module is loaded; the variable is for tests

if [ "$(id -u)" -ne 0 ]; then
  echo "setup: not root: the lab needs network and process namespaces; run as root, or: sudo make …" >&2
  exit 1
fi
if [ "$LAB" = host ]; then
  modprobe -q ip_vs 2> /dev/null
  [ -e "$ipvs_file" ] && exit 0
  echo "setup: LAB=host: this machine's kernel has no IPVS (modprobe ip_vs fails); without LAB=host the lab kernel is used" >&2
  exit 1
fi
if [ "$(uname -m)" != x86_64 ]; then
  echo "setup: there is no lab kernel for $(uname -m): use an amd64 machine, or LAB=host with this machine's own kernel (make test-host)" >&2
  exit 1
fi
exec "$here/install-packages.sh" lab-kernel
