/**
 * The recorded states' node, with a client on its LAN and the pods of `objects.ts` in one namespace. The node has only
 * the recorded addresses, because node ports would also be served at any others.
 */
import { clientAddress, nodeAddress } from "../support/node-network.ts";

export const podNamespace = "pods";

/** A second address of the same client; see ../faults/traffic-client.ts. */
const otherClientAddress = "192.168.10.2";

/** The client's destinations: the cluster IP of two pods, and the node port of a third. */
export const targets: readonly string[] = [
  `10.96.0.10:80@${clientAddress}`,
  `${nodeAddress}:30443@${otherClientAddress}`,
];

const podAddresses = ["10.244.1.10", "10.244.2.11", "10.244.1.14"] as const;
/** No host has this address. The node answers ARP for it (proxy_arp), like Calico's nodes. */
const podGateway = "169.254.1.1";

/** Shell lines that build the namespaces for client, node and pods. */
export const nodeWithNeighbours: readonly string[] = [
  ...["client", "node", podNamespace].map(
    (name) => `ip netns add ${name}; ip -n ${name} link set lo up`,
  ),
  "ip -n client link add eth0 type veth peer name eth0 netns node",
  `ip -n client address add ${clientAddress}/24 dev eth0`,
  `ip -n client address add ${otherClientAddress}/24 dev eth0`,
  "ip -n client link set eth0 up",
  `ip -n node address add ${nodeAddress}/24 dev eth0`,
  "ip -n node address add fd00:10::11/64 dev eth0 nodad",
  "ip -n node link add eth1 type dummy",
  "ip -n node address add 172.16.5.11/24 dev eth1",
  "ip -n node link set eth0 up; ip -n node link set eth1 up",
  `ip -n node route add default via ${clientAddress}`,
  "ip -n node route add default via fd00:10::1 dev eth0",
  "ip netns exec node sysctl -qw net.ipv4.ip_forward=1",
  `ip -n client route add 10.96.0.0/16 via ${nodeAddress}`,
  `ip -n ${podNamespace} link add eth0 type veth peer name veth1 netns node`,
  ...podAddresses.map((address) => `ip -n ${podNamespace} address add ${address}/32 dev eth0`),
  `ip -n ${podNamespace} link set eth0 up; ip -n node link set veth1 up`,
  "ip netns exec node sysctl -qw net.ipv4.conf.veth1.proxy_arp=1",
  `ip -n ${podNamespace} route add ${podGateway} dev eth0 scope link`,
  `ip -n ${podNamespace} route add default via ${podGateway}`,
  ...podAddresses.map(
    (address) => `ip -n node route add ${address}/32 dev veth1 src ${nodeAddress}`,
  ),
];
