/**
 * Fuzzes every input path of the program and prints the numbers of inputs and findings: node test/fuzz/run.ts [--long]
 * [--seed=N] [--runs=N] [TARGET…]. `make test` uses 500 inputs for each target, `make nightly` 200,000, and --long
 * ten million for each decoder. Saved inputs are tried first. A finding is printed with its seed and shortest input,
 * and written to build/fuzz/. Save it as a file in corpus/ or as a separate test.
 */
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { countOf, firstSeed } from "../support/seeds.ts";
import { loadTarget, targetNames } from "./targets.ts";
import { type Outcome, tryTarget } from "./try-target.ts";

const shortRuns = countOf({ short: 500, long: 200_000 });
const longDecoderRuns = 10_000_000;
const longRuns = 500_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    long: { type: "boolean", default: false },
    seed: { type: "string" },
    runs: { type: "string" },
    child: { type: "boolean", default: false },
  },
});

const seed = Number(values.seed ?? (values.long ? Date.now() & 0x7fff_ffff : firstSeed));

/** Runs each target in a separate process, so that a memory leak in one does not affect others. */
async function main(): Promise<number> {
  if (values.child) {
    const [name = ""] = positionals;
    const target = await loadTarget(name);
    const outcome = await tryTarget(target, await runsFor(name), seed);
    process.send?.(outcome);
    return 0;
  }
  const waiting = positionals.length > 0 ? [...positionals] : [...targetNames];
  console.log(`Fuzzing ${waiting.length} targets, seed ${seed}`);
  const begin = performance.now();
  const outcomes: Outcome[] = [];
  const lane = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      outcomes.push(await tryInChild(name));
    }
  };
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, lane));
  print(outcomes, (performance.now() - begin) / 1000);
  return outcomes.every(({ find }) => find === undefined) ? 0 : 1;
}

async function runsFor(name: string): Promise<number> {
  if (values.runs !== undefined) return Number(values.runs);
  const { runs, isDecoder } = await loadTarget(name);
  if (runs !== undefined) return values.long ? runs.long : runs.short;
  if (!values.long) return shortRuns;
  return isDecoder ? longDecoderRuns : longRuns;
}

function tryInChild(name: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { stdio: ["ignore", "inherit", "inherit", "ipc"] as const };
    const child = spawn(
      process.execPath,
      [
        import.meta.filename,
        ...process.argv.slice(2).filter((word) => word.startsWith("--")),
        `--seed=${seed}`,
        "--child",
        name,
      ],
      { stdio: [...options.stdio] },
    );
    let outcome: Outcome | undefined;
    child.on("message", (message) => {
      outcome = message as Outcome;
    });
    child.on("exit", (code, signal) => {
      const find = `the process exited with ${signal ?? code} before it had an outcome`;
      resolve(outcome ?? { name, tried: 0, taken: 0, cpuSeconds: 0, slowestMs: 0, find });
    });
  });
}

function print(outcomes: readonly Outcome[], seconds: number): void {
  const width = Math.max(...outcomes.map(({ name }) => name.length));
  const row = (name: string, ...columns: readonly string[]): string =>
    name.padEnd(width) + columns.map((column) => column.padStart(12)).join("");
  console.log(
    `\n${row("target", "tried", "accepted", "rejected", "cpu s", "slowest ms", "found")}`,
  );
  for (const { name, tried, taken, cpuSeconds, slowestMs, find } of outcomes) {
    const counts = [tried, taken, tried - taken].map((count) => count.toLocaleString("en"));
    console.log(
      row(
        name,
        ...counts,
        cpuSeconds.toFixed(1),
        slowestMs.toFixed(0),
        find === undefined ? "0" : "1",
      ),
    );
  }
  const sum = outcomes.reduce((total, { tried }) => total + tried, 0);
  const finds = outcomes.filter(({ find }) => find !== undefined);
  console.log(
    `\nFuzzing: ${sum.toLocaleString("en")} inputs in ${seconds.toFixed(1)} s, ${finds.length} found`,
  );
  for (const { name, figures } of outcomes)
    if (figures !== undefined) console.log(`${name}: ${figures}`);
  for (const { name, find } of finds) console.log(`\n──── ${name}\n${find}`);
}

process.exitCode = await main();
