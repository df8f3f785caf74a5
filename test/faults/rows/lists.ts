/** The API server returns a different history: an older one, that of a restored cluster, or almost nothing. */
import assert from "node:assert/strict";
import { assertNotLogged } from "../../support/not-logged.ts";
import type { FaultyNode } from "../faulty-node.ts";
import type { Row } from "../row.ts";

/** A version much lower than those derived from the clock. */
const old = 1_000;
const held = "List quarantined because it would remove too many served addresses";
const few = 10;
const noGuard = "--kube-ipvs-relist-guard-percent=0";

/**
 * Restores the state before a churn step, and then makes changes with lower versions. A watch that continues at the
 * program's version does not return them.
 */
async function goBack(node: FaultyNode): Promise<string> {
  const before = node.objects.all();
  await node.churn();
  await node.repaired();
  node.objects.reset(before);
  await node.restartApi({ firstRevision: old });
  await node.watched();
  await node.churn();
  return "an older state with lower resourceVersions";
}

async function restore(node: FaultyNode): Promise<string> {
  node.objects.reset(node.objects.withOtherUids());
  node.churnUnseen();
  await node.restartApi({ firstRevision: old });
  await node.watched();
  await node.churn();
  return "every object with a new UID";
}

/** A list with few objects after a gap is quarantined until the server has all objects again. */
async function loseObjects(node: FaultyNode, kept: number): Promise<string> {
  const mark = node.mark();
  await node.restartApi({ objects: node.objects.first(kept) });
  await node.until("the list is quarantined", () => node.hasPrinted(held, mark));
  assert.equal(await node.healthStatus(), 200);
  assert.ok((await node.metric("kube_ipvs_quarantined_lists")) >= 1);
  node.churnUnseen();
  await node.restartApi();
  return `${kept} Services left, held`;
}

/** The second list equals the first one, so it is applied and the quarantine ends. */
async function confirmFewObjects(node: FaultyNode): Promise<string> {
  const before = node.objects.all();
  const mark = node.mark();
  node.objects.reset(node.objects.firstWithEcho(few));
  await node.restartApi();
  await node.until("the list is quarantined", () => node.hasPrinted(held, mark));
  await node.repaired();
  await node.until("nothing is quarantined anymore", async () => {
    return (await node.metric("kube_ipvs_quarantined_lists")) === 0;
  });
  node.objects.reset(before);
  await node.api.command("apply", before);
  return `${few} Services left, quarantined and confirmed`;
}

/** If the relist guard is disabled, the first list is applied. */
async function takeFewObjects(node: FaultyNode): Promise<string> {
  const before = node.objects.all();
  node.objects.reset(node.objects.firstWithEcho(few));
  await node.restartApi();
  await node.repaired();
  assertNotLogged(node.program.output, held);
  node.objects.reset(before);
  await node.api.command("apply", before);
  return `${few} Services left, applied immediately`;
}

/** The program starts while the server is empty. */
async function startOnEmpty(node: FaultyNode): Promise<string> {
  node.program.kill("SIGKILL");
  await node.program.ends();
  await node.restartApi({ objects: [] });
  node.startProgram();
  await node.until("the list is quarantined", () => node.hasPrinted(held, 0));
  assert.ok(node.isRepaired());
  node.churnUnseen();
  await node.restartApi();
  await node.serves();
  return "no objects at startup, quarantined";
}

export const lists: readonly Row[] = [
  {
    name: "API server returns to an older state",
    short: 1,
    long: 5,
    inject: goBack,
    startsAnew: true,
  },
  {
    name: "Cluster restored with new UIDs",
    short: 1,
    long: 5,
    inject: restore,
    startsAnew: true,
  },
  {
    name: "Much smaller list, refuted",
    // The empty list is refuted the same way.
    short: 0,
    long: 3,
    inject: (node) => loseObjects(node, few),
    startsAnew: true,
  },
  {
    name: "Much smaller list, confirmed",
    short: 1,
    long: 3,
    inject: confirmFewObjects,
    startsAnew: true,
  },
  {
    name: "Much smaller list, guard disabled",
    short: 1,
    long: 3,
    inject: takeFewObjects,
    before: (node) => node.restartProgram({ flags: [noGuard] }),
    after: (node) => node.restartProgram(),
  },
  {
    name: "Empty list after a gap",
    short: 1,
    long: 3,
    inject: (node) => loseObjects(node, 0),
    startsAnew: true,
  },
  { name: "Empty list at startup", short: 1, long: 3, inject: startOnEmpty },
];
