#!/bin/sh
# Second stage of a node: kernel modules, network, containerd with its images, kubelet, and kube-proxy if KUBE_PROXY
# names it. node-files.ts writes the files in NODE_FOLDER, which also receives the logs.
PATH=/run/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH HOME=/root
. "$NODE_FOLDER/environment"
exec > "$NODE_FOLDER/node.log" 2>&1

report() {
  echo "[$(cut -d' ' -f1 /proc/uptime)] $*"
}

mount --make-rshared /
ldconfig
for controller in cpu memory pids io; do echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control; done
LAB_IPVS=present
. "$PROJECT/test/lab/load-modules.sh"
mkdir -p /run/bin /run/lock
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -s /usr/sbin/xtables-legacy-multi "/run/bin/$name"
done
# User-mode Linux 6.12 frees io_uring pages while they are mapped. Node.js works without io_uring.
echo 2 > /proc/sys/kernel/io_uring_disabled

# kubelet reads speed and topology, which user-mode Linux does not report.
awk '/^flags/ { print "cpu MHz\t\t: 2400.000\nphysical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1" } { print }' \
  /proc/cpuinfo > /run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo

hostname "$NODE_NAME"
printf '127.0.0.1 localhost\n%s %s\n' "$NODE_ADDRESS" "$NODE_NAME" > /etc/hosts
rm -f /etc/resolv.conf
: > /etc/resolv.conf
ip link set lo up
ip link set vec0 name eth0
ip address add "$NODE_ADDRESS/24" dev eth0
ip address add "$NODE_ADDRESS6/64" dev eth0 nodad
ip link set eth0 up
ip route add default via "$GATEWAY"
ip -6 route add default via "$GATEWAY6"
for route in $ROUTES; do ip route add "${route%,*}" via "${route#*,}"; done
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
  net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1

# overlayfs cannot be stacked on overlayfs.
for folder in /var/lib/containerd /var/lib/kubelet /var/log/pods; do
  mkdir -p "$folder"
  mount -t tmpfs -o size=80% tmpfs "$folder"
done
mount --make-rshared /var/lib/kubelet
mkdir -p /etc/cni/net.d /var/log/containers
rm -f /etc/cni/net.d/*
cp "$NODE_FOLDER/10-bridge.conflist" /etc/cni/net.d/
report "network and mounts are ready"

setsid containerd --config "$NODE_FOLDER/containerd.toml" > "$NODE_FOLDER/containerd.log" 2>&1 < /dev/null &
until ctr version > /dev/null 2>&1; do sleep 0.2; done
for archive in $IMAGES; do
  ctr -n k8s.io images import --snapshotter overlayfs "$archive" > /dev/null || report "cannot import $archive"
done
report "images are imported"

keep_running() { # LOG COMMAND…
  log=$1
  shift
  while :; do
    setsid "$@" >> "$NODE_FOLDER/$log" 2>&1 < /dev/null
    report "$1 exited with $?"
    sleep 5
  done
}

[ -z "$KUBE_PROXY" ] || keep_running kube-proxy.log "$KUBE_PROXY" --config="$NODE_FOLDER/kube-proxy.json" --v=2 &
keep_running kubelet.log "$KUBELET" --config="$NODE_FOLDER/kubelet.json" --kubeconfig="$KUBECONFIG_FILE" \
  --hostname-override="$NODE_NAME" --node-ip="$NODE_IPS" --node-labels="topology.kubernetes.io/zone=$ZONE" --v=2
