/** Removes iptables rules that no sync maintains anymore. */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables, Kernel } from "../../kernel/kernel.ts";
import {
  type CleanUpGoal,
  cleanUp,
  type RulesGoal,
  removeTunnelLinks,
} from "../../reconcile/clean-up.ts";
import { noNames } from "../../reconcile/iptables/plan-rules-removal.ts";
import { type Mode, namesInUse, namesOfModes, rulesOfAnyMode } from "./rules-of-modes.ts";

export interface LeftoverModes {
  /** Modes whose rules are leftovers. */
  readonly modes: readonly Mode[];
  /** The mode that writes rules in this backend. Undefined if none does. */
  readonly current: Mode | undefined;
  /** A mode whose rules are removed later. If its chains lead to leftovers, they are emptied now. */
  readonly emptied?: Mode;
}

/** The rules to remove from each family's tables. */
export function rulesGoals(
  families: readonly IpFamily[],
  leftovers: LeftoverModes,
  config: Config,
  iptables: Pick<Iptables, "render">,
): CleanUpGoal["rules"] {
  return new Map(
    families.map((family) => [family, rulesGoal(leftovers, family, config, iptables)]),
  );
}

function rulesGoal(
  { modes, current, emptied }: LeftoverModes,
  family: IpFamily,
  config: Config,
  iptables: Pick<Iptables, "render">,
): RulesGoal {
  const { chains, jumps } = rulesOfAnyMode(family, config);
  return {
    leftover: namesOfModes(modes, family, config, iptables),
    kept: current === undefined ? noNames : namesInUse(current, family, config, iptables),
    ...(emptied === undefined ? {} : { emptied: namesInUse(emptied, family, config, iptables) }),
    places: { chains, jumps },
  };
}

/**
 * Removes leftover rules in one iptables backend and logs the result. Never rejects; returns false if something could
 * not be removed.
 */
export async function removeRules(
  kernel: Kernel,
  iptables: Iptables | undefined,
  config: Config,
  { clock, log, ...leftovers }: LeftoverModes & LeftoverLog,
): Promise<boolean> {
  if (iptables === undefined || leftovers.modes.length === 0) return true;
  const rules = rulesGoals(ipFamilies, leftovers, config, iptables);
  const what = "leftover iptables rules";
  const keys = { backend: iptables.backend, modes: leftovers.modes.join(", ") };
  return removeAndLog({ ...kernel, iptables }, { rules }, { clock, log, what, keys });
}

/**
 * Removes the links of earlier tunnels, unless this run may use them. Call this before {@link removeRules}, because rules
 * restrict these links. Never rejects; returns false if a link may remain.
 */
export async function removeEarlierTunnelLinks(
  kernel: Pick<Kernel, "tunnels">,
  { mode, tunnelForwarding }: Pick<Config, "mode" | "tunnelForwarding">,
  log: Logger,
): Promise<boolean> {
  if (mode === "ipvs" && tunnelForwarding) return true;
  const failures = await removeTunnelLinks(kernel);
  for (const { subject: link, error } of failures)
    log.warn("Cannot remove a link of earlier tunnels", { link, err: errorText(error) });
  return failures.length === 0;
}

export interface LeftoverLog {
  readonly clock: Clock;
  readonly log: Logger;
}

/** Like {@link removeRules}, but for any clean-up goal. `what` names the objects in log messages. */
export async function removeAndLog(
  kernel: Kernel,
  goal: CleanUpGoal,
  {
    clock,
    log,
    what,
    keys = {},
  }: LeftoverLog & { readonly what: string; readonly keys?: Readonly<Record<string, string>> },
): Promise<boolean> {
  const { changes, kept, failures } = await cleanUp({ kernel, clock }, goal);
  if (changes.size > 0) log.info(`Removed ${what}`, { ...keys, ...Object.fromEntries(changes) });
  for (const [reason, some] of Map.groupBy(kept, (one) => one.reason)) {
    const subjects = some.map(({ subject }) => subject);
    const level = reason === "referenced-by-third-party" ? "warn" : "info";
    log[level](`Kept ${what}`, { ...keys, subjects, reason });
  }
  for (const { subject, error } of failures) {
    log.warn(`Cannot remove ${what}`, { ...keys, subject, err: errorText(error) });
  }
  return failures.length === 0;
}
