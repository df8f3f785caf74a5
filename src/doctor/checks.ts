/** The table of checks, in the order in which they are printed. */
import type { Check } from "./check.ts";
import { judgeCollisions, judgeStrictArp } from "./judge/addresses.ts";
import { judgeApi, judgeRights } from "./judge/cluster.ts";
import { judgeConflicts } from "./judge/conflicts.ts";
import {
  judgeConnectionTable,
  judgeConnReuse,
  judgeEstimator,
  judgeExpireNoDestination,
  judgeOtherNamespaces,
  judgeSysctls,
} from "./judge/ipvs.ts";
import {
  judgeCapabilities,
  judgeIpvs,
  judgeKernel,
  judgeModules,
  judgeModulesFolder,
  judgeScheduler,
} from "./judge/kernel.ts";
import {
  judgeBackends,
  judgeConntrack,
  judgeForwarding,
  judgeLeftovers,
  judgeSets,
} from "./judge/netfilter.ts";
import { judgeClock, judgeFiles, judgeLock, judgeProxies } from "./judge/processes.ts";

/** What is only there with virtual servers. */
const ipvs = { modes: ["ipvs"] } as const;
/** What works by rules of the kernel, and cannot do without. */
const kernelModes = { modes: ["ipvs", "iptables"] } as const;

export const checks: readonly Check[] = [
  {
    name: "ipvs",
    ...ipvs,
    why: "without it no Service can be served in IPVS mode",
    judge: judgeIpvs,
  },
  {
    name: "capabilities",
    ...kernelModes,
    why: "without NET_ADMIN nothing in the kernel can be read or changed",
    judge: judgeCapabilities,
  },
  {
    name: "kernel",
    ...ipvs,
    why: "faults of IPVS that no proxy can work around",
    judge: judgeKernel,
  },
  {
    name: "modules",
    ...kernelModes,
    why: "virtual servers, sets, rules and kube-ipvs0 each need theirs",
    judge: judgeModules,
  },
  {
    name: "modules-folder",
    ...kernelModes,
    why: "modprobe loads what is missing from there",
    judge: judgeModulesFolder,
  },
  {
    name: "scheduler",
    ...ipvs,
    needs: ["ipvs"],
    why: "without it no virtual server can be created, and kube-ipvs does not start",
    judge: judgeScheduler,
  },
  {
    name: "network-namespaces",
    ...ipvs,
    needs: ["ipvs"],
    why: "IPVS shares its connection table and the work of its statistics among all namespaces",
    judge: judgeOtherNamespaces,
  },
  {
    name: "sysctls",
    ...ipvs,
    why: "masquerading, forwarding and session affinity depend on them",
    judge: judgeSysctls,
  },
  {
    name: "forwarding",
    modes: ["iptables"],
    why: "without it packets to pods end at this node, and in mode iptables nobody sets it",
    judge: judgeForwarding,
  },
  {
    name: "conn-reuse-mode",
    ...ipvs,
    needs: ["ipvs"],
    why: "decides what becomes of a client port that is used again soon",
    judge: judgeConnReuse,
  },
  {
    name: "expire-nodest-conn",
    ...ipvs,
    needs: ["ipvs"],
    why: "without it packets to a removed real server vanish until the client gives up",
    judge: judgeExpireNoDestination,
  },
  {
    name: "estimator",
    ...ipvs,
    needs: ["ipvs", "installed"],
    why: "its work grows with servers times processors, and older kernels do it all at once",
    judge: judgeEstimator,
  },
  {
    name: "connection-table",
    ...ipvs,
    needs: ["ipvs", "installed"],
    why: "long chains make every new connection slower",
    judge: judgeConnectionTable,
  },
  {
    name: "conntrack",
    ...kernelModes,
    why: "new connections are dropped when it is full",
    judge: judgeConntrack,
  },
  {
    name: "ipset-limits",
    ...ipvs,
    why: "a full set leaves out further Services",
    judge: judgeSets,
  },
  {
    name: "iptables-backends",
    ...kernelModes,
    why: "rules of both are in force, each invisible to the programs of the other",
    judge: judgeBackends,
  },
  {
    name: "leftovers",
    why: "rules of kube-proxy's other modes catch packets first",
    judge: judgeLeftovers,
  },
  {
    name: "vip-collisions",
    ...ipvs,
    needs: ["installed"],
    why: "an address on kube-ipvs0 is answered by this node alone: who else has it cannot be reached",
    judge: judgeCollisions,
  },
  {
    name: "conflicts",
    needs: ["daemon"],
    why: "a Service is not served where another one has its address and port: clients reach the other one",
    judge: judgeConflicts,
  },
  {
    name: "strict-arp",
    ...ipvs,
    needs: ["cluster"],
    why: "without it every node answers ARP for the addresses that MetalLB announces",
    judge: judgeStrictArp,
  },
  {
    name: "other-proxy",
    why: "two proxies undo each other's work for ever",
    judge: judgeProxies,
  },
  {
    name: "clock",
    needs: ["cluster"],
    why: "certificates and tokens are refused where the clock is wrong",
    judge: judgeClock,
  },
  {
    name: "api-server",
    needs: ["cluster"],
    why: "Services and EndpointSlices come from there",
    judge: judgeApi,
  },
  {
    name: "api-rights",
    needs: ["cluster"],
    why: "what may not be read is not served",
    judge: judgeRights,
  },
  {
    name: "file-descriptors",
    why: "watches, health-check node ports and the iptables programs need them",
    judge: judgeFiles,
  },
  {
    name: "iptables-lock",
    ...kernelModes,
    why: "programs that do not share the lock overwrite each other's rules",
    judge: judgeLock,
  },
];
