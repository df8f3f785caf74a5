/**
 * A small network of namespaces around one node: an outside client on its LAN, pods routed over veth
 * pairs. The names are those of the namespaces (`ip netns`).
 *
 *     client 192.168.10.1 ── 192.168.10.11 node 10.244.1.1 ── 10.244.1.10 pod-1 …
 */
import { shell } from "./netns/network-namespace.ts";

export interface Pod {
  readonly name: string;
  readonly address: string;
}

export const nodeAddress = "192.168.10.11";
export const clientAddress = "192.168.10.1";
/** The node's side of each pod's veth pair; the pods' gateway. */
export const podGateway = "10.244.1.1";

/** Builds the namespaces `client`, `node` and one for each pod. Needs root and a /run of its own. */
export function buildNodeNetwork(pods: readonly Pod[]): void {
  shell(namespaceLines("node"));
  shell(networkAroundNode(pods));
}

/** Shell lines that build all but the namespace `node`, which is there. */
export function networkAroundNode(pods: readonly Pod[]): string {
  const names = ["client", ...pods.map(({ name }) => name)];
  return [...names.map(namespaceLines), clientLines(), ...pods.map(podLines)].join("\n");
}

/** Removes what {@link buildNodeNetwork} made; the processes in it must be gone. */
export function removeNodeNetwork(pods: readonly Pod[]): void {
  const names = ["client", "node", ...pods.map(({ name }) => name)];
  shell(names.map((name) => `ip netns delete ${name}`).join("\n"));
}

function namespaceLines(name: string): string {
  return `ip netns add ${name}; ip -n ${name} link set lo up`;
}

function clientLines(): string {
  return `
    ip -n client link add eth0 type veth peer name eth0 netns node
    ip -n client addr add ${clientAddress}/24 dev eth0
    ip -n node addr add ${nodeAddress}/24 dev eth0
    ip -n client link set eth0 up
    ip -n node link set eth0 up
    ip -n node route add default via ${clientAddress}
    ip -n client route add 10.96.0.0/16 via ${nodeAddress}
  `;
}

/** Pods are routed, as calico does it: a /32 behind each link, no bridge. */
function podLines({ name, address }: Pod, index: number): string {
  const link = `veth${index + 1}`;
  return `
    ip -n ${name} link add eth0 type veth peer name ${link} netns node
    ip -n ${name} addr add ${address}/32 dev eth0
    ip -n ${name} link set eth0 up
    ip -n node addr add ${podGateway}/32 dev ${link}
    ip -n node link set ${link} up
    ip -n ${name} route add ${podGateway} dev eth0 scope link
    ip -n ${name} route add default via ${podGateway}
    ip -n node route add ${address}/32 dev ${link} src ${podGateway}
  `;
}
