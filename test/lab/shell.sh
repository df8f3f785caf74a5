#!/bin/sh
# A shell in the lab as docs/quick-start.md expects it: the program in PATH, a node address, and a route to pods.
ip link add eth0 type dummy && ip link set eth0 up && ip address add 192.168.10.11/24 dev eth0 || exit
ip link add pods0 type dummy && ip link set pods0 up && ip route add 10.244.0.0/16 dev pods0 || exit
PATH=$PWD/dist:$PATH
PS1='lab:\w# '
export PATH PS1
if [ -t 0 ]; then
  echo "Linux $(uname -r) with IPVS. File changes are discarded on exit. Start with docs/quick-start.md"
  exec bash --norc
fi
bash --norc "$@"
status=$?
# The lab ends when its output closes, which background jobs keep open.
trap '' TERM
pkill -TERM -s 0
exit $status
