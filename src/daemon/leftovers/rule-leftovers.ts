/** Rules in the tables of iptables that no sync writes any more. */
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { BackendFinding, Iptables } from "../../kernel/kernel.ts";
import { noNames, type RulesRemoval } from "../../reconcile/iptables/plan-rules-removal.ts";
import { planRemovalOfRules, type RulesGoal } from "../../reconcile/remove-all.ts";
import { type Mode, namesInUse, namesOfModes, rulesOfAnyMode } from "./rules-of-modes.ts";

/** One backend of iptables. */
export type Backend = Pick<Iptables, "backend" | "observe" | "apply" | "render" | "parse">;

export interface LeftoverModes {
  /** Their rules are leftovers. */
  readonly modes: readonly Mode[];
  /** Writes rules in this backend. Undefined if none does. */
  readonly current: Mode | undefined;
  /** Its rules are removed later, and emptied if they lead to leftovers. */
  readonly emptied?: Mode;
}

/** What is removed from one family. */
export function rulesGoal(
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

export interface RuleLeftovers {
  readonly backend: BackendFinding["backend"];
  readonly family: IpFamily;
  readonly removal: RulesRemoval;
}

/** Families that cannot be read, or whose rules cannot be removed. */
export interface RulesFailure {
  readonly backend: BackendFinding["backend"];
  readonly family: IpFamily;
  readonly error: unknown;
}

/** Calls `work` with the leftovers of each family. Never rejects. */
export async function forEachFamily(
  iptables: Backend,
  config: Config,
  leftovers: LeftoverModes,
  work: (found: RuleLeftovers) => void | Promise<void>,
): Promise<readonly RulesFailure[]> {
  const failures: RulesFailure[] = [];
  const { backend } = iptables;
  for (const family of ipFamilies) {
    try {
      const goal = rulesGoal(leftovers, family, config, iptables);
      const removal = await planRemovalOfRules(iptables, family, goal);
      await work({ backend, family, removal });
    } catch (error) {
      failures.push({ backend, family, error });
    }
  }
  return failures;
}

/** Removes them and logs it. Never rejects; returns false if something could not be removed. */
export async function removeRules(
  iptables: Backend | undefined,
  config: Config,
  { log, ...leftovers }: LeftoverModes & { readonly log: Logger },
): Promise<boolean> {
  if (iptables === undefined || leftovers.modes.length === 0) return true;
  const { backend } = iptables;
  let chainsAndJumps = 0;
  const kept: string[] = [];
  const failures = await forEachFamily(iptables, config, leftovers, async ({ family, removal }) => {
    if (removal.changes.length > 0) await iptables.apply(family, removal.changes);
    chainsAndJumps += removal.changes.length;
    kept.push(...removal.kept.map((chain) => `${family} ${chain}`));
  });
  const modes = leftovers.modes.join(", ");
  if (chainsAndJumps > 0) {
    log.info("Removed leftover iptables rules", { backend, modes, chainsAndJumps });
  }
  if (kept.length > 0) {
    const reason = "referenced-by-third-party";
    log.warn("Kept leftover iptables chains", { backend, chains: kept, reason });
  }
  for (const { family, error } of failures) {
    const keys = { backend, ipFamily: family, modes, err: errorText(error) };
    log.warn("Cannot remove leftover iptables rules", keys);
  }
  return failures.length === 0;
}
