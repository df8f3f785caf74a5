/** The real kernel: all clients, for the network namespace of the calling thread. */
import { type Clock, systemClock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { nativeSocket } from "../netlink/native-socket.ts";
import type { TransportParts } from "../netlink/transport.ts";
import type { VirtualAddresses } from "../state/dummy-link.ts";
import { AccountingClient } from "./accounting/client.ts";
import { ConntrackClient } from "./conntrack/client.ts";
import { IpSetsClient } from "./ipset/client.ts";
import { type BackendChoice, chooseBackend } from "./iptables/backend.ts";
import { IptablesClient } from "./iptables/client.ts";
import { openGenerations } from "./iptables/generations.ts";
import { IpvsClient } from "./ipvs/client.ts";
import type { Kernel } from "./kernel.ts";
import { DummyLinkClient } from "./link/client.ts";
import { ModulesClient } from "./modules/client.ts";
import { NftTablesClient } from "./nftables/client.ts";
import { runProgram } from "./run-program.ts";
import { SysctlClient } from "./sysctl/client.ts";

export interface KernelParts {
  readonly log: Logger;
  readonly clock?: Clock;
  /** An earlier result. It saves the check of both iptables backends, which starts five processes. */
  readonly iptablesBackend?: BackendChoice;
  /** How IPv4 virtual IPs become local. Defaults to addresses on the link. */
  readonly virtualAddresses?: VirtualAddresses;
}

/** All clients with their sockets. */
export interface OpenKernel extends Kernel {
  readonly iptables: IptablesClient;
  /** Closes the sockets. Kernel state is not changed. */
  close(): void;
}

/**
 * Opens the sockets and chooses the iptables backend. The IPVS family is looked up at its first use. Rejects if a
 * socket is not allowed or iptables is not installed.
 */
export async function openKernel(kernelParts: KernelParts): Promise<OpenKernel> {
  const { log, clock = systemClock } = kernelParts;
  const { iptablesBackend, virtualAddresses = "addresses" } = kernelParts;
  const choice = iptablesBackend ?? (await chooseBackend(runProgram));
  if (iptablesBackend === undefined) reportBackend(choice, log);
  const parts: TransportParts = { shim: nativeSocket, clock };
  const modules = new ModulesClient({ runProgram });
  const sockets = {
    ipvs: new IpvsClient(parts),
    ipSets: new IpSetsClient(parts),
    link: new DummyLinkClient({ ...parts, modules, virtualAddresses }),
    conntrack: new ConntrackClient(parts),
    accounting: new AccountingClient(parts),
  };
  const generations = openGenerations(choice.backend, { ...parts, log });
  const nftTables =
    modules.isAvailable("nf_tables") === false ? undefined : new NftTablesClient(parts);
  const iptables = new IptablesClient({ runProgram, generations, log }, choice);
  const unusedBackend =
    choice.unused === undefined
      ? undefined
      : new IptablesClient({ runProgram, log }, choice.unused);
  return {
    ...sockets,
    iptables,
    ...(unusedBackend === undefined ? {} : { unusedBackend }),
    ...(nftTables === undefined ? {} : { nftTables }),
    sysctl: new SysctlClient(),
    modules,
    close() {
      for (const socket of [...Object.values(sockets), generations]) socket.close();
      nftTables?.close();
    },
  };
}

function reportBackend({ backend, reason, warning }: BackendChoice, log: Logger): void {
  log.info("Using iptables", { backend, reason });
  if (warning !== undefined) log.warn("Two iptables backends are in use", { reason: warning });
}
