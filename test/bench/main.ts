/**
 * `make bench`: runs the cases one after another, prints a table, and writes build/bench/*.json,
 * docs/reports/benchmarks.md and docs/reports/plots/*.svg. Usage: node test/bench/main.ts [--cases a,b] [--peer
 * 'command with {config}'] [--table]. --cases selects cases by name or prefix. --table measures nothing and prints the
 * results in build/bench again. Exit status 1: a count is wrong, or a case failed. Slow runs never cause a failure.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import type { Case } from "./case.ts";
import { cases } from "./cases.ts";
import { comparison } from "./comparison.ts";
import { version, writeDocument } from "./document.ts";
import { outsideCpu } from "./machine.ts";
import { type CaseResult, verdictOf } from "./rows.ts";
import { tableText, totals } from "./table.ts";

const folder: string = join(import.meta.dirname, "../../build/bench");
const progressIntervalMs = 2_000;

const { values } = parseArgs({
  options: {
    cases: { type: "string", default: "" },
    peer: { type: "string", default: "" },
    table: { type: "boolean", default: false },
  },
});

function chosen(): readonly Case[] {
  const wanted = values.cases.split(",").filter((name) => name !== "");
  const found = cases.filter(
    ({ name }) =>
      wanted.length === 0 || wanted.some((one) => name === one || name.startsWith(`${one}-`)),
  );
  if (found.length > 0) return found;
  throw new Error(
    `No such case: ${values.cases}; the cases are: ${cases.map(({ name }) => name).join(", ")}`,
  );
}

/** Shows the running case, its start time and its current step. On a terminal, it overwrites the line. */
class Progress {
  readonly #label: string;
  readonly #beganMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #step = "";
  #toldMs = 0;

  constructor(label: string) {
    this.#label = label;
    this.#timer = setInterval(() => this.#report(), progressIntervalMs);
  }

  step(text: string): void {
    this.#step = text;
    if (process.stdout.isTTY) this.#report();
  }

  get lastStep(): string {
    return this.#step;
  }

  end(text: string): void {
    clearInterval(this.#timer);
    const seconds = ((performance.now() - this.#beganMs) / 1_000).toFixed(0);
    process.stdout.write(
      `${process.stdout.isTTY ? "\r\u001b[K" : ""}  ${this.#label}: ${text}, ${seconds} s\n`,
    );
  }

  #report(): void {
    const now = performance.now();
    const seconds = ((now - this.#beganMs) / 1_000).toFixed(0);
    const line = `  ${this.#label}: ${seconds} s, ${this.#step}`;
    if (process.stdout.isTTY) {
      process.stdout.write(`\r\u001b[K${line}`);
    } else if (now - this.#toldMs > 5 * progressIntervalMs) {
      this.#toldMs = now;
      console.log(line);
    }
  }
}

/**
 * A case that takes several times its expected duration counts as stuck. Other proxies may be much slower than
 * kube-ipvs.
 */
function limitSeconds({ expectedSeconds }: Case): number {
  return 60 + (values.peer === "" ? 6 : 30) * expectedSeconds;
}

async function measure(one: Case, place: string): Promise<void> {
  const file = join(folder, `${one.name}.json`);
  rmSync(file, { force: true });
  const progress = new Progress(`${place} ${one.name}`);
  const seconds = String(limitSeconds(one));
  const script = join(import.meta.dirname, "run-case.ts");
  const isolate = ["--net", "--fork", "--kill-child", "taskset", "-c", String(outsideCpu)];
  const child = spawn("unshare", [...isolate, process.execPath, script, one.name, file, seconds], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, BENCH_PEER: values.peer },
  });
  // A case stops itself at its limit. If the process hangs, it is killed a little later.
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const timer = setTimeout(kill, (limitSeconds(one) + 30) * 1_000);
  createInterface(child.stdout).on("line", (line) => progress.step(line));
  await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  process.off("exit", kill);
  if (!existsSync(file)) writeFileSync(file, JSON.stringify(brokenOff(one, progress.lastStep)));
  progress.end(readResult(one.name)?.failure?.split("\n")[0] ?? "measured");
}

function brokenOff(one: Case, step: string): CaseResult {
  return {
    name: one.name,
    title: one.title,
    version,
    startedAt: new Date().toISOString(),
    elapsedSeconds: limitSeconds(one),
    load: loadavg().slice(0, 1),
    rows: [],
    growth: [],
    failure: `timed out after ${limitSeconds(one)} s, at: ${step}`,
  };
}

function readResult(name: string): CaseResult | undefined {
  const file = join(folder, `${name}.json`);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as CaseResult) : undefined;
}

async function measureAll(): Promise<void> {
  const list = chosen();
  const seconds = list.reduce((total, { expectedSeconds }) => total + expectedSeconds, 0);
  console.log(
    `Bench: ${list.length} cases, about ${Math.ceil(seconds / 60)} min on an idle machine`,
  );
  for (const [at, one] of list.entries()) await measure(one, `${at + 1}/${list.length}`);
}

mkdirSync(folder, { recursive: true });
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.on(name, () => process.exit(130));
if (!values.table) await measureAll();
const measured = cases.flatMap(({ name }) => readResult(name) ?? []);
const results = [...comparison(measured), ...measured];
console.log(`\n${tableText(results, process.stdout.isTTY)}\n\n${totals(results)}`);
writeDocument(results);
const isBroken = ({ failure, rows }: CaseResult): boolean =>
  failure !== undefined || rows.some((row) => row.kind === "count" && verdictOf(row) === "MISS");
process.exitCode = results.some(isBroken) ? 1 : 0;
