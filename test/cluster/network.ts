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
export const podNetwork = "10.244.0.0/16";
export const serviceNetwork = "10.96.0.0/16";
export const firstServiceAddress = "10.96.0.1";
export const dnsAddress = "10.96.0.10";
export const apiServer: string = `https://${gateway}:6443`;

export interface NodeAddresses {
  /** Index of the node's processor. Names and addresses contain this index plus one. */
  readonly index: number;
  readonly name: string;
  readonly address: string;
  readonly pods: string;
  readonly tap: string;
}

export const nodes: readonly NodeAddresses[] = [0, 1].map((index) => ({
  index,
  name: `node${index + 1}`,
  address: `192.168.10.1${index + 1}`,
  pods: `10.244.${index + 1}.0/24`,
  tap: `tap${index + 1}`,
}));

/** Arguments that run a program in the cluster's namespace. */
export function inNamespace(...argv: readonly string[]): readonly string[] {
  return ["ip", "netns", "exec", namespace, ...argv];
}

/** Changes the addresses and routes of the cluster's namespace. */
export function ip(...args: readonly string[]): void {
  execFileSync("ip", ["-n", namespace, ...args], { stdio: ["ignore", "ignore", "inherit"] });
}

/** Removes leftovers of a killed run, then creates the network. */
export function createNetwork(): void {
  removeNetwork();
  execFileSync("ip", ["netns", "add", namespace]);
  ip("link", "set", "lo", "up");
  ip("link", "add", "bridge", "type", "bridge");
  ip("address", "add", `${gateway}/24`, "dev", "bridge");
  ip("link", "set", "bridge", "up");
  for (const { tap, pods, address } of nodes) {
    ip("tuntap", "add", tap, "mode", "tap");
    ip("link", "set", tap, "master", "bridge", "up");
    ip("route", "add", pods, "via", address);
  }
  const [program = "", ...args] = inNamespace("sysctl", "-qw", "net.ipv4.ip_forward=1");
  execFileSync(program, args);
}

export function removeNetwork(): void {
  spawnSync("ip", ["netns", "delete", namespace], { stdio: "ignore" });
}
