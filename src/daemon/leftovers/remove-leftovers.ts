/** Removes leftovers of earlier modes, backends and versions, both ours and kube-proxy's, while a mode runs. */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables, Kernel } from "../../kernel/kernel.ts";
import { tableName } from "../../kernel/nftables/message.ts";
import { noOwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import type { ModeRecord } from "../process/mode-record.ts";
import { ipvsRemoval, removeWhenIdle } from "./ipvs-leftovers.ts";
import {
  isRestricted,
  type Removal,
  removeAndLog,
  rulesRemoval,
  unusedRemovals,
} from "./removal.ts";
import type { Mode } from "./rules-of-modes.ts";

/** kube-proxy's only table in nftables mode, in the families ip and ip6. */
export const tableOfKubeProxy = "kube-proxy";

interface LeftoverLog {
  readonly clock: Clock;
  readonly log: Logger;
}

/** Maximum number of chains that a log line names. */
const namedChains = 5;

/** How long the first sync waits for the iptables programs, which may hang. The search is repeated after the sync. */
const longestSearchMs = 10_000;

/** Whether a kube-proxy in a different mode may be using these rules at the same time. */
export function mayBeInUse({
  ignoreRunningKubeProxy,
  serviceProxyName,
}: Pick<Config, "ignoreRunningKubeProxy" | "serviceProxyName">): boolean {
  return ignoreRunningKubeProxy || serviceProxyName !== undefined;
}

/**
 * The iptables backends that may contain leftovers. Call this before the first sync. Never rejects. If the iptables
 * programs fail or hang, logs a warning and omits their backends.
 */
export async function findBackends(
  { iptables, unusedBackends }: Pick<Kernel, "iptables" | "unusedBackends">,
  config: Config,
  { clock, log }: LeftoverLog,
): Promise<readonly Iptables[]> {
  if (unusedBackends === undefined || mayBeInUse(config)) return [iptables];
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(longestSearchMs, () =>
    late.reject(new Error(`the iptables programs did not finish within ${longestSearchMs}ms`)),
  );
  try {
    return [iptables, ...(await Promise.race([unusedBackends(), late.promise]))];
  } catch (error) {
    log.warn("Cannot look for leftovers in iptables", { err: errorText(error) });
    return [iptables];
  } finally {
    cancel();
  }
}

/** Logs one line that names chains of kube-proxy's iptables mode, with advice on how to remove them. */
export function reportLeftoverChains(
  all: readonly Iptables[],
  config: Config,
  { log, runs }: { readonly log: Logger; readonly runs: EarlierRuns },
): void {
  if (config.removeLeftovers || runs.earlier.has("iptables") || mayBeInUse(config)) return;
  const backends = all.filter(({ choice }) => choice.leftovers !== undefined);
  const found = backends.flatMap(({ choice }) => [...(choice.leftovers ?? [])]);
  const chains = found.flatMap(([, names]) => names);
  if (chains.length === 0) return;
  log.warn("Found rules of kube-proxy's iptables mode", {
    backends: backends.map(({ backend }) => backend),
    ipFamilies: ipFamilies.filter((family) => found.some(([one]) => one === family)),
    chainCount: chains.length,
    chains: chains.slice(0, namedChains),
    effect:
      "Connections to Services that had no endpoints when the mode changed may still be refused",
    advice:
      "Set kubeIpvs.removeLeftovers: true, or stop kube-ipvs and run kube-ipvs --cleanup on this node",
  });
}

/**
 * Removes the rules of userspace mode. Call this before the first sync: the rules redirect to listeners that no longer
 * exist, so every matching connection is refused. Never rejects.
 */
export async function removePortals(
  kernel: Kernel,
  config: Config,
  { backends, clock, log }: LeftoverLog & { readonly backends: readonly Iptables[] },
): Promise<void> {
  if (config.observeOnly || mayBeInUse(config)) return;
  const portals = { modes: ["userspace"] as const, current: undefined };
  const results: boolean[] = [];
  for (const iptables of backends.filter(({ choice }) => choice.hasPortals === true)) {
    results.push(
      await removeAndLog(rulesRemoval(kernel, iptables, config, portals), { clock, log }),
    );
  }
  if (results.every(Boolean)) return;
  log.error(
    "Connections to Services may be refused until leftovers of userspace mode are removed",
    {
      advice: "Run kube-ipvs --cleanup on this node",
    },
  );
}

/** The modes and marks of earlier runs, whose kernel state may still be on this node. */
export type EarlierRuns = Pick<ModeRecord, "earlier" | "earlierMarks" | "ownership">;
export const noEarlierRuns: EarlierRuns = {
  ...{ earlier: new Set(), earlierMarks: [] },
  ownership: noOwnershipRecord,
};

/** Finds one part of the leftovers. Rejects if it cannot be read. */
type FindLeftovers = () => readonly Removal[] | Promise<readonly Removal[]>;

/**
 * Lists the leftovers in the order of their removal, which must wait until the current mode's rules exist.
 * `ipvs-leftovers.ts` describes `ranIpvs`.
 */
function leftoverParts(
  kernel: Kernel,
  config: Config,
  { earlier, earlierMarks, ownership: record }: EarlierRuns,
  ranIpvs: boolean = earlier.has("ipvs"),
): readonly FindLeftovers[] {
  const { mode: current, tunnelForwarding, portRangeMarks } = config;
  const { leftovers, hasPortals } = kernel.iptables.choice;
  const parts: FindLeftovers[] = [];
  if (current !== "ipvs" || !tunnelForwarding)
    parts.push(() => [{ what: "links of earlier tunnels", kernel, links: true }]);
  const hasOthers = !mayBeInUse(config);
  // If no run of iptables mode is recorded, its chains may be kube-proxy's.
  const isOurs = current === "userspace" || config.removeLeftovers || earlier.has("iptables");
  const ofIptables: readonly Mode[] = isOurs ? ["iptables"] : [];
  const modes: Mode[] = [];
  if (hasOthers && current !== "iptables" && leftovers !== undefined) modes.push(...ofIptables);
  if (hasOthers && current !== "userspace" && hasPortals === true) modes.push("userspace");
  const hadMarks = current === "ipvs" && earlierMarks.length > 0;
  // The rules of earlier port ranges and tunnels.
  if (hadMarks && (portRangeMarks === undefined || !tunnelForwarding)) modes.push("ipvs");
  if (modes.length > 0) {
    const emptied = current === "userspace" ? { emptied: "ipvs" as const } : {};
    const leftoverModes = { modes, current, ...emptied };
    parts.push(() => [rulesRemoval(kernel, kernel.iptables, config, leftoverModes)]);
  }
  if (!hasOthers && current === "ipvs" && earlier.has("ipvs")) {
    // Old rules of the same mode refuse connections to new ports. Chains that iptables mode also has may be another
    // proxy's.
    const onlyOfIpvs = { modes: ["ipvs"], current: "iptables" } as const;
    parts.push(async () => [
      ...((await kernel.unusedBackends?.()) ?? []).map((one) =>
        rulesRemoval(kernel, one, config, onlyOfIpvs),
      ),
      ...tableRemoval(kernel),
    ]);
  }
  if (!hasOthers) return parts;
  parts.push(() => unusedRemovals(kernel, config, ["ipvs", "userspace", ...ofIptables]));
  const what = "tables of kube-proxy's nftables mode";
  parts.push(() => [{ what, kernel, table: tableOfKubeProxy }]);
  const hasRules = current === "userspace" && leftovers !== undefined;
  const runs = { ranIpvs, hasRules, record };
  // The table restricts virtual servers, and its sets identify them as ours.
  parts.push(async () => [
    ...(current === "ipvs" ? [] : await ipvsRemoval(kernel, config, runs)),
    ...tableRemoval(kernel),
  ]);
  return parts;
}

/** Our own tables, unless they are in use. */
function tableRemoval(kernel: Kernel): readonly Removal[] {
  if (kernel.iptables.backend === "nftables") return [];
  return [{ what: "leftover rules and sets from nf_tables", kernel, table: tableName }];
}

/** Everything that {@link leftoverRemoval} would remove. Rejects if it cannot be read. */
export async function leftoverRemovals(
  ...given: Parameters<typeof leftoverParts>
): Promise<readonly Removal[]> {
  const found: Removal[] = [];
  for (const find of leftoverParts(...given)) found.push(...(await find()));
  return found;
}

/**
 * Returns a function that removes leftovers. Call that function when the current mode's rules exist; until then, the
 * old mode's rules serve traffic. The function removes chains of iptables mode only if the configuration enables that
 * or an earlier run of kube-ipvs wrote them. It never rejects, and resolves with false if something that should be
 * removed remains.
 */
export function leftoverRemoval(
  kernel: Kernel,
  config: Config,
  { clock, log, runs }: LeftoverLog & { readonly runs: EarlierRuns },
): (stop: AbortSignal) => Promise<boolean> {
  let ranIpvs = runs.earlier.has("ipvs");
  const remove = async (removal: Removal, stop: AbortSignal): Promise<boolean> => {
    if (removal.goal?.ipvs === undefined) return await removeAndLog(removal, { clock, log });
    let isGone = false;
    try {
      isGone = await removeWhenIdle(removal, config, { clock, log, stop });
    } finally {
      // After a failure, any leftover of IPVS mode may still exist.
      ranIpvs ||= !isGone;
    }
    return isGone;
  };
  return async (stop) => {
    if (config.observeOnly) return true;
    let isGone = true;
    for (const find of leftoverParts(kernel, config, runs, ranIpvs)) {
      try {
        for (const removal of await find()) {
          if (stop.aborted) return false;
          const isRemoved = await remove(removal, stop);
          if (!isRemoved && isRestricted(removal)) return false;
          isGone &&= isRemoved;
        }
      } catch (error) {
        log.warn("Cannot remove leftovers", { err: errorText(error) });
        isGone = false;
      }
    }
    return isGone;
  };
}
