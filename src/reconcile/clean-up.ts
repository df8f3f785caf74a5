/** Clean-up and the removal of leftovers, which use the ordinary reconciler with an empty desired state. */
import type { Clock } from "../base/clock.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import { silentLogger } from "../base/log.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { Rule, RuleSet } from "../state/rule.ts";
import type { ServerKey } from "../state/virtual-server.ts";
import type { RefusedChange } from "./apply/outcome.ts";
import { isSetInUse } from "./apply/refusal-reason.ts";
import {
  planRulesRemoval,
  type RulesRemoval,
  type RulesRemovalInput,
} from "./iptables/plan-rules-removal.ts";
import { subjectOf } from "./kinds/kinds.ts";
import { observedParts } from "./observed/observer.ts";
import { noOwnershipRecord, type OwnershipRecord, readOnlyRecord } from "./ownership/ownership.ts";
import { isExcluded, type OwnershipPolicy } from "./ownership/policy.ts";
import { Reconciler } from "./reconciler.ts";
import type { SyncReport } from "./report.ts";
import { countedText, subjectText } from "./subject.ts";
import { emptyGoal } from "./sync-goal.ts";

/** Selects the rules to remove in one family. */
export interface RulesGoal extends Pick<RulesRemovalInput, "leftover" | "kept" | "emptied"> {
  /** The chains that must be read to find the rules. */
  readonly places: RuleSet;
}

/** Kernel state of IPVS mode other than rules. */
export interface IpvsGoal {
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  readonly ownership: OwnershipPolicy;
  readonly record: OwnershipRecord;
  /** Whether the kernel has IPVS, loaded or built in. */
  readonly hasIpvs: boolean;
}

/**
 * The goal of a clean-up. Only `--cleanup` and the removal of leftovers have such a goal. An empty list of Services
 * does not cause a clean-up.
 */
export interface CleanUpGoal {
  readonly rules: ReadonlyMap<IpFamily, RulesGoal>;
  /** If undefined, IPVS mode's kernel state other than rules and sets is kept. */
  readonly ipvs?: IpvsGoal;
  /** Whether to remove our sets. Used only if `ipvs` is undefined. */
  readonly hasSets?: true;
}

/** An object that is kept, and the reason. */
export interface Kept {
  readonly subject: string;
  readonly reason: "referenced-by-third-party" | "foreign-virtual-server" | "excluded-network";
}

/** Something that could not be read or removed. */
export interface CleanUpFailure {
  readonly subject: string;
  readonly error: unknown;
}

export interface CleanUpReport extends Pick<SyncReport, "plan" | "changes"> {
  readonly failures: readonly CleanUpFailure[];
  readonly kept: readonly Kept[];
}

export interface CleanUpContext {
  readonly kernel: Kernel;
  readonly clock: Clock;
  /** If true, nothing is written. The removal is planned as if the current mode's sync had already run. */
  readonly isDryRun?: boolean;
}

/**
 * Removes the objects in the goal. Never rejects. If some objects cannot be read or removed, all others are still
 * removed, except that nothing is removed if virtual servers cannot be read. Removing an object that does not exist
 * succeeds.
 */
export async function cleanUp(
  { kernel, clock, isDryRun = false }: CleanUpContext,
  { rules: goals, ipvs, hasSets }: CleanUpGoal,
): Promise<CleanUpReport> {
  const { removals, failures: unread } = await planRules(kernel, goals, isDryRun);
  const { ownership, record, nodeAddresses, hasIpvs } = ipvs ?? noIpvs;
  const reconciler = new Reconciler({
    ...{ kernel, clock, isDryRun, log: silentLogger },
    ownershipRecord: isDryRun ? readOnlyRecord(record) : withoutRemoved(record),
    parts: observedParts.filter((part) => {
      if (ipvs === undefined) return part === "sets" && hasSets === true;
      return hasIpvs || part !== "servers";
    }),
  });
  const report = await reconciler.sync({
    ...{ ...emptyGoal, nodeAddresses, ownership },
    cleanUp: { rules: removals.flatMap(({ changes }) => changes) },
  });
  const isInUse = ({ change, error }: RefusedChange): boolean =>
    change.kind === "set-destroy" && isSetInUse(error);
  const rejected = report.rejected.filter((one) => !isInUse(one));
  const usedSets = report.rejected.filter(isInUse).map(({ change }) => subjectOf(change));
  return {
    plan: report.plan,
    changes: report.changes,
    failures: [
      ...[...unread, ...report.failures],
      ...(isDryRun || ipvs === undefined ? [] : await removeRoutes(kernel, report)),
      ...rejectionsOf(rejected),
    ],
    kept: [
      ...report.foreignServers.map((key) => keptServer(key, ownership, reconciler)),
      ...removals.flatMap(({ family, kept }) =>
        kept.map((chain) => keptInUse(`${family} ${chain}`)),
      ),
      ...usedSets.map((subject) => keptInUse(subjectText(subject))),
    ],
  };
}

const noIpvs: IpvsGoal = { ...emptyGoal, record: noOwnershipRecord, hasIpvs: false };

/**
 * A record that forgets our removed virtual servers, because those that appear in their place are a third party's.
 * Foreign virtual servers stay in the record, in case IPVS mode runs again.
 */
function withoutRemoved({ recorded, keep, idle }: OwnershipRecord): OwnershipRecord {
  const { foreign } = recorded;
  return { recorded, idle, keep: ({ owned }) => keep({ owned, foreign }) };
}

interface PlannedRemoval extends RulesRemoval {
  readonly family: IpFamily;
}

/** Plans the removal of rules from the observed chains. */
async function planRules(
  { iptables }: Pick<Kernel, "iptables">,
  goals: CleanUpGoal["rules"],
  isBeforeSync: boolean,
): Promise<{
  readonly removals: readonly PlannedRemoval[];
  readonly failures: readonly CleanUpFailure[];
}> {
  const removals: PlannedRemoval[] = [];
  const failures: CleanUpFailure[] = [];
  for (const [family, { places, ...names }] of goals) {
    try {
      const observed = await iptables.observe(family, { planned: places, hasOthers: true });
      const parse = (text: string): Rule | undefined => iptables.parse(text);
      removals.push({
        family,
        ...planRulesRemoval({ ...names, family, observed, parse, isBeforeSync }),
      });
    } catch (error) {
      failures.push({ subject: `${family} rules`, error });
    }
  }
  return { removals, failures };
}

/** Removes the local routes that remain after a third party has removed their link. */
async function removeRoutes(
  { link }: Pick<Kernel, "link">,
  { plan, failures }: Pick<SyncReport, "plan" | "failures">,
): Promise<readonly CleanUpFailure[]> {
  if (failures.length > 0 || plan.changes.some(({ kind }) => kind === "link-remove")) return [];
  try {
    await link.remove();
    return [];
  } catch (error) {
    return [{ subject: "local routes", error }];
  }
}

/**
 * Combines a family's rejected changes into one failure with the first error, because they usually have the same cause.
 */
function rejectionsOf(rejected: readonly RefusedChange[]): readonly CleanUpFailure[] {
  const groups = Map.groupBy(rejected, ({ change }) =>
    "family" in change ? change.family : subjectText(subjectOf(change)),
  );
  return [...groups.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const subject = countedText(subjectOf(first.change), others.length);
    return [{ subject, error: first.error }];
  });
}

function keptServer(
  subject: ServerKey,
  ownership: OwnershipPolicy,
  { cachedServers }: Pick<Reconciler, "cachedServers">,
): Kept {
  const server = cachedServers.get(subject)?.virtualServer;
  const hasExcluded = server !== undefined && isExcluded(server, ownership);
  return { subject, reason: hasExcluded ? "excluded-network" : "foreign-virtual-server" };
}

function keptInUse(subject: string): Kept {
  return { subject, reason: "referenced-by-third-party" };
}
