/** Shell lines that set up the golden states' node in a new namespace: links, addresses and routes. */
export const nodeSetUp: readonly string[] = [
  "ip -batch - <<END",
  "link add eth0 type dummy",
  "link add eth1 type dummy",
  "address add 192.168.10.11/24 dev eth0",
  "address add fd00:10::11/64 dev eth0 nodad",
  "address add 172.16.5.11/24 dev eth1",
  "link set eth0 up",
  "link set eth1 up",
  "route add default via 192.168.10.1 dev eth0",
  "route add default via fd00:10::1 dev eth0",
  "END",
  "echo 1 > /proc/sys/net/ipv4/ip_forward",
];

export const nodeName = "node-1";
