/** Opens iptables alone, for code that needs no other part of the kernel. */
import { systemClock } from "../base/clock.ts";
import type { IpFamily } from "../base/ip.ts";
import { ipFamilies } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import { nativeSocket } from "../netlink/native-socket.ts";
import type { TransportDependencies } from "../netlink/transport.ts";
import { ConntrackClient } from "./conntrack/client.ts";
import { chooseBackend } from "./iptables/backend.ts";
import { IptablesClient } from "./iptables/client.ts";
import type { Conntrack, DummyLink, Iptables, Sysctl } from "./kernel.ts";
import { DummyLinkClient } from "./link/client.ts";
import { ModulesClient } from "./modules/client.ts";
import { type KernelOptions, type OpenKernel, openKernel } from "./open-kernel.ts";
import { runProgram } from "./run-program.ts";
import { SysctlClient } from "./sysctl/client.ts";

/** A conntrack client that can close its socket. */
export interface ClosableConntrack extends Conntrack {
  close(): void;
}

/** Reads links, addresses and routes; can close its socket. */
export interface ClosableNetwork {
  readonly link: Pick<DummyLink, "name" | "find" | "listAddresses" | "listGateways">;
  readonly sysctl: Pick<Sysctl, "read">;
  close(): void;
}

export interface UsableIptables {
  readonly iptables: Iptables;
  /** Opens the rest of the kernel, to remove other modes' leftovers. Rejects if sockets are not permitted. */
  readonly openKernel: (options: Pick<KernelOptions, "portRangeMarks">) => Promise<OpenKernel>;
  /** Throws if sockets are not permitted. */
  readonly openNetwork: () => ClosableNetwork;
  /** Throws if sockets are not permitted. */
  readonly openConntrack: () => ClosableConntrack;
  /** The families whose iptables programs work. Never empty. */
  readonly families: readonly IpFamily[];
}

/** Rejects with the reason if no family has installed, permitted programs. */
export async function openIptables(log: Logger): Promise<UsableIptables> {
  const choice = await chooseBackend(runProgram);
  const iptables = new IptablesClient({ runProgram, log }, choice);
  const families: IpFamily[] = [];
  const reasons: string[] = [];
  for (const family of ipFamilies) {
    const { isSupported, reason = "" } = await iptables.probe(family);
    if (isSupported) families.push(family);
    else reasons.push(reason);
  }
  if (families.length === 0) throw new Error(`Cannot use iptables: ${reasons.join("; ")}`);
  return {
    ...{ iptables, families },
    openConntrack: () => new ConntrackClient(transportDependencies()),
    openNetwork: () => {
      const modules = new ModulesClient({ runProgram });
      const link = new DummyLinkClient({ ...transportDependencies(), modules });
      return { link, sysctl: new SysctlClient(), close: () => link.close() };
    },
    openKernel: (options) => openKernel({ ...options, log, iptablesBackend: choice }),
  };
}

function transportDependencies(): TransportDependencies {
  return { shim: nativeSocket, clock: systemClock };
}
