/**
 * The fake kernel's state in the recorded format: `ipvsadm -Sn`, `ipset save` and `iptables-save`, sorted and without
 * variable parts.
 */
import type { IpFamily } from "../../../src/base/ip.ts";
import { familyOf, hostPort, hostPrefixLength } from "../../../src/base/ip.ts";
import type { ObservedChain } from "../../../src/kernel/kernel.ts";
import type { IpSet } from "../../../src/state/ip-set.ts";
import { type VirtualServer, virtualServerFlags } from "../../../src/state/virtual-server.ts";
import { inRecordedOrder, recordedTables } from "../../golden/recorded-form.ts";
import type { FakeKernel } from "./fake-kernel.ts";

/** `ipvsadm -Sn`, sorted. */
export function ipvsText({ ipvs }: FakeKernel): string {
  const lines = ipvs.peek().flatMap(({ virtualServer, realServers }) => {
    const place = placeText(virtualServer);
    const reals = realServers.map(({ address, port, weight, forwardingMethod, limit }) => {
      const method = forwardingMethods[forwardingMethod] ?? `? ${forwardingMethod}`;
      const thresholds = limit === undefined ? "" : ` -x ${limit.upper} -y ${limit.lower}`;
      return `-a ${place} -r ${hostPort(address, port)} ${method} -w ${weight}${thresholds}`;
    });
    return [`-A ${place} ${serviceOptions(virtualServer)}`, ...reals];
  });
  return sortedText(lines);
}

/** `ipset save`, sorted, without hashsize, maxelem, bucketsize and initval. */
export function ipSetText({ ipSets }: FakeKernel): string {
  const lines = ipSets
    .peek()
    .flatMap(({ set, entries }) => [
      `create ${set.name} ${set.type} ${createOptions(set)}`,
      ...entries.map((entry) => `add ${set.name} ${entry}`),
    ]);
  return sortedText(lines);
}

/**
 * `iptables-save` without counters. Tables and chains are sorted; rules keep their order. The mangle table is included
 * if it contains a chain for port ranges.
 */
export function iptablesText({ iptables }: FakeKernel, family: IpFamily): string {
  const chains = iptables.peek(family);
  const lines = recordedTables((table, name) =>
    chains.some((chain) => chain.table === table && chain.name === name),
  ).flatMap((table) => [
    `*${table}`,
    ...chains
      .filter((chain) => chain.table === table)
      .toSorted((one, other) => (one.name < other.name ? -1 : 1))
      .flatMap(chainLines),
  ]);
  return `${lines.join("\n")}\n`;
}

/**
 * The dummy link's addresses in the format of `ip -o address show`, sorted and without numbers and times, and local
 * routes in the format of `ip route show table local proto 75`.
 */
export function addressesText({ link }: FakeKernel): string {
  const lines = link.peek().map((address) => {
    const isIpv4 = familyOf(address) === "IPv4";
    const place = `${isIpv4 ? "inet" : "inet6"} ${address}/${hostPrefixLength(familyOf(address))}`;
    return `${link.name}    ${place} scope global${isIpv4 ? ` ${link.name}` : ""}`;
  });
  const routes = link.peekRoutes().map((address) => `local ${address} dev lo scope host`);
  return sortedText([...lines, ...routes]);
}

const forwardingMethods: Readonly<Record<number, string>> = { 0: "-m", 2: "-i", 3: "-g" };

const protocolOptions = { TCP: "-t", UDP: "-u", SCTP: "--sctp-service" } as const;

/** ipvsadm's names for the scheduler flags of `sh` and `mh`. */
const namedFlags: readonly (readonly [number, string])[] = [
  [virtualServerFlags.schedulerFallback, "fallback"],
  [virtualServerFlags.schedulerPort, "port"],
];

function placeText({ protocol, address, port }: VirtualServer): string {
  if (protocol === "FWM") return `-f ${port}${familyOf(address) === "IPv6" ? " -6" : ""}`;
  return `${protocolOptions[protocol]} ${hostPort(address, port)}`;
}

function serviceOptions(server: VirtualServer): string {
  const { scheduler, flags, persistenceTimeoutSeconds } = server;
  const names = namedFlags.filter(([bit]) => (flags & bit) !== 0).map(([, name]) => name);
  return [
    `-s ${scheduler}`,
    persistenceTimeoutSeconds > 0 ? ` -p ${persistenceTimeoutSeconds}` : "",
    (flags & virtualServerFlags.onePacket) !== 0 ? " -o" : "",
    names.length > 0 ? ` -b ${names.map((name) => `${scheduler}-${name}`).join(",")}` : "",
  ].join("");
}

function createOptions({ type, family }: IpSet): string {
  if (type === "bitmap:port") return "range 0-65535";
  return `family ${family === "IPv4" ? "inet" : "inet6"}`;
}

function chainLines({ name, rules }: ObservedChain): readonly string[] {
  const policy = name.startsWith("KUBE-") ? "-" : builtInPolicy(name);
  const lines = rules.map(({ text }) => `-A ${name} ${text}`);
  return [`:${name} ${policy}`, ...inRecordedOrder(name, lines)];
}

function builtInPolicy(name: string): string {
  return ["INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING"].includes(name)
    ? "ACCEPT"
    : "-";
}

function sortedText(lines: readonly string[]): string {
  return lines.length === 0 ? "" : `${lines.toSorted().join("\n")}\n`;
}
