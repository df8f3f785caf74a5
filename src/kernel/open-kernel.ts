/** The real kernel: all clients, for the calling thread's network namespace. */
import { type Clock, systemClock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { nativeSocket } from "../netlink/native-socket.ts";
import type { TransportDependencies } from "../netlink/transport.ts";
import type { VirtualAddresses } from "../state/dummy-link.ts";
import { AccountingClient } from "./accounting/client.ts";
import { ConntrackClient } from "./conntrack/client.ts";
import type { BackendChoice } from "./iptables/backend.ts";
import { IpvsClient } from "./ipvs/client.ts";
import type { Kernel } from "./kernel.ts";
import { DummyLinkClient } from "./link/client.ts";
import { TunnelLinksClient } from "./link/tunnel-links.ts";
import { ModulesClient } from "./modules/client.ts";
import { NftTablesClient } from "./nftables/client.ts";
import { openRules, type RulesWriter } from "./open-rules.ts";
import { runProgram } from "./run-program.ts";
import { SysctlClient } from "./sysctl/client.ts";

export interface KernelOptions {
  readonly log: Logger;
  readonly clock?: Clock;
  /** See {@link RulesOptions}. */
  readonly rules?: RulesWriter | undefined;
  /** The result of an earlier check. If undefined, the iptables backends are checked with five processes. */
  readonly iptablesBackend?: BackendChoice | undefined;
  /** How IPv4 virtual IPs become local. Defaults to addresses on the link. */
  readonly virtualAddresses?: VirtualAddresses;
  /** Masks of the firewall marks of our virtual servers. Defaults to none. */
  readonly portRangeMarks?: readonly number[];
}

/** All clients with their sockets. */
export interface OpenKernel extends Kernel {
  /** Closes the sockets. Kernel state is not changed. */
  close(): void;
}

/**
 * Opens the sockets and chooses how rules are written. The IPVS family is looked up at its first use. Rejects if a
 * socket is not permitted or iptables is not installed.
 */
export async function openKernel(options: KernelOptions): Promise<OpenKernel> {
  const { clock = systemClock, virtualAddresses = "addresses" } = options;
  const parts: TransportDependencies = { shim: nativeSocket, clock };
  const modules = new ModulesClient({ runProgram });
  const sysctl = new SysctlClient();
  const { close: closeRules, ...rules } = await openRules({ ...parts, ...options });
  const sockets = {
    ipvs: new IpvsClient(parts, options.portRangeMarks),
    link: new DummyLinkClient({ ...parts, modules, virtualAddresses }),
    tunnels: new TunnelLinksClient({ ...parts, modules, sysctl }),
    conntrack: new ConntrackClient(parts),
    accounting: new AccountingClient(parts),
  };
  const nftTables =
    modules.isAvailable("nf_tables") === false ? undefined : new NftTablesClient(parts);
  return {
    ...sockets,
    ...rules,
    ...(nftTables === undefined ? {} : { nftTables }),
    sysctl,
    modules,
    close() {
      for (const socket of Object.values(sockets)) socket.close();
      closeRules();
      nftTables?.close();
    },
  };
}
