/** Clients for who only looks at a kernel: no backend of iptables is chosen, and nothing fails that is not used. */
import type { Clock } from "../base/clock.ts";
import { debugSinkOf } from "../netlink/debug.ts";
import { nativeSocket } from "../netlink/native-socket.ts";
import type { TransportParts } from "../netlink/transport.ts";
import { dummyLinkName } from "../state/dummy-link.ts";
import { openIpSets } from "./ipset/client.ts";
import { type BackendSurveys, surveyBackends } from "./iptables/backend.ts";
import { openIpvs } from "./ipvs/client.ts";
import type { DummyLink, IpSets, Ipvs, NftTables } from "./kernel.ts";
import { lazyIpvs } from "./lazy-ipvs.ts";
import { openDummyLink } from "./link/client.ts";
import { ModulesClient } from "./modules/client.ts";
import { openNftTables } from "./nftables/client.ts";
import { runProgram } from "./run-program.ts";
import { SysctlClient } from "./sysctl/client.ts";

export interface KernelReaders {
  /** Its first request may load the module ip_vs. */
  readonly ipvs: Pick<Ipvs, "listVirtualServers" | "listRealServers" | "checkScheduler">;
  readonly ipSets: Pick<IpSets, "listSets" | "listEntries">;
  readonly link: Pick<DummyLink, "find" | "listAddresses" | "listGateways">;
  readonly sysctl: SysctlClient;
  readonly modules: ModulesClient;
  readonly surveyBackends: () => Promise<BackendSurveys>;
  readonly nftTables: Pick<NftTables, "has">;
  close(): void;
}

/** Opens the sockets, in the network namespace of the calling thread. Throws NetlinkError. */
export function openReaders(
  clock: Clock,
  environment: Readonly<Record<string, string | undefined>>,
): KernelReaders {
  const parts: TransportParts = { shim: nativeSocket, clock, debug: debugSinkOf(environment) };
  const modules = new ModulesClient({ runProgram });
  const sockets = {
    ipvs: lazyIpvs(() => openIpvs(parts)),
    ipSets: openIpSets(parts),
    nftTables: openNftTables(parts),
    link: openDummyLink({ ...parts, modules }, dummyLinkName),
  };
  return {
    ...sockets,
    sysctl: new SysctlClient(),
    modules,
    surveyBackends: () => surveyBackends(runProgram),
    close() {
      for (const socket of Object.values(sockets)) socket.close();
    },
  };
}
