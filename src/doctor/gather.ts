/** Reads everything that the checks ask about. Nothing is changed, and nothing that fails hides the rest. */
import { availableParallelism, release } from "node:os";
import type { Clock } from "../base/clock.ts";
import { version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import { type KernelReaders, openReaders } from "../kernel/open-readers.ts";
import { factOf, type NodeFacts } from "./facts.ts";
import { readCluster, unreadable } from "./read/cluster.ts";
import { readDaemon } from "./read/daemon.ts";
import {
  readAddresses,
  readBackends,
  readConnTabBits,
  readIpvs,
  readNftTables,
  readSysctls,
} from "./read/kernel-state.ts";
import { readModules, readSchedulerProblem } from "./read/modules.ts";
import { readOtherNamespaces } from "./read/namespaces.ts";
import { readFiles, readMissingCapabilities, readMounts, readProxies } from "./read/processes.ts";

export interface GatherParts {
  readonly clock: Clock;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export async function gatherFacts(
  config: Config,
  isBeforeInstall: boolean,
  parts: GatherParts,
): Promise<NodeFacts> {
  const readers = openReaders(parts.clock, parts.environment);
  try {
    const { mode, scheduler, isStrictArp, lockName } = config;
    const { healthzBindAddress, metricsBindAddress, operatorSocketPath } = config;
    const kernelRelease = release();
    const ports = [healthzBindAddress?.port, metricsBindAddress.port].filter(
      (port) => port !== undefined,
    );
    return {
      kernelRelease,
      cpuCount: availableParallelism(),
      isBeforeInstall,
      mode,
      scheduler,
      isStrictArp,
      missingCapabilities: await factOf(() => readMissingCapabilities()),
      ...(await gatherKernel(readers, config)),
      sysctls: readSysctls(readers, { isStrictArp, kernelRelease }),
      otherNamespaces: await factOf(() => readOtherNamespaces()),
      proxies: await factOf(() => readProxies(readers, { lockName, ports })),
      files: await factOf(readFiles),
      mounts: await factOf(() => readMounts(readers.modules.releaseFolder)),
      daemon: await readDaemon(operatorSocketPath),
      cluster: await gatherCluster(config, parts),
    };
  } finally {
    readers.close();
  }
}

type KernelFacts = Pick<
  NodeFacts,
  | "modules"
  | "schedulerProblem"
  | "ipvs"
  | "connTabBits"
  | "sets"
  | "backends"
  | "nftTables"
  | "addresses"
>;

async function gatherKernel(
  readers: KernelReaders,
  { mode, scheduler }: Config,
): Promise<KernelFacts> {
  return {
    modules: await factOf(() => readModules(readers, mode)),
    schedulerProblem: await factOf(() => readSchedulerProblem(readers, scheduler)),
    ipvs: await factOf(() => readIpvs(readers)),
    connTabBits: await factOf(() => readConnTabBits(readers)),
    sets: await factOf(() => readers.ipSets.listSets()),
    backends: await factOf(() => readBackends(readers)),
    nftTables: await factOf(() => readNftTables(readers)),
    addresses: await factOf(() => readAddresses(readers)),
  };
}

/** Nobody said where an API server is: no configuration names one, and this is no pod. */
function skipReason(
  { objectsFrom }: Config,
  environment: GatherParts["environment"],
): string | undefined {
  if (objectsFrom.kind === "manifests") return "objects come from --manifests";
  const { kubeconfigPath = "", masterUrl = "" } = objectsFrom;
  if (kubeconfigPath !== "" || masterUrl !== "") return undefined;
  if (environment["KUBERNETES_SERVICE_HOST"] !== undefined) return undefined;
  return "no API server is configured (--config, --kubeconfig or --master)";
}

async function gatherCluster(
  config: Config,
  { clock, environment }: GatherParts,
): Promise<NodeFacts["cluster"]> {
  const skipped = skipReason(config, environment);
  if (skipped !== undefined) return { skipped };
  const { objectsFrom, nodeName } = config;
  const { kubeconfigPath = "", masterUrl = "" } = objectsFrom.kind === "cluster" ? objectsFrom : {};
  // Loaded late: the client library is most of the program's memory.
  const { openConnection } = await import("../api/cluster/open-connection.ts");
  const opened = await factOf(() =>
    openConnection(
      { clock, environment },
      {
        kubeconfig: kubeconfigPath,
        master: masterUrl,
        userAgent: `kube-ipvs/${version} (linux/${process.arch})`,
      },
    ),
  );
  if ("unreadable" in opened) return unreadable(opened);
  try {
    return await readCluster({ connection: opened.value, clock, nodeName });
  } finally {
    opened.value.close();
  }
}
