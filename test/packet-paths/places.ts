/**
 * The participants and their places. A place is a network namespace with the same name. docs/reports/packet-paths.md
 * has a picture of the network. node-2 is a router without a proxy.
 */
import type { IpFamily } from "../../src/base/ip.ts";

/** One address for each family. */
export type Addresses = Readonly<Record<IpFamily, string>>;

export const node: Addresses = { IPv4: "192.168.10.11", IPv6: "fd00:10::11" };
export const node2: Addresses = { IPv4: "192.168.10.12", IPv6: "fd00:10::12" };
export const client: Addresses = { IPv4: "192.168.10.1", IPv6: "fd00:10::1" };
/** A second address of the client, in a different network, for source ranges. */
export const branch: Addresses = { IPv4: "192.168.20.1", IPv6: "fd00:20::1" };
/** The node's address on the links to its routed pods. */
export const podGateway: Addresses = { IPv4: "10.244.1.1", IPv6: "fd00:244:1::1" };
export const node2Gateway: Addresses = { IPv4: "10.244.2.1", IPv6: "fd00:244:2::1" };
/** The node's address on the bridge. */
export const bridgeGateway: Addresses = { IPv4: "10.244.8.1", IPv6: "fd00:244:8::1" };

/** A place behind a node. */
export interface Guest {
  readonly name: string;
  readonly addresses: Addresses;
  readonly attachment: "routed" | "bridged" | "behind node-2";
  /** MTU of the link's other end. The place itself assumes 1500 bytes. */
  readonly mtu?: number;
}

const narrowMtu = 1300;

/**
 * `pod`, `bridged-pod` and `far` connect. The others are endpoints. `far` is not a pod, but a client beyond a narrow
 * link.
 */
export const guests: readonly Guest[] = [
  { name: "pod", attachment: "routed", addresses: podAddresses(1, 5) },
  { name: "local", attachment: "routed", addresses: podAddresses(1, 10) },
  { name: "narrow", attachment: "routed", addresses: podAddresses(1, 20), mtu: narrowMtu },
  { name: "bridged-pod", attachment: "bridged", addresses: podAddresses(8, 5) },
  { name: "bridged", attachment: "bridged", addresses: podAddresses(8, 10) },
  { name: "remote", attachment: "behind node-2", addresses: podAddresses(2, 10) },
  {
    name: "remote-narrow",
    attachment: "behind node-2",
    addresses: podAddresses(2, 20),
    mtu: narrowMtu,
  },
  {
    name: "far",
    attachment: "behind node-2",
    addresses: { IPv4: "192.168.30.1", IPv6: "fd00:30::1" },
    mtu: narrowMtu,
  },
];

function podAddresses(network: number, host: number): Addresses {
  return { IPv4: `10.244.${network}.${host}`, IPv6: `fd00:244:${network}::${host}` };
}

export function guestNamed(name: string): Guest {
  const guest = guests.find((one) => one.name === name);
  if (guest === undefined) throw new Error(`No place named ${name}`);
  return guest;
}

const owners: readonly (readonly [owner: string, addresses: Addresses])[] = [
  ["node", node],
  ["client", client],
  ["branch", branch],
  ["gateway", podGateway],
  ["gateway", bridgeGateway],
  ...guests.map(({ name, addresses }) => [name, addresses] as const),
];
const ownerByAddress: ReadonlyMap<string, string> = new Map(
  owners.flatMap(([owner, { IPv4, IPv6 }]) => [
    [IPv4, owner],
    [IPv6, owner],
  ]),
);

/** The matrix's word for a source that a backend saw. `destination` is the address that the client connected to. */
export function ownerOf(address: string, destination: string): string {
  return ownerByAddress.get(address) ?? (address === destination ? "VIP" : address);
}
