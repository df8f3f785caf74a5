/** What must be there before the first virtual server, besides the sets: the link and the rules. */
import { errorText } from "../base/error-text.ts";
import type { IpFamily } from "../base/ip.ts";
import type { RuleSet } from "../state/rule.ts";
import { diffRules, knownRulesAfter, placeOf } from "./diff-rules.ts";
import { driftOfRules } from "./drift-of-rules.ts";
import type { KnownRules } from "./known-state.ts";
import { observeRules } from "./observe.ts";
import { thingOf } from "./repair-guard.ts";
import type { SyncContext } from "./sync-context.ts";

export async function ensureLink(context: SyncContext): Promise<void> {
  const { kernel, known, report, isHeld } = context;
  if (known.hasLink || isHeld(thingOf({ kind: "link", subject: kernel.link.name }))) return;
  try {
    const { wasCreated } = await kernel.link.ensure();
    if (wasCreated) report.count("link-create");
    known.hasLink = true;
  } catch (error) {
    report.fail("link-create", kernel.link.name, error);
  }
}

/** At most one iptables-restore for each family, and none where the rules stand as planned. */
export async function writeRules(context: SyncContext): Promise<void> {
  for (const [family, planned] of context.goal.rules) {
    try {
      await writeOrLookAgain(context, family, planned);
    } catch (error) {
      context.report.fail("rules-write", family, error);
    }
  }
}

/** A restore also fails where somebody took away what it builds on: what is there then is read at once. */
async function writeOrLookAgain(
  context: SyncContext,
  family: IpFamily,
  planned: RuleSet,
): Promise<void> {
  try {
    await writeDifferences(context, family, planned);
  } catch (error) {
    const { kernel, known, log, report } = context;
    log.info("Writing rules failed; they are read and written again", {
      ipFamily: family,
      err: errorText(error),
    });
    const before = known.rules.get(family);
    const after = await observeRules(kernel.iptables, family, planned);
    const wanted = knownRulesAfter(planned, (rule) => kernel.iptables.render(family, rule));
    const drifts = driftOfRules(family, { before, after, wanted });
    report.drift(drifts.map((drift) => ({ ...drift, action: "repair" })));
    known.rules.set(family, after);
    await writeDifferences(context, family, planned);
  }
}

async function writeDifferences(
  { kernel, known, report, isHeld }: SyncContext,
  family: IpFamily,
  planned: RuleSet,
): Promise<void> {
  const render = (rule: Parameters<typeof kernel.iptables.render>[1]): string =>
    kernel.iptables.render(family, rule);
  const present: KnownRules = known.rules.get(family) ?? { chains: new Map(), jumps: new Map() };
  if (present.plan === planned) return;
  const changes = diffRules(planned, present, render);
  if (changes.length === 0) known.rules.set(family, { ...present, plan: planned });
  // One restore is one process, whatever it writes: a repair waits only while it would be alone.
  if (changes.every((change) => isHeld(`chain ${family} ${placeOf(change)}`))) return;
  await kernel.iptables.apply(family, changes);
  known.rules.set(family, { ...knownRulesAfter(planned, render), plan: planned });
  report.count("rules-write", changes.length);
}
