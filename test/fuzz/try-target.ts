import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import fc from "fast-check";
import type { FuzzTarget } from "./target.ts";

/** The result of one target. */
export interface Outcome {
  readonly name: string;
  readonly tried: number;
  readonly taken: number;
  /** CPU time in seconds. */
  readonly cpuSeconds: number;
  /** The longest duration of one input. */
  readonly slowestMs: number;
  /** Measurements of the target, as text. */
  readonly figures?: string;
  /** A description of the finding. Undefined if there was none. */
  readonly find?: string;
}

/**
 * Runs a target with its saved inputs and then with `runs` others. Stops at the first finding and shrinks its input.
 */
export async function tryTarget(target: FuzzTarget, runs: number, seed: number): Promise<Outcome> {
  const counts = { tried: 0, taken: 0, slowestMs: 0 };
  const tryOne = async (input: unknown): Promise<void> => {
    const beganMs = performance.now();
    counts.tried += 1;
    const verdict = target.run(input);
    if ((typeof verdict === "string" ? verdict : await verdict) === "taken") counts.taken += 1;
    assertUnpolluted();
    counts.slowestMs = Math.max(counts.slowestMs, performance.now() - beganMs);
  };
  const begin = process.cpuUsage();
  const find = (await tryKept(target, tryOne)) ?? (await tryOthers(target, tryOne, runs, seed));
  await target.stop?.();
  const figures = target.figures?.();
  const { user, system } = process.cpuUsage(begin);
  const cpuSeconds = (user + system) / 1e6;
  return {
    ...{ name: target.name, ...counts, cpuSeconds },
    ...(figures === undefined ? {} : { figures }),
    ...(find === undefined ? {} : { find }),
  };
}

async function tryKept(
  { kept, name }: FuzzTarget,
  tryOne: (input: unknown) => Promise<void>,
): Promise<string | undefined> {
  for (const input of kept) {
    try {
      await tryOne(input);
    } catch (error) {
      return told(name, input, error, "a saved input");
    }
  }
  return undefined;
}

async function tryOthers(
  { inputs, name }: FuzzTarget,
  tryOne: (input: unknown) => Promise<void>,
  runs: number,
  seed: number,
): Promise<string | undefined> {
  const property = fc.asyncProperty(inputs, tryOne);
  const details = await fc.check(property, { numRuns: runs, seed });
  if (!details.failed) return undefined;
  const [input] = details.counterexample ?? [];
  return told(
    name,
    input,
    details.errorInstance,
    `seed ${seed}, path ${details.counterexamplePath}`,
  );
}

function told(name: string, input: unknown, error: unknown, origin: string): string {
  const shown =
    input instanceof Uint8Array
      ? Buffer.from(input).toString("hex")
      : inspect(input, { depth: 12, maxStringLength: 5_000 });
  const words = `${origin}\n${inspect(error)}\ninput: ${shown}\n`;
  const folder = join(import.meta.dirname, "../../build/fuzz");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.txt`), words);
  return words;
}

const prototypes = [Object.prototype, Array.prototype, String.prototype, Function.prototype];
const sizes = prototypes.map((prototype) => Reflect.ownKeys(prototype).length);

/** No input may change the prototypes that all objects share. */
function assertUnpolluted(): void {
  for (const [index, prototype] of prototypes.entries()) {
    if (Reflect.ownKeys(prototype).length !== sizes[index]) {
      throw new Error("a prototype that all objects share was changed");
    }
  }
}
