/** Measures how long the daemon's event loop is blocked, with a probe that Node.js loads before the program. */
import { join } from "node:path";
import type { Machine } from "./machine.ts";

export interface LoopProbe {
  /** A file in the lab. Each line is the longest block of half a second, in milliseconds. */
  readonly path: string;
  readonly environment: Readonly<Record<string, string>>;
}

export function loopProbe(path: string): LoopProbe {
  const probe = join(import.meta.dirname, "loop-probe.cjs");
  return { path, environment: { NODE_OPTIONS: `--require=${probe}`, BENCH_LOOP_FILE: path } };
}

/** The longest block in each half second so far. */
export async function loopDelays(
  machine: Machine,
  { path }: LoopProbe,
): Promise<readonly number[]> {
  const text = await machine.ask("read", { path });
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map(Number);
}
