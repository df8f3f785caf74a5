/**
 * Network namespaces for a dual-stack cluster of two nodes on one LAN with pods behind them. The names are namespace
 * names (`ip netns`). The API server and external clients are in `lan` (192.168.10.1), which reaches node-1 at
 * 192.168.10.11 (pods from 10.244.1.10) and node-2 at 192.168.10.12 (pods from 10.244.2.10).
 */
import { shell } from "../netns/network-namespace.ts";

export interface ClusterNodePlace {
  readonly name: string;
  /** One per family. */
  readonly addresses: readonly [string, string];
  readonly podCidrs: readonly [string, string];
  readonly number: number;
}

export const lan = "lan";
export const lanAddress = "192.168.10.1";

export const nodePlaces: readonly [ClusterNodePlace, ClusterNodePlace] = [placeOf(1), placeOf(2)];

function placeOf(number: 1 | 2): ClusterNodePlace {
  return {
    name: `node-${number}`,
    addresses: [`192.168.10.1${number}`, `fd00:10::1${number}`],
    podCidrs: [`10.244.${number}.0/24`, `fd00:244:${number}::/64`],
    number,
  };
}

/** Creates the namespaces. Needs root and its own /run. */
export function buildClusterNetwork(): void {
  shell(`
    ip netns add ${lan}; ip -n ${lan} link set lo up
    ip -n ${lan} link add br0 type bridge; ip -n ${lan} link set br0 up
    ip -n ${lan} addr add ${lanAddress}/24 dev br0
    ip -n ${lan} addr add fd00:10::1/64 dev br0 nodad
    ${nodePlaces.map(nodeLines).join("\n")}
    ${nodePlaces.flatMap(routesToOthers).join("\n")}
  `);
}

function nodeLines({ name, addresses: [four, six], number }: ClusterNodePlace): string {
  return `
    ip netns add ${name}; ip -n ${name} link set lo up
    ip -n ${lan} link add port${number} type veth peer name eth0 netns ${name}
    ip -n ${lan} link set port${number} master br0 up
    ip -n ${name} addr add ${four}/24 dev eth0
    ip -n ${name} addr add ${six}/64 dev eth0 nodad
    ip -n ${name} link set eth0 up
    ip -n ${name} route add default via ${lanAddress}
    ip -n ${name} -6 route add default via fd00:10::1
    ip netns exec ${name} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
  `;
}

function routesToOthers(node: ClusterNodePlace): readonly string[] {
  return nodePlaces
    .filter((other) => other !== node)
    .flatMap(({ addresses: [four, six], podCidrs: [fourPods, sixPods] }) => [
      `ip -n ${node.name} route add ${fourPods} via ${four}`,
      `ip -n ${node.name} -6 route add ${sixPods} via ${six}`,
    ]);
}

/** Creates a pod's namespace with its addresses, routed as in Calico. `index` is the pod's number on the node. */
export function addPodNetwork(
  name: string,
  { name: node, number }: ClusterNodePlace,
  index: number,
): readonly [string, string] {
  const [four, six] = [`10.244.${number}.${10 + index}`, `fd00:244:${number}::${10 + index}`];
  const [fourGateway, sixGateway] = [`10.244.${number}.1`, `fd00:244:${number}::1`];
  const link = `veth${index}`;
  shell(`
    ip netns add ${name}
    ip -n ${name} -batch - <<END
link set lo up
link add eth0 type veth peer name ${link} netns ${node}
addr add ${four}/32 dev eth0
addr add ${six}/128 dev eth0 nodad
link set eth0 up
route add ${fourGateway} dev eth0 scope link
route add default via ${fourGateway}
route add ${sixGateway} dev eth0
route add default via ${sixGateway}
END
    ip -n ${node} -batch - <<END
addr add ${fourGateway}/32 dev ${link}
addr add ${sixGateway}/128 dev ${link} nodad
link set ${link} up
route add ${four}/32 dev ${link} src ${fourGateway}
route add ${six}/128 dev ${link} src ${sixGateway}
END
  `);
  return [four, six];
}

export function removePodNetwork(name: string): void {
  shell(`ip netns delete ${name}`);
}

export function removeClusterNetwork(): void {
  for (const name of [lan, ...nodePlaces.map((place) => place.name)]) {
    shell(`ip netns delete ${name}`);
  }
}
