/** Random scenes: a node's state, and the packets that are sent in it. */
import type { IpFamily } from "../../src/base/ip.ts";
import type { Protocol } from "../../src/base/protocol.ts";
import { branch, client, guestNamed, node, node2 } from "../packet-paths/places.ts";
import { ownPort, podPort } from "../packet-paths/services.ts";
import { type Damage, drawDamage } from "./damage.ts";
import { Draw } from "./draw.ts";
import { addressOf, type DrawnService, type Frontend, portOf } from "./drawn-services.ts";
import { type ForeignRules, foreignRules } from "./foreign-rules.ts";
import { addressInIpv6, scriptInIpv6 } from "./in-ipv6.ts";

/** The sender of a packet. */
export interface Sender {
  readonly name: string;
  /** Where the process runs. */
  readonly place: string;
  /** The address to which the process binds its socket. Chosen by the kernel if absent. */
  readonly boundTo?: string;
  /** The address to ask `explain` about. */
  readonly from: string;
  /** The node's link through which its packets arrive. */
  readonly inLink?: string;
}

export interface Tuple {
  readonly sender: Sender;
  readonly protocol: Protocol;
  readonly address: string;
  readonly port: number;
  /** For example `s11 node port`. */
  readonly label: string;
  readonly service?: DrawnService;
}

export interface Scene {
  readonly title: string;
  readonly script: string;
  readonly mends: string;
  readonly deadPlaces: readonly string[];
  /** Whether the script changes kube-ipvs's own rules or sets. */
  readonly changesRules: boolean;
  readonly tuples: readonly Tuple[];
}

const senders: readonly Sender[] = [
  { name: "client", place: "client", from: client.IPv4, inLink: "eth0" },
  { name: "branch", place: "client", boundTo: branch.IPv4, from: branch.IPv4, inLink: "eth0" },
  ...["pod", "bridged-pod", "local", "bridged"].map(senderAt),
  { name: "node", place: "node", from: "node" },
  { name: "node address", place: "node", boundTo: node.IPv4, from: node.IPv4 },
  { name: "loopback", place: "node", boundTo: "127.0.0.1", from: "127.0.0.1" },
];

function senderAt(name: string): Sender {
  return { name, place: name, from: guestNamed(name).addresses.IPv4 };
}

const unserved = [
  { label: "another port on a cluster IP", address: "10.96.0.10", port: 81 },
  { label: "the node's own port on a cluster IP", address: "10.96.0.10", port: ownPort },
  { label: "an unknown cluster IP", address: "10.96.0.200", port: 80 },
  { label: "an unknown load-balancer IP", address: "203.0.113.200", port: 80 },
  { label: "the node's own port", address: node.IPv4, port: ownPort },
  { label: "a closed port on the node", address: node.IPv4, port: 7777 },
  { label: "a closed port on node-2", address: node2.IPv4, port: 80 },
  { label: "a missing host", address: "192.168.10.77", port: 80 },
] as const;

const frontends: readonly Frontend[] = [
  "cluster IP",
  "node port",
  "load-balancer IP",
  "external IP",
];

function drawTuple(draw: Draw, services: readonly DrawnService[], broken: DrawnService): Tuple {
  const sender = draw.one(senders);
  const protocol = draw.one(["TCP", "TCP", "UDP"] as const);
  if (draw.isChosen(0.1)) {
    const { label, address, port } = draw.one(unserved);
    return { sender, protocol, label, address, port };
  }
  if (draw.isChosen(0.1)) {
    const pod = draw.one(["local", "bridged", "remote"]);
    return { sender, protocol, label: pod, address: guestNamed(pod).addresses.IPv4, port: podPort };
  }
  const service = draw.isChosen(0.5) ? broken : draw.one(services);
  const isLoopback = sender.name === "loopback" || (sender.name === "node" && draw.isChosen(0.1));
  const frontend = isLoopback ? "node port" : draw.one(frontends);
  return {
    ...{ sender, protocol, service, label: `${service.name} ${frontend}` },
    address: isLoopback && draw.isChosen(0.7) ? "127.0.0.1" : addressOf(service, frontend),
    port: portOf(service, frontend),
  };
}

/** The client reaches the other hosts in its network, and the pods behind node-2, without passing the node. */
function passesNode({ sender, address }: Tuple): boolean {
  const isBeside = /^192\.168\.10\.|^10\.244\.2\./.test(address) && address !== node.IPv4;
  return sender.place === "client" ? !isBeside : sender.from !== address || sender.place === "node";
}

export interface SceneOptions {
  readonly services: readonly DrawnService[];
  readonly tupleCount: number;
  readonly hasNft: boolean;
  /** False on a node without iptables. */
  readonly hasIptables: boolean;
}

export function drawScene(seed: number, options: SceneOptions): Scene {
  const { services, tupleCount, hasNft, hasIptables } = options;
  const draw = new Draw(seed);
  const broken = draw.one(services);
  const usable = foreignRules.filter(({ isNft }) => (isNft === true ? hasNft : hasIptables));
  const foreign: readonly ForeignRules[] = draw.isChosen(0.7) ? [draw.one(usable)] : [];
  const drawn: readonly Damage[] = draw.isChosen(0.6) ? [drawDamage(draw, broken)] : [];
  const family: IpFamily = draw.isChosen(0.4) ? "IPv6" : "IPv4";
  const damages = drawn.filter(({ isIpv4Only }) => family === "IPv4" || isIpv4Only !== true);
  const deadPlaces = damages.flatMap((damage) => damage.deadPlaces ?? []);
  const tuples = new Map<string, Tuple>();
  while (tuples.size < tupleCount) {
    const tuple = drawTuple(draw, services, broken);
    if (passesNode(tuple) && !deadPlaces.includes(tuple.sender.place))
      tuples.set(tupleText(tuple), tuple);
  }
  const names = [...foreign.map(({ name }) => name), ...damages.map(({ name }) => name)];
  const scene = {
    title: names.length === 0 ? "an intact node" : names.join(", "),
    script: [
      ...foreign.map((one) => one.script(draw)),
      ...damages.map(({ breaks }) => breaks),
    ].join("\n"),
    mends: damages.map(({ mends = "" }) => mends).join("\n"),
    deadPlaces,
    changesRules: damages.some(({ changesRules }) => changesRules),
    tuples: [...tuples.values()],
  };
  return family === "IPv4" ? scene : inIpv6(scene);
}

function inIpv6({ script, mends, tuples, ...others }: Scene): Scene {
  return {
    ...{ ...others, script: scriptInIpv6(script), mends: scriptInIpv6(mends) },
    tuples: tuples.map(({ sender, address, ...rest }) => {
      const { boundTo, from } = sender;
      const bound = boundTo === undefined ? {} : { boundTo: addressInIpv6(boundTo) };
      const inFamily = { ...sender, ...bound, from: addressInIpv6(from) };
      return { ...rest, sender: inFamily, address: addressInIpv6(address) };
    }),
  };
}

export function tupleText({ sender, protocol, label, address, port }: Tuple): string {
  return `${sender.name} to ${label} ${address}:${port} ${protocol}`;
}
