/** No fault. Shows how a busy lab itself affects connections. */
import { setTimeout as pause } from "node:timers/promises";
import type { FaultyNode } from "../faulty-node.ts";
import type { Row } from "../row.ts";

const quietMs = 20_000;

async function doNothing(): Promise<string> {
  await pause(quietMs);
  return `${quietMs / 1_000} s without faults or changes`;
}

async function onlyChange(node: FaultyNode): Promise<string> {
  for (let step = 0; step < 5; step++) {
    await node.churn();
    await node.repaired();
  }
  return "5 churn steps";
}

export const control: readonly Row[] = [
  { name: "No fault, no change", short: 0, long: 3, inject: doNothing },
  { name: "No fault, changes", short: 1, long: 3, inject: onlyChange },
];
