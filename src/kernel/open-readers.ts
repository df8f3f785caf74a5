/**
 * Clients for commands that only read the kernel. No iptables backend is chosen. If the kernel lacks a facility, its
 * client fails only when it is used.
 */
import type { Clock } from "../base/clock.ts";
import type { IpAddress } from "../base/ip.ts";
import { nativeSocket } from "../netlink/native-socket.ts";
import type { TransportDependencies } from "../netlink/transport.ts";
import { ConntrackClient } from "./conntrack/client.ts";
import { IpSetsClient } from "./ipset/client.ts";
import {
  type BackendSurveys,
  type IptablesBackend,
  programsOf,
  surveyBackends,
} from "./iptables/backend.ts";
import { IptablesClient } from "./iptables/client.ts";
import { IpvsClient } from "./ipvs/client.ts";
import type { DummyLink, IpSets, Iptables, Ipvs, IpvsTraffic, NftTables } from "./kernel.ts";
import { DummyLinkClient } from "./link/client.ts";
import { RoutesClient } from "./link/routes.ts";
import { type ListeningSocket, listListeningSockets } from "./listening-sockets.ts";
import { ModulesClient } from "./modules/client.ts";
import { NftTablesClient } from "./nftables/client.ts";
import { NftRulesClient } from "./nftables/rules-client.ts";
import { NftRulesetClient } from "./nftables/ruleset-client.ts";
import { NftSetsClient } from "./nftables/sets-client.ts";
import { listRecentClients } from "./recent-lists.ts";
import { runProgram } from "./run-program.ts";
import { SysctlClient } from "./sysctl/client.ts";

export interface KernelReaders {
  /** The first request may load the module ip_vs. */
  readonly ipvs: Pick<Ipvs, "listVirtualServers" | "listRealServers" | "checkScheduler"> &
    IpvsTraffic;
  readonly ipSets: Pick<IpSetsClient, "listSets" | "listEntries" | "listOtherEntries">;
  readonly link: Pick<DummyLink, "find" | "listAddresses" | "listGateways">;
  readonly routes: Pick<RoutesClient, "find">;
  readonly links: Pick<RoutesClient, "listLinks" | "listMarkRules">;
  readonly conntrack: Pick<ConntrackClient, "listFlows">;
  readonly sysctl: SysctlClient;
  readonly sockets: { listListening(): readonly ListeningSocket[] };
  /** Client lists of the iptables `recent` match, which iptables mode uses for session affinity. */
  readonly recentLists: { clientsIn(list: string): readonly IpAddress[] };
  readonly modules: ModulesClient;
  readonly surveyBackends: () => Promise<BackendSurveys>;
  /** The sets in kube-ipvs' nf_tables tables. */
  readonly nftSets: Pick<IpSets, "listSets" | "listEntries">;
  readonly openRules: (backend: IptablesBackend | "nftables") => Promise<Pick<Iptables, "observe">>;
  readonly nftTables: Pick<NftTables, "has">;
  readonly nftRules: Pick<NftRulesetClient, "read">;
  close(): void;
}

/** Opens the sockets in the calling thread's network namespace. Throws NetlinkError. */
export function openReaders(clock: Clock): KernelReaders {
  const parts: TransportDependencies = { shim: nativeSocket, clock };
  const modules = new ModulesClient({ runProgram });
  const sockets = {
    ipvs: new IpvsClient(parts, [0xffffffff]),
    ipSets: new IpSetsClient(parts),
    nftTables: new NftTablesClient(parts),
    nftRules: new NftRulesetClient(parts),
    nftSets: new NftSetsClient(parts),
    ownNftRules: new NftRulesClient(parts, "it was chosen earlier"),
    // With "routes", the client lists virtual IPs in both forms.
    link: new DummyLinkClient({ ...parts, modules, virtualAddresses: "routes" }),
    routes: new RoutesClient(parts),
    conntrack: new ConntrackClient(parts),
  };
  return {
    ...sockets,
    links: sockets.routes,
    sysctl: new SysctlClient(),
    sockets: { listListening: listListeningSockets },
    recentLists: { clientsIn: listRecentClients },
    modules,
    surveyBackends: () => surveyBackends(runProgram),
    openRules: async (backend) => {
      if (backend === "nftables") return sockets.ownNftRules;
      const programs = await programsOf(runProgram, backend);
      return new IptablesClient(
        { runProgram },
        { backend, programs, reason: "it was chosen earlier" },
      );
    },
    close() {
      for (const socket of Object.values(sockets)) socket.close();
    },
  };
}
