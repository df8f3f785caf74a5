/** SIGKILL during bursts of changes: at a random time, or between the first and the last write of a sync. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { firstSeed, seededRandom } from "../../support/seeds.ts";
import type { FaultyNode } from "../faulty-node.ts";
import { dieAfterWrite, endFaults, putUnderFaults, underFaults } from "../netlink-fault.ts";
import type { Row, Turn } from "../row.ts";

const burst = 30;
const longestDelayMs = 400;
/** Less than the number of writes in a burst. */
const mostWrites = 100;
const mostTries = 5;

async function killAtRandom(node: FaultyNode, { index }: Turn): Promise<string> {
  const seed = firstSeed + index;
  const delayMs = seededRandom(seed)() * longestDelayMs;
  await node.churn(burst);
  await pause(delayMs);
  node.program.kill("SIGKILL");
  await node.program.ends();
  node.startProgram();
  await node.serves();
  return `seed ${seed}: ${delayMs.toFixed(0)} ms after a burst`;
}

/** The chosen write may be the last one. In that case, the try is repeated. */
async function killInside(node: FaultyNode, { index }: Turn): Promise<string> {
  const seed = firstSeed + index;
  const random = seededRandom(seed);
  for (let tries = 1; tries <= mostTries; tries++) {
    const write = 1 + Math.floor(random() * mostWrites);
    dieAfterWrite(write);
    await node.churn(burst);
    const { signal } = await node.program.ends();
    endFaults();
    assert.equal(signal, "SIGKILL");
    const isInside = !node.isRepaired();
    node.startProgram(underFaults);
    await node.serves();
    if (isInside) return `seed ${seed}: after write ${write}`;
    await node.repaired();
  }
  assert.fail(`seed ${seed}: none of ${mostTries} kills preceded the last write`);
}

export const kills: readonly Row[] = [
  { name: "SIGKILL at a random moment in a burst", short: 3, long: 100, inject: killAtRandom },
  {
    name: "SIGKILL between a sync's first and last write",
    short: 3,
    long: 100,
    inject: killInside,
    before: putUnderFaults,
  },
];
