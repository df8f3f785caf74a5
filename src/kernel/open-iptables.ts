/** iptables alone, for who needs nothing else of the kernel. */
import { systemClock } from "../base/clock.ts";
import type { IpFamily } from "../base/ip.ts";
import { ipFamilies } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import { debugSinkOf } from "../netlink/debug.ts";
import { nativeSocket } from "../netlink/native-socket.ts";
import { ConntrackClient } from "./conntrack/client.ts";
import { chooseBackend } from "./iptables/backend.ts";
import { IptablesClient } from "./iptables/client.ts";
import type { Conntrack, Iptables } from "./kernel.ts";
import { type OpenKernel, openKernel } from "./open-kernel.ts";
import { runProgram } from "./run-program.ts";

/** And the end of its socket. */
export interface ClosableConntrack extends Conntrack {
  close(): void;
}

export interface UsableIptables {
  readonly iptables: Iptables;
  /** Everything else of the kernel, for who removes what other modes left. Rejects where sockets are not allowed. */
  readonly openKernel: () => Promise<OpenKernel>;
  /** Throws where a socket is not allowed. */
  readonly openConntrack: () => ClosableConntrack;
  /** Never empty. */
  readonly families: readonly IpFamily[];
}

/** Rejects, with what is missing, where no family's programs are installed or allowed. */
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
    openConntrack: () =>
      new ConntrackClient({
        shim: nativeSocket,
        clock: systemClock,
        debug: debugSinkOf(process.env),
      }),
    openKernel: () => openKernel({ log, iptablesBackend: choice, environment: process.env }),
  };
}
