/** No fault. Shows how a busy lab itself affects connections. */
import { setTimeout as pause } from "node:timers/promises";
import type { Row } from "../row.ts";
import type { World } from "../world.ts";

const quietMs = 20_000;

async function doNothing(): Promise<string> {
  await pause(quietMs);
  return `${quietMs / 1_000} s without faults or changes`;
}

async function onlyChange(world: World): Promise<string> {
  for (let step = 0; step < 5; step++) {
    await world.churn();
    await world.repaired();
  }
  return "5 churn steps";
}

export const control: readonly Row[] = [
  { name: "No fault, no change", short: 0, long: 3, inject: doNothing },
  { name: "No fault, changes", short: 1, long: 3, inject: onlyChange },
];
