import { type IpAddress, type IpFamily, ipFamilies } from "../base/ip.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { setsFor, temporaryNameOf } from "../plan/sets.ts";
import type { RuleSet } from "../state/rule.ts";
import { idOf } from "./diff.ts";
import { type RenderRule, removalOfRules } from "./diff-rules.ts";
import { observe } from "./observe.ts";
import { isExcluded, mayRemove, type OwnershipPolicy } from "./ownership.ts";
import { type ChangeKind, ReportBuilder, type SyncReport } from "./report.ts";
import { applyIpvs } from "./server-steps.ts";

/** Something of ours that stays because somebody else still uses it, or something of others. */
export interface Kept {
  readonly subject: string;
  readonly reason: "referenced-by-others" | "foreign-virtual-server" | "excluded-network";
}

export interface RemovalReport extends SyncReport {
  readonly kept: readonly Kept[];
}

/** What clean-up works on. */
export interface RemovalGoal {
  /** The names of our chains and jumps: rules planned for an empty cluster. */
  readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  readonly ownership: OwnershipPolicy;
  /** The kernel has IPVS, loaded or built in. */
  readonly hasIpvs: boolean;
}

interface Removal extends RemovalGoal {
  readonly kernel: Kernel;
  readonly report: ReportBuilder;
  readonly kept: Kept[];
}

/**
 * Removes everything that is ours: virtual servers, rules, the link with its addresses, sets. The order
 * is that of use: what refers to something goes before it. Each part is tried whatever happened to the
 * others; removing what is not there is success.
 */
export async function removeAll(kernel: Kernel, goal: RemovalGoal): Promise<RemovalReport> {
  const removal: Removal = { ...goal, kernel, report: new ReportBuilder(), kept: [] };
  // A kernel without IPVS holds no virtual server; the rest may be there all the same.
  if (goal.hasIpvs) {
    await attempt(removal, "virtual-server-remove", () => removeVirtualServers(removal));
  }
  for (const [family, planned] of goal.rules) {
    await attempt(removal, "rules-remove", () => removeRules(removal, family, planned));
  }
  await attempt(removal, "link-remove", () => removeLink(removal));
  // A set tells whose a virtual server is: while one of ours could not be removed, its sets stay.
  if (!removal.report.hasFailed("virtual-server-remove")) await removeSets(removal);
  return { ...removal.report.build(), kept: removal.kept };
}

async function removeVirtualServers(removal: Removal): Promise<void> {
  const { kernel, report, kept, nodeAddresses, ownership } = removal;
  const known = await observe(kernel, { rules: new Map() });
  const nothing = new Set<string>();
  const facts = { policy: ownership, nodeAddresses, ours: nothing, foreign: nothing };
  const ours = [];
  for (const [key, server] of known.virtualServers) {
    const id = idOf(server);
    if (mayRemove(key, known, facts)) ours.push(id);
    else if (isExcluded(id, ownership)) kept.push({ subject: key, reason: "excluded-network" });
    else kept.push({ subject: key, reason: "foreign-virtual-server" });
  }
  await applyIpvs(
    { kernel, report },
    ours.map((virtualServer) => ({ kind: "remove-virtual-server", virtualServer })),
  );
}

async function removeRules(removal: Removal, family: IpFamily, planned: RuleSet): Promise<void> {
  const { kernel, report, kept } = removal;
  const render: RenderRule = (rule) => kernel.iptables.render(family, rule);
  const observed = await kernel.iptables.observe(family);
  const { changes, kept: keptChains } = removalOfRules(planned, observed, render);
  kept.push(
    ...keptChains.map(
      (name): Kept => ({ subject: `${family} ${name}`, reason: "referenced-by-others" }),
    ),
  );
  if (changes.length === 0) return;
  await kernel.iptables.apply(family, changes);
  report.count("rules-remove", changes.length);
}

async function removeLink({ kernel, report }: Removal): Promise<void> {
  if ((await kernel.link.find()) === undefined) return;
  await kernel.link.remove();
  report.count("link-remove");
}

async function removeSets(removal: Removal): Promise<void> {
  const { kernel, report, kept } = removal;
  const present = new Map((await kernel.ipSets.listSets()).map((set) => [set.name, set]));
  const names = ipFamilies.flatMap(setsFor).map(({ name }) => name);
  for (const name of [...names, ...names.map(temporaryNameOf)]) {
    const set = present.get(name);
    if (set === undefined) continue;
    if (set.references > 0) {
      kept.push({ subject: name, reason: "referenced-by-others" });
      continue;
    }
    await attempt(removal, "set-destroy", async () => {
      await kernel.ipSets.destroy(name);
      report.count("set-destroy");
    });
  }
}

async function attempt(
  { report }: Removal,
  kind: ChangeKind,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    report.fail(kind, kind, error);
  }
}
