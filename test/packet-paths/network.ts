/** Builds the namespaces and links of places.ts. Needs root and its own /run. */
import { createNetworkNamespace, shell } from "../support/netns/network-namespace.ts";
import {
  type Addresses,
  branch,
  bridgeGateway,
  client,
  type Guest,
  guestNamed,
  guests,
  node,
  node2,
  node2Gateway,
  podGateway,
} from "./places.ts";
import { announced } from "./services.ts";

const namespaces = ["lan", "client", "node", "node-2", ...guests.map(({ name }) => name)];

export function buildNetwork(): void {
  // Errors are outcomes here, and there are many of them, so the ICMP rate limit is removed. Kernels before 6.13 have
  // one limit for all namespaces, which only the first namespace can set.
  const limit = "/proc/sys/net/ipv4/icmp_msgs_per_sec";
  shell(`[ ! -e ${limit} ] || echo 100000 > ${limit}`);
  for (const name of namespaces) createNetworkNamespace(name, ownSettings);
  shell(lanLines());
  for (const [index, guest] of guests.entries()) {
    shell(guest.attachment === "bridged" ? bridgedLines(guest, index) : routedLines(guest, index));
  }
  shell(routeLines());
}

const ownSettings: readonly string[] = [
  "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit",
  "echo 0 > /proc/sys/net/ipv6/icmp/ratelimit",
  "for file in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo 0 > $file; done",
];

/** Several `ip` commands in one process, because processes are slow in the lab kernel. */
function ipLines(place: string, commands: readonly string[]): string {
  return [`ip -n ${place} -batch - <<END`, ...commands, "END", ""].join("\n");
}

function lanLines(): string {
  const plug = (name: string, addresses: Addresses): string => {
    const uplink = [
      `link add eth0 type veth peer name ${name} netns lan`,
      `addr add ${addresses.IPv4}/24 dev eth0`,
      `addr add ${addresses.IPv6}/64 dev eth0 nodad`,
      "link set eth0 up",
    ];
    return ipLines(name, uplink) + ipLines("lan", [`link set ${name} master lan0 up`]);
  };
  return [
    ipLines("lan", ["link add lan0 type bridge", "link set lan0 up"]),
    plug("client", client),
    plug("node", node),
    plug("node-2", node2),
    ipLines("client", [`addr add ${branch.IPv4}/32 dev lo`, `addr add ${branch.IPv6}/128 dev lo`]),
    ipLines("node", [
      "link add cni0 type bridge",
      `addr add ${bridgeGateway.IPv4}/24 dev cni0`,
      `addr add ${bridgeGateway.IPv6}/64 dev cni0 nodad`,
      "link set cni0 up",
      "link add announcer0 type dummy",
      ...announced.map((address) => `addr add ${address} dev announcer0 nodad`),
    ]),
  ].join("");
}

/** Like Calico: each link has its own address, without a bridge. */
function routedLines({ name, addresses, attachment, mtu = 1500 }: Guest, index: number): string {
  const router = attachment === "routed" ? "node" : "node-2";
  const gateway = attachment === "routed" ? podGateway : node2Gateway;
  const link = linkOf(index);
  return [
    ipLines(name, [
      `link add eth0 type veth peer name ${link} netns ${router}`,
      `addr add ${addresses.IPv4}/32 dev eth0`,
      `addr add ${addresses.IPv6}/128 dev eth0 nodad`,
      "link set eth0 up",
    ]),
    ipLines(router, [
      `link set ${link} mtu ${mtu} up`,
      `addr add ${gateway.IPv4}/32 dev ${link}`,
      `addr add ${gateway.IPv6}/128 dev ${link} nodad`,
      `route add ${addresses.IPv4}/32 dev ${link}`,
      `route add ${addresses.IPv6}/128 dev ${link}`,
    ]),
    ipLines(name, [
      `route add ${gateway.IPv4} dev eth0 scope link`,
      `route add default via ${gateway.IPv4}`,
      `route add ${gateway.IPv6} dev eth0`,
      `route add default via ${gateway.IPv6}`,
    ]),
  ].join("");
}

/** Like the bridge plug-in: a node's pods share a network. */
function bridgedLines({ name, addresses }: Guest, index: number): string {
  const link = linkOf(index);
  return [
    ipLines(name, [
      `link add eth0 type veth peer name ${link} netns node`,
      `addr add ${addresses.IPv4}/24 dev eth0`,
      `addr add ${addresses.IPv6}/64 dev eth0 nodad`,
      "link set eth0 up",
    ]),
    ipLines("node", [`link set ${link} master cni0 up`]),
    ipLines(name, [
      `route add default via ${bridgeGateway.IPv4}`,
      `route add default via ${bridgeGateway.IPv6}`,
    ]),
  ].join("");
}

function linkOf(index: number): string {
  return `veth${index}`;
}

/** The LAN's default route leads to the client, which does not forward, so packets without another route are lost. */
function routeLines(): string {
  const far = guestNamed("far");
  const virtual4 = ["10.96.0.0/16", "203.0.113.0/24", "198.18.0.0/15"];
  const virtual6 = ["fd00:96::/64", "2001:db8:203::/64", "fd00:198::/64"];
  const via = (networks: readonly string[], gateway: string): readonly string[] =>
    networks.map((network) => `route add ${network} via ${gateway}`);
  return [
    ...["node", "node-2"].map(forwardLines),
    ipLines("node", [
      ...via(["default"], client.IPv4),
      ...via(["default"], client.IPv6),
      ...via(["10.244.2.0/24", far.addresses.IPv4], node2.IPv4),
      ...via(["fd00:244:2::/64", far.addresses.IPv6], node2.IPv6),
    ]),
    ipLines("node-2", [
      ...via(["default"], client.IPv4),
      ...via(["default"], client.IPv6),
      ...via(["10.244.0.0/16"], node.IPv4),
      ...via(["fd00:244::/32"], node.IPv6),
    ]),
    ipLines("client", [
      ...via(["10.244.2.0/24"], node2.IPv4),
      ...via(["fd00:244:2::/64"], node2.IPv6),
      ...via(virtual4, node.IPv4),
      ...via(virtual6, node.IPv6),
    ]),
    farLines(linkOf(guests.indexOf(far))),
  ].join("");
}

function forwardLines(name: string): string {
  return `
    ip netns exec ${name} sh -ec '
      echo 1 > /proc/sys/net/ipv4/ip_forward
      echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
    '
  `;
}

/** Routes only packets from this link to the node, because pods behind node-2 must not reach the node's virtual IPs. */
function farLines(link: string): string {
  return `
    ip -n node-2 rule add iif ${link} lookup 100
    ip -n node-2 -6 rule add iif ${link} lookup 100
    ip -n node-2 route add default via ${node.IPv4} table 100
    ip -n node-2 route add default via ${node.IPv6} table 100
  `;
}
