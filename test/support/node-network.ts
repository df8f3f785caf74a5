/**
 * A small network of namespaces around one node, with an external client on its LAN and pods routed over veth pairs.
 * The names are namespace names (`ip netns`).
 *
 *     client 192.168.10.1 ── 192.168.10.11 node 10.244.1.1 ── 10.244.1.10 pod-1 …
 */
import {
  createNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "./netns/network-namespace.ts";

export interface Pod {
  readonly name: string;
  readonly address: string;
}

export const nodeAddress = "192.168.10.11";
export const clientAddress = "192.168.10.1";
/** Address of the node's end of each veth pair, which is the pods' gateway. */
export const podGateway = "10.244.1.1";

/** Builds the namespaces `client`, `node` and one for each pod. Needs root and its own /run. */
export function buildNodeNetwork(pods: readonly Pod[]): void {
  createNetworkNamespace("node");
  shell(networkAroundNode(pods));
}

/** Shell lines that build everything except the namespace `node`, which already exists. */
export function networkAroundNode(pods: readonly Pod[]): string {
  const names = ["client", ...pods.map(({ name }) => name)];
  return [
    ipLines(
      "",
      names.map((name) => `netns add ${name}`),
    ),
    ipLines("-n client", clientCommands),
    ...pods.map((pod, index) => ipLines(`-n ${pod.name}`, podCommands(pod, index))),
    ipLines("-n node", [...nodeCommands, ...pods.flatMap(nodeCommandsForPod)]),
  ].join("");
}

/** The pod with 10.244.1.10 also has fd00:244:1::10. */
export function ipv6Of({ address }: Pod): string {
  return `fd00:244:1::${address.split(".").at(-1)}`;
}

/** Adds IPv6 to the network of the node, whose namespace this process has entered. */
export function addIpv6(pods: readonly Pod[]): void {
  const gateway = "fd00:244:1::1";
  shell(
    [
      "sysctl -qw net.ipv6.conf.all.forwarding=1\n",
      ipLines("-n client", [
        "addr add fd00:10::1/64 dev eth0 nodad",
        "route add fd00:96::/64 via fd00:10::11",
      ]),
      ...pods.map((pod) =>
        ipLines(`-n ${pod.name}`, [
          `addr add ${ipv6Of(pod)}/128 dev eth0 nodad`,
          `route add ${gateway} dev eth0`,
          `route add default via ${gateway}`,
        ]),
      ),
      ipLines("", [
        "addr add fd00:10::11/64 dev eth0 nodad",
        ...pods.flatMap((pod, index) => [
          `addr add ${gateway}/128 dev ${linkOf(index)} nodad`,
          `route add ${ipv6Of(pod)}/128 dev ${linkOf(index)}`,
        ]),
      ]),
    ].join(""),
  );
}

/** Removes what {@link buildNodeNetwork} created. The processes in it must have exited. */
export function removeNodeNetwork(pods: readonly Pod[]): void {
  for (const name of ["client", "node", ...pods.map((pod) => pod.name)])
    removeNetworkNamespace(name);
}

/** Runs several `ip` commands in one process, because processes are slow in the lab kernel. */
function ipLines(options: string, commands: readonly string[]): string {
  return [`ip ${options} -batch - <<END`, ...commands, "END", ""].join("\n");
}

const clientCommands: readonly string[] = [
  "link set lo up",
  "link add eth0 type veth peer name eth0 netns node",
  `addr add ${clientAddress}/24 dev eth0`,
  "link set eth0 up",
  `route add 10.96.0.0/16 via ${nodeAddress}`,
];

const nodeCommands: readonly string[] = [
  `addr add ${nodeAddress}/24 dev eth0`,
  "link set eth0 up",
  `route add default via ${clientAddress}`,
];

/** Pods are routed as in Calico: a /32 behind each link, without a bridge. */
function podCommands({ address }: Pod, index: number): readonly string[] {
  return [
    "link set lo up",
    `link add eth0 type veth peer name ${linkOf(index)} netns node`,
    `addr add ${address}/32 dev eth0`,
    "link set eth0 up",
    `route add ${podGateway} dev eth0 scope link`,
    `route add default via ${podGateway}`,
  ];
}

function nodeCommandsForPod({ address }: Pod, index: number): readonly string[] {
  const link = linkOf(index);
  return [
    `addr add ${podGateway}/32 dev ${link}`,
    `link set ${link} up`,
    `route add ${address}/32 dev ${link} src ${podGateway}`,
  ];
}

function linkOf(index: number): string {
  return `veth${index + 1}`;
}
