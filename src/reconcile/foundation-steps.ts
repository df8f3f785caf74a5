/** What must be there before the first virtual server: the link, the sets, the rules. */
import { setsFor } from "../plan/sets.ts";
import { diffRules, knownRulesAfter } from "./diff-rules.ts";
import type { SyncContext } from "./sync-context.ts";

export async function ensureLink({ kernel, known, report }: SyncContext): Promise<void> {
  if (known.hasLink) return;
  try {
    const { wasCreated } = await kernel.link.ensure();
    if (wasCreated) report.count("link-create");
    known.hasLink = true;
  } catch (error) {
    report.fail("link-create", kernel.link.name, error);
  }
}

/** Sets are made for the families whose rules are planned, used or not: rules refer to them by name. */
export async function ensureSets({ kernel, known, goal, report }: SyncContext): Promise<void> {
  for (const set of [...goal.rules.keys()].flatMap(setsFor)) {
    if (known.setEntries.has(set.name)) continue;
    try {
      await kernel.ipSets.create(set);
      known.setEntries.set(set.name, new Set());
      report.count("set-create");
    } catch (error) {
      report.fail("set-create", set.name, error);
    }
  }
}

/** At most one iptables-restore for each family, and none where the rules stand as planned. */
export async function writeRules({ kernel, known, goal, report }: SyncContext): Promise<void> {
  for (const [family, planned] of goal.rules) {
    const render = (rule: Parameters<typeof kernel.iptables.render>[1]): string =>
      kernel.iptables.render(family, rule);
    const present = known.rules.get(family) ?? { chains: new Map(), jumps: new Map() };
    const changes = diffRules(planned, present, render);
    if (changes.length === 0) continue;
    try {
      await kernel.iptables.apply(family, changes);
      known.rules.set(family, knownRulesAfter(planned, render));
      report.count("rules-write", changes.length);
    } catch (error) {
      report.fail("rules-write", family, error);
    }
  }
}
