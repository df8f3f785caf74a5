/** Reads the node on which this process runs. Changes nothing. */
import { availableParallelism, release } from "node:os";
import type { ApiConnection } from "../api/connection.ts";
import { neededRights, reviewRights, rightsTo } from "../api/needed-rights.ts";
import { attempt } from "../base/attempt.ts";
import type { Clock } from "../base/clock.ts";
import { version } from "../base/version.ts";
import { type Config, hasApiServer } from "../config/config.ts";
import { iptablesLocalhostNodePorts } from "../daemon/node/iptables-facts.ts";
import { nodePortNetworks } from "../daemon/node/node-facts.ts";
import { type KernelReaders, openReaders } from "../kernel/open-readers.ts";
import type { Node } from "./node.ts";
import { readCluster } from "./read/cluster.ts";
import { readDaemon, readNodePorts, readPackets } from "./read/daemon.ts";
import {
  readAddresses,
  readBackends,
  readConnTabBits,
  readForwarding,
  readIpvs,
  readNftTables,
  readReversePath,
  readTunnels,
} from "./read/kernel-state.ts";
import { readModules, readSchedulerProblem } from "./read/modules.ts";
import { readOtherNamespaces } from "./read/namespaces.ts";
import { once } from "./read/once.ts";
import { readFiles, readMissingCapabilities, readMounts, readProxies } from "./read/processes.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Opens the kernel readers for this node. Throws NetlinkError. */
export function openNode(
  config: Config,
  isBeforeInstall: boolean,
  clock: Clock,
  environment: Environment,
): Node & { readonly close: () => void } {
  const { mode, scheduler, strictARP, lockName, nodeName } = config;
  const { healthzBindAddress, metricsBindAddress, operatorSocket } = config;
  const ports = [healthzBindAddress?.port, metricsBindAddress.port].filter(
    (port) => port !== undefined,
  );
  const readers = openReaders(clock);
  const backends = once(() => readBackends(readers));
  const rulesWriter = once(() => readRulesWriter(config, readers, backends));
  const rights = [
    ...neededRights,
    ...(config.removeNotReadyTaint ? rightsTo("", "nodes", ["patch"]) : []),
    ...(config.secureMetrics === undefined ? [] : reviewRights),
  ];
  const skipped = skipReason(config, environment);
  let connection: ApiConnection | undefined;
  const connect = async (): Promise<ApiConnection> => {
    connection = await openApi(config, clock, environment);
    return connection;
  };
  return {
    kernelRelease: release(),
    cpuCount: availableParallelism(),
    isBeforeInstall,
    mode,
    scheduler,
    strictARP,
    iptablesLocalhostNodePorts:
      config.nodePortAddresses.kind !== "primary" &&
      iptablesLocalhostNodePorts(config, nodePortNetworks("IPv4", config, undefined)),
    isTunneling: config.tunnelForwarding,
    missingCapabilities: readMissingCapabilities,
    modules: once(async () => readModules(readers, mode, await rulesWriter())),
    rulesWriter,
    schedulerProblem: () => readSchedulerProblem(readers, scheduler),
    sysctl: (path) => attempt(() => readers.sysctl.read(path)),
    otherNamespaces: readOtherNamespaces,
    ipvs: once(() => readIpvs(readers)),
    connTabBits: () => readConnTabBits(readers),
    sets: async () => {
      const { ipSets, nftSets } = readers;
      return ((await rulesWriter()) === "nftables" ? nftSets : ipSets).listSets();
    },
    backends,
    nftTables: () => readNftTables(readers),
    addresses: () => readAddresses(readers),
    reversePath: () => readReversePath(readers),
    tunnels: () => readTunnels(readers),
    tunnelForwarding: () => readForwarding(readers),
    proxies: () => readProxies(readers, { lockName, ports }),
    files: readFiles,
    mounts: () => readMounts(readers.modules.releaseFolder),
    daemon: once(() => readDaemon(operatorSocket)),
    nodePorts: () => readNodePorts(operatorSocket),
    packets: () => readPackets(operatorSocket, readers),
    cluster:
      skipped === undefined ? readCluster({ connect, clock, nodeName, rights }) : { skipped },
    close() {
      readers.close();
      connection?.close();
    },
  };
}

/** Chooses as the daemon does: nf_tables if it is configured, or if iptables or ipset is missing. */
async function readRulesWriter(
  { mode, rules }: Config,
  { ipSets }: Pick<KernelReaders, "ipSets">,
  backends: Node["backends"],
): Promise<"iptables" | "nftables"> {
  if (mode !== "ipvs" || rules === "iptables") return "iptables";
  if (rules === "nftables") return "nftables";
  const hasSets = (await ipSets.listSets().catch(() => undefined)) !== undefined;
  const { legacy, nft } = await backends();
  return hasSets && (legacy.isInstalled || nft.isInstalled) ? "iptables" : "nftables";
}

/** Why the API server is not checked. Undefined if it is. */
function skipReason(config: Config, environment: Environment): string | undefined {
  if (config.objectsFrom.kind === "manifests") return "objects come from --manifests";
  return hasApiServer(config, environment)
    ? undefined
    : "no API server is configured (--config, --kubeconfig or --master)";
}

async function openApi(
  { objectsFrom }: Config,
  clock: Clock,
  environment: Environment,
): Promise<ApiConnection> {
  const { kubeconfigPath = "", masterUrl = "" } = objectsFrom.kind === "cluster" ? objectsFrom : {};
  // Loaded only when needed, because the client library uses most of the program's memory.
  const { openConnection } = await import("../api/cluster/open-connection.ts");
  return await openConnection(
    { clock, environment },
    {
      kubeconfig: kubeconfigPath,
      master: masterUrl,
      userAgent: `kube-ipvs/${version} (linux/${process.arch})`,
    },
  );
}
