/** Opens the kernel for userspace mode, in which the process may not be allowed to open netlink sockets. */
import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";
import { errorText } from "../../base/error-text.ts";
import {
  type IpAddress,
  type IpFamily,
  ipFamilies,
  isIpv6LinkLocal,
  parseCidr,
  parseIpAddress,
} from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { Config } from "../../config/config.ts";
import { chooseBackend } from "../../kernel/iptables/backend.ts";
import { IptablesClient } from "../../kernel/iptables/client.ts";
import type { Conntrack, Iptables, Kernel, NodeAddress } from "../../kernel/kernel.ts";
import { type OpenKernel, openKernel } from "../../kernel/open-kernel.ts";
import { runProgram } from "../../kernel/run-program.ts";
import { NetlinkError } from "../../netlink/errors.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import type { NetworkReader } from "../node/node-network.ts";
import { ownMarks } from "../node/open-node-kernel.ts";

export interface UserspaceKernel extends NetworkReader {
  readonly iptables: Iptables;
  readonly conntrack: Conntrack;
  /** The families whose iptables programs work. Never empty. */
  readonly families: readonly IpFamily[];
  /** The whole kernel, from which leftovers are removed. Undefined if netlink sockets are not permitted. */
  readonly whole: Kernel | undefined;
  close(): void;
}

/** Rejects with the reason if no family has iptables programs that are installed and permitted. */
export async function openUserspaceKernel(config: Config, log: Logger): Promise<UserspaceKernel> {
  const whole = await openWhole(config, log);
  const iptables =
    whole?.iptables ?? new IptablesClient({ runProgram, log }, await chooseBackend(runProgram));
  const probes = await Promise.all(ipFamilies.map((family) => iptables.probe(family)));
  const families = ipFamilies.filter((_, index) => probes[index]?.isSupported);
  const close = (): void => whole?.close();
  if (families.length === 0) {
    close();
    throw new Error(`Cannot use iptables: ${probes.map(({ reason }) => reason).join("; ")}`);
  }
  const { link, sysctl } = whole ?? socketlessNetwork;
  const mayDelete = whole !== undefined && !config.observeOnly;
  const conntrack = mayDelete ? await usableConntrack(whole.conntrack, log) : noConntrack;
  return { iptables, families, link, sysctl, conntrack, whole, close };
}

/**
 * Returns a client that deletes nothing if the kernel cannot list conntrack entries. A UDP client that keeps its source
 * port may then have to wait until its entry expires.
 */
export async function usableConntrack(conntrack: Conntrack, log: Logger): Promise<Conntrack> {
  try {
    await conntrack.listUdpFlows("IPv4", {
      destination: loopbackAddresses.IPv4,
      destinationPort: 53,
    });
    return conntrack;
  } catch (error) {
    log.warn("Cannot delete stale conntrack entries", { err: errorText(error) });
    return noConntrack;
  }
}

async function openWhole(config: Config, log: Logger): Promise<OpenKernel | undefined> {
  try {
    return await openKernel({ log, portRangeMarks: ownMarks(config) });
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    const effect =
      "Gateway addresses are not reserved, and stale conntrack entries and leftovers of other modes remain";
    log.warn("Cannot open netlink sockets", { effect, err: errorText(error) });
    return undefined;
  }
}

/** Reads addresses with unprivileged system calls. Gateways are unknown, which has no effect if there are no rules. */
export const socketlessNetwork: NetworkReader = {
  link: {
    name: "kube-ipvs0",
    find: async () => undefined,
    listAddresses: async () => listAddresses(),
    listGateways: async () => none,
  },
  sysctl: { read: () => undefined },
};

const noConntrack: Conntrack = { listUdpFlows: async () => none, remove: async () => 0 };

function linkAddresses(): readonly NetworkInterfaceInfo[] {
  return Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
}

/**
 * The current addresses of all links except loopback, sorted. Excludes fe80::/10, because each pod's link has such an
 * address and no client uses it.
 */
export function readNodeAddresses(): readonly IpAddress[] {
  const texts = linkAddresses().flatMap(({ internal, address }) => (internal ? [] : address));
  const addresses = texts.flatMap((text) => parseIpAddress(text) ?? []);
  return [...new Set(addresses)].filter((address) => !isIpv6LinkLocal(address)).sort();
}

function listAddresses(): readonly NodeAddress[] {
  return linkAddresses().flatMap(({ address: text, cidr }): readonly NodeAddress[] => {
    const address = parseIpAddress(text);
    const prefixLength = parseCidr(cidr ?? "")?.prefixLength;
    if (address === undefined || prefixLength === undefined) return [];
    return [{ address, prefixLength, linkIndex: 0 }];
  });
}
