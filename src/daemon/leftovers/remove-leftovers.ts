/** Removes leftovers of earlier modes, backends and versions, both ours and kube-proxy's, while a mode runs. */
import { errorText } from "../../base/error-text.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables, Kernel } from "../../kernel/kernel.ts";
import type { CleanUpGoal } from "../../reconcile/clean-up.ts";
import { removeIpvs } from "./ipvs-leftovers.ts";
import { removeAndLogNftTables } from "./nft-leftovers.ts";
import {
  type LeftoverLog,
  type LeftoverModes,
  removeAndLog,
  removeRules,
  rulesGoals,
} from "./rule-leftovers.ts";
import type { Mode } from "./rules-of-modes.ts";

/** Maximum number of chains that a log line names. */
const namedChains = 5;

/** How long the first sync waits for the iptables programs, which may hang. After the sync, the search is repeated. */
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

/** Logs the chains of kube-proxy's iptables mode in one line, with advice on how to remove them. */
export function reportLeftoverChains(
  all: readonly Iptables[],
  config: Config,
  { log, ran }: { readonly log: Logger; readonly ran: ReadonlySet<Mode> },
): void {
  if (config.removeLeftovers || ran.has("iptables") || mayBeInUse(config)) return;
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
 * Removes the rules of userspace mode. Call this before the first sync: the rules redirect to listeners that closed
 * with their process, so every matching connection is refused. Never rejects.
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
    results.push(await removeRules(kernel, iptables, config, { ...portals, clock, log }));
  }
  if (results.every(Boolean)) return;
  log.error(
    "Connections to Services may be refused until leftovers of userspace mode are removed",
    {
      advice: "Run kube-ipvs --cleanup on this node",
    },
  );
}

export interface LeftoverContext extends LeftoverLog {
  /** Modes that ran on this node before. */
  readonly ran: ReadonlySet<Mode>;
}

/**
 * Returns a function that removes leftovers. Call that function when the current mode's rules exist; until then, the
 * old mode's rules serve traffic. Removes chains of iptables mode if the configuration enables that or if an earlier
 * kube-ipvs run wrote them. Never rejects; returns false if something that should be removed remains.
 */
export function leftoverRemoval(
  kernel: Kernel,
  config: Config,
  { clock, log, ran }: LeftoverContext,
): (stop: AbortSignal) => Promise<boolean> {
  const { mode } = config;
  const { iptables } = kernel;
  const isIptablesLeft = mode === "userspace" || config.removeLeftovers || ran.has("iptables");
  const ofIptables: readonly Mode[] = isIptablesLeft ? ["iptables"] : [];
  let ranIpvs = ran.has("ipvs");
  return async (stop) => {
    if (config.observeOnly || mayBeInUse(config)) return true;
    const { leftovers, hasPortals } = iptables.choice;
    const inUse: Mode[] = mode === "iptables" || leftovers === undefined ? [] : [...ofIptables];
    if (hasPortals === true && mode !== "userspace") inUse.push("userspace");
    const unused = ["ipvs", "userspace", ...ofIptables] as const;
    const steps = [
      () =>
        removeRules(kernel, iptables, config, {
          ...{ modes: inUse, current: mode, clock, log },
          ...(mode === "userspace" ? { emptied: "ipvs" } : {}),
        }),
      () => removeUnused(kernel, config, { modes: unused, clock, log, stop }),
      () => removeAndLogNftTables(kernel, log),
    ];
    const results: boolean[] = [];
    for (const step of steps) {
      if (stop.aborted) return false;
      results.push(await step());
    }
    if (mode === "ipvs") return results.every(Boolean);
    const isGone = await removeIpvs(kernel, config, {
      ...{ clock, log, stop, ranIpvs },
      hasRules: mode === "userspace" && leftovers !== undefined,
    });
    // After a failure, any leftover of IPVS mode may still exist.
    ranIpvs ||= !isGone;
    return isGone && results.every(Boolean);
  };
}

/** Removes rules in unused iptables backends, and ipsets that no rule uses. Never rejects. */
async function removeUnused(
  kernel: Kernel,
  config: Config,
  { clock, log, stop, modes }: LeftoverLog & UnusedModes & { readonly stop: AbortSignal },
): Promise<boolean> {
  try {
    const results: boolean[] = [];
    for (const unused of await unusedGoals(kernel, config, { modes })) {
      if (stop.aborted) return false;
      const { backend, goal } = unused;
      const isOfRules = backend !== "ipset";
      const what = isOfRules ? "leftover iptables rules" : "leftover ipsets";
      const keys = isOfRules ? { backend, modes: modes.join(", ") } : {};
      results.push(await removeAndLog(unused.kernel, goal, { clock, log, what, keys }));
    }
    return results.every(Boolean);
  } catch (error) {
    log.warn("Cannot remove leftovers from iptables and ipset", { err: errorText(error) });
    return false;
  }
}

type UnusedModes = Pick<LeftoverModes, "modes">;

/** What to remove from an unused iptables backend, or from an unused ipset. */
export interface UnusedGoal {
  readonly backend: string;
  readonly kernel: Kernel;
  readonly goal: CleanUpGoal;
}

/**
 * The unused iptables backends, and ipset if it contains sets although rules are written with nf_tables. Rejects if
 * they cannot be read. Sets in nf_tables are removed with their table.
 */
export async function unusedGoals(
  kernel: Kernel,
  config: Config,
  { modes }: UnusedModes,
): Promise<readonly UnusedGoal[]> {
  const unused = (await kernel.unusedBackends?.()) ?? [];
  const ofRules = unused.map((iptables): UnusedGoal => {
    const rules = rulesGoals(ipFamilies, { modes, current: undefined }, config, iptables);
    return { backend: iptables.backend, kernel: { ...kernel, iptables }, goal: { rules } };
  });
  const { iptables, otherSets: ipSets } = kernel;
  if (iptables.backend !== "nftables" || ipSets === undefined) return ofRules;
  if ((await ipSets.listSets()).length === 0) return ofRules;
  const goal = { rules: new Map(), hasSets: true } as const;
  return [...ofRules, { backend: "ipset", kernel: { ...kernel, ipSets }, goal }];
}
