/**
 * The cluster's network: a network namespace with a bridge, the control plane's address and a tap device for each node.
 */
import { execFileSync, spawnSync } from "node:child_process";

export const namespace = "kube-ipvs-conformance";
export const gateway = "192.168.10.1";
/** An address to which the API server moves. */
export const otherApiServerAddress = "192.168.10.2";
/** An address to which a node moves. */
export const otherNodeAddress = "192.168.10.22";
export const gateway6 = "fd00:10::1";
export type Family = "IPv4" | "IPv6";
export const podNetworks: Readonly<Record<Family, string>> = {
  IPv4: "10.244.0.0/16",
  IPv6: "fd00:10:244::/56",
};
const serviceNetworks: Readonly<Record<Family, string>> = {
  IPv4: "10.96.0.0/16",
  IPv6: "fd00:10:96::/112",
};
/**
 * The network for load balancers' addresses and for the source address of packets to them. Nodes do not belong to it.
 */
export const balancerNetwork = "172.20.0.0/16";
export const balancerSource = "172.20.0.1";
export const firstServiceAddress = "10.96.0.1";
export const dnsAddress = "10.96.0.10";
export const apiServer: string = `https://${gateway}:6443`;

export interface NodeAddresses {
  /** Index of the node's processor. Names and addresses contain this index plus one. */
  readonly index: number;
  readonly name: string;
  readonly zone: string;
  readonly address: string;
  readonly address6: string;
  readonly pods: string;
  readonly pods6: string;
  readonly tap: string;
}

const zoneCount = 3;

function nodeAt(index: number): NodeAddresses {
  const number = index + 1;
  return {
    index,
    name: `node${number}`,
    zone: `zone${(index % zoneCount) + 1}`,
    address: `192.168.10.1${number}`,
    address6: `fd00:10::1${number}`,
    pods: `10.244.${number}.0/24`,
    pods6: `fd00:10:244:${number}::/64`,
    tap: `tap${number}`,
  };
}

/** Nodes have addresses of both families. `families` are those that Kubernetes uses, the primary one first. */
export interface Network {
  readonly nodes: readonly NodeAddresses[];
  readonly families: readonly Family[];
}

/** The networks of the cluster's families, separated by commas. */
export function podRange({ families }: Network): string {
  return families.map((family) => podNetworks[family]).join();
}

export function serviceRange({ families }: Network): string {
  return families.map((family) => serviceNetworks[family]).join();
}

export function networkOf(nodeCount: number, families: readonly Family[] = ["IPv4"]): Network {
  return { nodes: Array.from({ length: nodeCount }, (_, index) => nodeAt(index)), families };
}

/** Arguments that run a program in the cluster's namespace. */
export function inNamespace(...argv: readonly string[]): readonly string[] {
  return ["ip", "netns", "exec", namespace, ...argv];
}

/** Changes the addresses and routes of the cluster's namespace. */
export function ip(...args: readonly string[]): void {
  execFileSync("ip", ["-n", namespace, ...args], { stdio: ["ignore", "ignore", "inherit"] });
}

/** Removes leftovers of a killed run, then creates the network. */
export function createNetwork(nodes: readonly NodeAddresses[]): void {
  removeNetwork();
  execFileSync("ip", ["netns", "add", namespace]);
  ip("link", "set", "lo", "up");
  ip("link", "add", "bridge", "type", "bridge");
  ip("address", "add", `${gateway}/24`, "dev", "bridge");
  ip("address", "add", `${gateway6}/64`, "dev", "bridge", "nodad");
  ip("link", "set", "bridge", "up");
  // Drops packets to load balancers without nodes: the bridge has no ports and resolves no addresses.
  ip("link", "add", "balancer", "type", "bridge");
  ip("link", "set", "balancer", "arp", "off", "up");
  ip("address", "add", balancerSource, "dev", "balancer");
  ip("route", "add", balancerNetwork, "dev", "balancer", "src", balancerSource);
  for (const { tap, pods, pods6, address, address6 } of nodes) {
    ip("tuntap", "add", tap, "mode", "tap");
    ip("link", "set", tap, "master", "bridge", "up");
    ip("route", "add", pods, "via", address);
    ip("route", "add", pods6, "via", address6);
  }
  const settings = [
    ...["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"],
    // One client's connections to a load balancer use different nodes.
    "net.ipv4.fib_multipath_hash_policy=1",
  ];
  const [program = "", ...args] = inNamespace("sysctl", "-qw", ...settings);
  execFileSync(program, args);
}

export function removeNetwork(): void {
  spawnSync("ip", ["netns", "delete", namespace], { stdio: "ignore" });
}
