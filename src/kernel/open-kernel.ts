/** The real kernel: all clients, for the network namespace of the calling thread. */
import { type Clock, systemClock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { debugSinkOf } from "../netlink/debug.ts";
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
  /** Read for KUBE_IPVS_DEBUG_NETLINK. */
  readonly environment?: NodeJS.ProcessEnv;
  /** What was found before, to save the check of both backends of iptables: five processes. */
  readonly iptablesBackend?: BackendChoice;
  /** Defaults to addresses. */
  readonly virtualAddresses?: VirtualAddresses;
}

/** The clients with their sockets. */
export interface OpenKernel extends Kernel {
  readonly iptables: IptablesClient;
  /** Closes the sockets; what is in the kernel stays. */
  close(): void;
}

/**
 * Opens the sockets and chooses the iptables backend. IPVS is looked for at its first use. Rejects
 * where a socket is not allowed or no iptables is installed.
 */
export async function openKernel(kernelParts: KernelParts): Promise<OpenKernel> {
  const { log, clock = systemClock, environment = {} } = kernelParts;
  const { iptablesBackend, virtualAddresses = "addresses" } = kernelParts;
  const choice = iptablesBackend ?? (await chooseBackend(runProgram));
  if (iptablesBackend === undefined) reportBackend(choice, log);
  const parts: TransportParts = { shim: nativeSocket, clock, debug: debugSinkOf(environment) };
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
