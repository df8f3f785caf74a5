/** The steps of a clean-up, and of the removal of leftovers while a mode runs. */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables, Kernel } from "../../kernel/kernel.ts";
import { familyWords } from "../../kernel/nftables/message.ts";
import { emptyPlan } from "../../reconcile/change-plan.ts";
import {
  type CleanUpFailure,
  type CleanUpGoal,
  type CleanUpReport,
  cleanUp,
  type RulesGoal,
} from "../../reconcile/clean-up.ts";
import { noNames } from "../../reconcile/iptables/plan-rules-removal.ts";
import { tunnelLinks } from "../../state/tunnel-link.ts";
import { type Mode, namesInUse, namesOfModes, rulesOfAnyMode } from "./rules-of-modes.ts";

/** One step. It has exactly one of `goal`, `table` and `links`. */
export interface Removal {
  /** Names the objects in log messages. */
  readonly what: string;
  readonly keys?: Readonly<Record<string, string>>;
  readonly kernel: Kernel;
  readonly goal?: CleanUpGoal;
  /** The name of nftables tables in the families ip and ip6. */
  readonly table?: string;
  /** If true, removes the links that receive tunneled packets. The rules that restrict them are removed later. */
  readonly links?: true;
  /** The unused iptables backend with the rules, or `ipset` if ipsets are unused. Undefined for state in use. */
  readonly unused?: string;
}

/** Whether later steps may remove the rules that restrict these links or virtual servers. */
export function isRestricted({ links, goal }: Removal): boolean {
  return (links ?? goal?.ipvs) !== undefined;
}

export interface Removed extends CleanUpReport {
  /** Names of nftables tables, such as `ip kube-proxy`. */
  readonly tables: readonly string[];
}

export interface RemovalContext {
  readonly clock: Clock;
  /** If true, nothing is removed, and the report lists what would be removed, except the links of tunnels. */
  readonly isDryRun?: boolean;
}

/** Never rejects. */
export async function carryOut(
  { kernel, goal, table, links }: Removal,
  context: RemovalContext,
): Promise<Removed> {
  const nothing = { plan: emptyPlan, changes: new Map(), kept: [], tables: [] };
  if (table !== undefined) return { ...nothing, ...(await removeTables(kernel, table, context)) };
  if (links === true) return { ...nothing, failures: await removeTunnelLinks(kernel, context) };
  return { ...nothing, ...(await cleanUp({ ...context, kernel }, goal ?? { rules: new Map() })) };
}

async function removeTables(
  { nftTables }: Pick<Kernel, "nftTables">,
  name: string,
  { isDryRun = false }: RemovalContext,
): Promise<Pick<Removed, "tables" | "failures">> {
  const tables: string[] = [];
  const failures: CleanUpFailure[] = [];
  for (const family of ipFamilies) {
    const table = `${familyWords[family]} ${name}`;
    try {
      if ((await nftTables?.has(family, name)) !== true) continue;
      if (!isDryRun) await nftTables?.remove(family, name);
      tables.push(table);
    } catch (error) {
      failures.push({ subject: `nft table ${table}`, error });
    }
  }
  return { tables, failures };
}

async function removeTunnelLinks(
  { tunnels }: Pick<Kernel, "tunnels">,
  { isDryRun = false }: RemovalContext,
): Promise<readonly CleanUpFailure[]> {
  const failures: CleanUpFailure[] = [];
  for (const family of isDryRun ? [] : ipFamilies) {
    const remove = tunnels?.remove(family);
    await remove?.catch((error) => failures.push({ subject: tunnelLinks[family].name, error }));
  }
  return failures;
}

/** Logs what was removed and kept. Never rejects; returns false if something could not be removed. */
export async function removeAndLog(
  removal: Removal,
  { clock, log }: RemovalContext & { readonly log: Logger },
): Promise<boolean> {
  const { what, keys = {} } = removal;
  const { changes, tables, kept, failures } = await carryOut(removal, { clock });
  if (changes.size > 0) log.info(`Removed ${what}`, { ...keys, ...Object.fromEntries(changes) });
  if (tables.length > 0) log.info(`Removed ${what}`, { ...keys, tables });
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

export interface LeftoverModes {
  /** Modes whose rules are leftovers. */
  readonly modes: readonly Mode[];
  /** The mode that writes rules in this backend. Undefined if none does. */
  readonly current: Mode | undefined;
  /** A mode whose rules are removed later. Those of its chains that refer to leftovers are emptied now. */
  readonly emptied?: Mode;
}

/** The step that removes the rules of some modes from one iptables backend. */
export function rulesRemoval(
  kernel: Kernel,
  iptables: Iptables,
  config: Config,
  leftovers: LeftoverModes,
): Removal {
  const { backend } = iptables;
  return {
    what: "leftover iptables rules",
    keys: { backend, modes: leftovers.modes.join(", ") },
    kernel: { ...kernel, iptables },
    goal: { rules: rulesGoals(ipFamilies, leftovers, config, iptables) },
    ...(iptables === kernel.iptables ? {} : { unused: backend }),
  };
}

/** The rules to remove from each family's tables. */
export function rulesGoals(
  families: readonly IpFamily[],
  { modes, current, emptied }: LeftoverModes,
  config: Config,
  iptables: Pick<Iptables, "render">,
): CleanUpGoal["rules"] {
  return new Map(
    families.map((family): [IpFamily, RulesGoal] => {
      const { chains, jumps } = rulesOfAnyMode(family, config);
      const inUse = (mode: Mode): RulesGoal["kept"] => namesInUse(mode, family, config, iptables);
      return [
        family,
        {
          leftover: namesOfModes(modes, family, config, iptables),
          kept: current === undefined ? noNames : inUse(current),
          ...(emptied === undefined ? {} : { emptied: inUse(emptied) }),
          places: { chains, jumps },
        },
      ];
    }),
  );
}

/**
 * The steps that remove rules from the unused iptables backends and, if rules are written with nf_tables, our ipsets.
 * Rejects if the rules or ipsets cannot be read. Sets in nf_tables are removed with their table.
 */
export async function unusedRemovals(
  kernel: Kernel,
  config: Config,
  modes: readonly Mode[],
): Promise<readonly Removal[]> {
  const unused = (await kernel.unusedBackends?.()) ?? [];
  const ofRules = unused.map((iptables) =>
    rulesRemoval(kernel, iptables, config, { modes, current: undefined }),
  );
  const { iptables, otherSets: ipSets } = kernel;
  if (iptables.backend !== "nftables" || ipSets === undefined) return ofRules;
  if ((await ipSets.listSets()).length === 0) return ofRules;
  const goal = { rules: new Map(), hasSets: true } as const;
  const ofSets = { what: "leftover ipsets", kernel: { ...kernel, ipSets }, goal, unused: "ipset" };
  return [...ofRules, ofSets];
}
