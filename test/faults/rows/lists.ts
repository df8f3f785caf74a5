/** The API server returns a different history: an older one, that of a restored cluster, or almost nothing. */
import assert from "node:assert/strict";
import { assertNotLogged } from "../../support/not-logged.ts";
import type { Row } from "../row.ts";
import type { World } from "../world.ts";

/** A version much lower than those derived from the clock. */
const old = 1_000;
const held = "List quarantined because it would remove too many served addresses";
const few = 10;
const noGuard = "--kube-ipvs-relist-guard-percent=0";

/**
 * Restores the state before a churn step, and then makes changes with lower versions. A watch that continues at the
 * program's version does not return them.
 */
async function goBack(world: World): Promise<string> {
  const before = world.objects.all();
  await world.churn();
  await world.repaired();
  world.objects.reset(before);
  await world.restartApi({ firstRevision: old });
  await world.watched();
  await world.churn();
  return "an older state with lower resourceVersions";
}

async function restore(world: World): Promise<string> {
  world.objects.reset(world.objects.withOtherUids());
  world.churnUnseen();
  await world.restartApi({ firstRevision: old });
  await world.watched();
  await world.churn();
  return "every object with a new UID";
}

/** A list with few objects after a gap is quarantined until the server has all objects again. */
async function loseObjects(world: World, kept: number): Promise<string> {
  const mark = world.mark();
  await world.restartApi({ objects: world.objects.first(kept) });
  await world.until("the list is quarantined", () => world.hasPrinted(held, mark));
  assert.equal(await world.healthStatus(), 200);
  assert.ok((await world.metric("kube_ipvs_quarantined_lists")) >= 1);
  world.churnUnseen();
  await world.restartApi();
  return `${kept} Services left, held`;
}

/** The second list equals the first one, so it is applied and the quarantine ends. */
async function confirmFewObjects(world: World): Promise<string> {
  const before = world.objects.all();
  const mark = world.mark();
  world.objects.reset(world.objects.firstWithEcho(few));
  await world.restartApi();
  await world.until("the list is quarantined", () => world.hasPrinted(held, mark));
  await world.repaired();
  await world.until("nothing is quarantined anymore", async () => {
    return (await world.metric("kube_ipvs_quarantined_lists")) === 0;
  });
  world.objects.reset(before);
  await world.api.command("apply", before);
  return `${few} Services left, quarantined and confirmed`;
}

/** If the relist guard is disabled, the first list is applied. */
async function takeFewObjects(world: World): Promise<string> {
  const before = world.objects.all();
  world.objects.reset(world.objects.firstWithEcho(few));
  await world.restartApi();
  await world.repaired();
  assertNotLogged(world.program.output, held);
  world.objects.reset(before);
  await world.api.command("apply", before);
  return `${few} Services left, applied immediately`;
}

/** The program starts while the server is empty. */
async function startOnEmpty(world: World): Promise<string> {
  world.program.kill("SIGKILL");
  await world.program.ends();
  await world.restartApi({ objects: [] });
  world.startProgram();
  await world.until("the list is quarantined", () => world.hasPrinted(held, 0));
  assert.ok(world.isRepaired());
  world.churnUnseen();
  await world.restartApi();
  await world.serves();
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
    inject: (world) => loseObjects(world, few),
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
    before: (world) => world.restartProgram({ flags: [noGuard] }),
    after: (world) => world.restartProgram(),
  },
  {
    name: "Empty list after a gap",
    short: 1,
    long: 3,
    inject: (world) => loseObjects(world, 0),
    startsAnew: true,
  },
  { name: "Empty list at startup", short: 1, long: 3, inject: startOnEmpty },
];
