/**
 * Reads links, addresses and routes in userspace mode, in which the process may not be allowed to open a netlink
 * socket.
 */
import { networkInterfaces } from "node:os";
import { errorText } from "../../base/error-text.ts";
import { parseCidr, parseIpAddress } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { NodeAddress } from "../../kernel/kernel.ts";
import type { ClosableNetwork, UsableIptables } from "../../kernel/open-iptables.ts";

/**
 * Uses netlink. If iptables is not available or netlink fails, uses unprivileged system calls. Gateways are then
 * unknown, which does not matter without rules.
 */
export function openNetworkReader(
  usable: Pick<UsableIptables, "openNetwork"> | undefined,
  log: Logger,
): ClosableNetwork {
  try {
    return usable?.openNetwork() ?? socketless;
  } catch (error) {
    log.warn("Cannot read routes, so gateway addresses are not reserved", {
      err: errorText(error),
    });
    return socketless;
  }
}

const socketless: ClosableNetwork = {
  link: {
    name: "kube-ipvs0",
    find: async () => undefined,
    listAddresses: async () => listAddresses(),
    listGateways: async () => none,
  },
  sysctl: { read: () => undefined },
  close() {},
};

function listAddresses(): readonly NodeAddress[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.flatMap(({ address: text, cidr }): readonly NodeAddress[] => {
    const address = parseIpAddress(text);
    const prefixLength = parseCidr(cidr ?? "")?.prefixLength;
    if (address === undefined || prefixLength === undefined) return [];
    return [{ address, prefixLength, linkIndex: 0 }];
  });
}
