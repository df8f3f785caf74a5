import type { Clock } from "../base/clock.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import { inSlices } from "../base/time-slice.ts";
import type { Iptables, Kernel } from "../kernel/kernel.ts";
import type { RuleSet } from "../state/rule.ts";
import type { RefusedChange } from "./apply/outcome.ts";
import { applyChanges } from "./apply/pass.ts";
import { isSetInUse } from "./apply/refusal-reason.ts";
import type { ChangeKind } from "./change.ts";
import type { ChangePlan } from "./change-plan.ts";
import {
  planRulesRemoval,
  type RulesRemoval,
  type RulesRemovalInput,
} from "./iptables/plan-rules-removal.ts";
import { subjectOf } from "./kinds/kinds.ts";
import { ConntrackCleaner } from "./kinds/stale-flows.ts";
import { CachedState } from "./observed/cached-state.ts";
import { type ObservedPart, Observer } from "./observed/observer.ts";
import { classifyServers, type RecordedOwnership } from "./ownership/classify.ts";
import type { OwnershipPolicy } from "./ownership/policy.ts";
import { type Kept, planRemoval } from "./plan-removal.ts";
import { subjectText } from "./subject.ts";

/** Which rules of one family are removed. */
export interface RulesGoal extends Pick<RulesRemovalInput, "leftover" | "kept" | "emptied"> {
  /** What must be read to find them. */
  readonly places: RuleSet;
}

/** What is removed. */
export interface RemovalGoal {
  readonly rules: ReadonlyMap<IpFamily, RulesGoal>;
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  readonly ownership: OwnershipPolicy;
  readonly recorded: RecordedOwnership;
  /** The kernel has IPVS, loaded or built in. */
  readonly hasIpvs: boolean;
}

/** Something that could not be read or removed. */
export interface RemovalFailure {
  readonly subject: string;
  readonly error: Error;
}

export interface RemovalReport {
  readonly plan: ChangePlan;
  readonly changes: ReadonlyMap<ChangeKind, number>;
  readonly failures: readonly RemovalFailure[];
  readonly kept: readonly Kept[];
}

/** What clean-up would do. */
export interface PlannedRemoval {
  readonly plan: ChangePlan;
  readonly kept: readonly Kept[];
  /** What could not be read. */
  readonly failures: readonly RemovalFailure[];
  /** As observed. */
  readonly cached: CachedState;
}

const nothingDesired = {
  virtualServer: () => undefined,
  hasEntry: () => false,
  entries: () => [],
  hasAddress: () => false,
  serversOfAddress: () => [],
};

/** Observes, and plans towards nothing. What cannot be read holds up nothing else. */
export async function planRemovalFrom(
  kernel: Kernel,
  clock: Clock,
  goal: RemovalGoal,
): Promise<PlannedRemoval> {
  const cached = new CachedState();
  const observer = new Observer(kernel, cached);
  const failures: RemovalFailure[] = [];
  const nothingPlanned = { rules: new Map(), sysctls: [], desired: nothingDesired };
  // A kernel without IPVS holds no virtual server; the rest may be there all the same.
  const parts: readonly ObservedPart[] = goal.hasIpvs
    ? ["link", "sets", "servers"]
    : ["link", "sets"];
  for (const part of parts) {
    await attempt(failures, part, () => observer.observe(part, nothingPlanned));
  }
  const owners = await inSlices(
    clock,
    classifyServers({
      ...goal,
      cached,
      policy: goal.ownership,
      isClaimed: () => false,
      isKnownEndpoint: () => false,
    }),
  );
  const rules = new Map<IpFamily, RulesRemoval>();
  for (const [family, planned] of goal.rules) {
    await attempt(failures, `${family} rules`, async () => {
      rules.set(family, await planRemovalOfRules(kernel.iptables, family, planned));
    });
  }
  const removal = planRemoval({ cached, owners, policy: goal.ownership, rules });
  return { ...removal, failures, cached };
}

/** Plans the removal of rules from what exists. Rejects if that cannot be read. */
export async function planRemovalOfRules(
  iptables: Pick<Iptables, "observe" | "parse">,
  family: IpFamily,
  { places, ...names }: RulesGoal,
): Promise<RulesRemoval> {
  const observed = await iptables.observe(family, { planned: places, hasOthers: true });
  return planRulesRemoval({ ...names, family, observed, parse: (text) => iptables.parse(text) });
}

/** Observes, plans towards nothing and applies the plan. Removing what does not exist is success. */
export async function removeAll(
  kernel: Kernel,
  clock: Clock,
  goal: RemovalGoal,
): Promise<RemovalReport> {
  return applyRemoval(kernel, clock, await planRemovalFrom(kernel, clock, goal));
}

/** Removes what is planned. What cannot be read or removed holds up nothing else. */
export async function applyRemoval(
  kernel: Kernel,
  clock: Clock,
  { plan, kept, cached, failures: unread }: PlannedRemoval,
): Promise<RemovalReport> {
  const outcomes = await applyChanges(plan.changes, {
    kernel,
    cached,
    desired: nothingDesired,
    rules: new Map(),
    render: (family, rule) => kernel.iptables.render(family, rule),
    distrusted: new Map(),
    cleaner: new ConntrackCleaner(kernel.conntrack, clock),
  });
  const inUse = outcomes.refused.filter(isKept);
  const leftRoutes: RemovalFailure[] = [];
  // Local routes outlive a link that a third party removed.
  if (!cached.hasLink && unread.every(({ subject }) => subject !== "link")) {
    await attempt(leftRoutes, "local routes", () => kernel.link.remove());
  }
  const failures: readonly RemovalFailure[] = [
    ...unread,
    ...leftRoutes,
    ...outcomes.refused.filter((refused) => !isKept(refused)).map(refusedFailure),
    ...outcomes.unknown.map(({ first, error }) => ({ subject: subjectText(first), error })),
  ];
  return {
    plan,
    changes: outcomes.done,
    failures,
    kept: [
      ...kept,
      ...inUse.map(({ change }): Kept => {
        const subject = subjectText(subjectOf(change));
        return { subject, reason: "referenced-by-third-party" };
      }),
    ],
  };
}

function isKept({ change, error }: RefusedChange): boolean {
  return change.kind === "set-destroy" && isSetInUse(error);
}

function refusedFailure({ change, error }: RefusedChange): RemovalFailure {
  return { subject: subjectText(subjectOf(change)), error };
}

async function attempt(
  failures: RemovalFailure[],
  subject: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    failures.push({ subject, error: error as Error });
  }
}
