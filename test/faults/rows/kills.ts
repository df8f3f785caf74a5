/** SIGKILL in bursts of changes: at a random instant, or between the first and the last write of a sync. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { Row } from "../row.ts";
import type { World } from "../world.ts";

const burst = 60;
const mostTries = 6;

async function killAndRestart(world: World): Promise<void> {
  world.program.kill("SIGKILL");
  await world.program.ends();
}

/** Virtual and real servers without their connections: read at once, while a tool would take its time. */
function serversText(): string {
  return readFileSync("/proc/thread-self/net/ip_vs", "utf8").replace(/ +\d+ +\d+ *$/gm, "");
}

async function killAtRandom(world: World): Promise<string> {
  const delayMs = Math.random() * 400;
  await world.churn(burst);
  await pause(delayMs);
  await killAndRestart(world);
  world.startProgram();
  await world.serves();
  return `${delayMs.toFixed(0)} ms after a burst`;
}

/** The kill comes with the first write that is seen; tried again where everything was written already. */
async function killInside(world: World): Promise<string> {
  for (let tries = 1; tries <= mostTries; tries++) {
    const before = serversText();
    await world.churn(burst);
    const deadlineMs = performance.now() + 10_000;
    while (serversText() === before && performance.now() < deadlineMs) await pause(1);
    await killAndRestart(world);
    const isInside = !world.isRepaired();
    world.startProgram();
    await world.serves();
    if (isInside) return `between the first and the last write, try ${tries}`;
    await world.repaired();
  }
  assert.fail(`No kill in ${mostTries} hit the inside of a sync`);
}

export const kills: readonly Row[] = [
  { name: "SIGKILL at a random instant of a burst", short: 3, long: 100, inject: killAtRandom },
  {
    name: "SIGKILL between the first and last write of a sync",
    short: 3,
    long: 100,
    inject: killInside,
  },
];
