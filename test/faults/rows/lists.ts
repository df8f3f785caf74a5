/** The API server tells another history: an older one, that of a restored cluster, or next to nothing. */
import assert from "node:assert/strict";
import type { Row } from "../row.ts";
import type { World } from "../world.ts";

const old = 1_000;
const held = "A list would take away";

async function goBack(world: World): Promise<string> {
  const before = world.objects.all();
  await world.churn();
  await world.repaired();
  world.objects.reset(before);
  await world.restartApi({ firstRevision: old });
  return "an older state under smaller resourceVersions";
}

async function restore(world: World): Promise<string> {
  const restored = world.objects.withOtherUids();
  world.objects.reset(restored);
  await world.restartApi({ firstRevision: old });
  world.objects.change(1);
  await world.restartApi();
  return "every object with another UID";
}

/** Few objects after a gap: held until the server has everything again. */
async function loseObjects(world: World, kept: number): Promise<string> {
  const mark = world.mark();
  await world.restartApi({ objects: world.objects.first(kept) });
  await world.until("the list is held", () => world.hasPrinted(held, mark));
  assert.equal(await world.healthStatus(), 200);
  assert.ok((await world.metric("kube_ipvs_held_lists")) >= 1);
  world.churnUnseen();
  await world.restartApi();
  return `${kept} Services left, held`;
}

/** The same, and the program starts while the server is empty. */
async function startOnEmpty(world: World): Promise<string> {
  world.program.kill("SIGKILL");
  await world.program.ends();
  await world.restartApi({ objects: [] });
  world.startProgram();
  await world.until("the list is held", () => world.hasPrinted(held, 0));
  assert.ok(world.isRepaired());
  world.churnUnseen();
  await world.restartApi();
  await world.serves();
  return "no object at the start, held";
}

export const lists: readonly Row[] = [
  { name: "API server goes back in time", short: 1, long: 10, inject: goBack },
  { name: "Cluster restored with other UIDs", short: 0, long: 10, inject: restore },
  { name: "Much smaller list", short: 1, long: 5, inject: (world) => loseObjects(world, 10) },
  { name: "Empty list", short: 0, long: 5, inject: (world) => loseObjects(world, 0) },
  { name: "Empty list at a start", short: 1, long: 5, inject: startOnEmpty },
];
