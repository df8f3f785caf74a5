/**
 * `make bench`: runs the cases one after the other, prints their table, and writes build/bench/*.json,
 * docs/benchmarks.md and docs/plots/*.svg.
 *
 *     node test/bench/main.ts [--cases a,b] [--peer 'command with {config}'] [--table]
 *
 * A case is chosen by its name or the beginning of it. With --table nothing is measured: what lies in
 * build/bench is shown again. Exit status 1: a count does not hold, or a case broke off. Never for a time.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import type { Case } from "./case.ts";
import { cases } from "./cases.ts";
import { writeDocument } from "./document.ts";
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
    `No such case: ${values.cases}; there are: ${cases.map(({ name }) => name).join(", ")}`,
  );
}

/** Here: what runs, since when, and at which step; a line that is written over, on a terminal. */
class Progress {
  readonly #label: string;
  readonly #beganMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #step = "";
  #toldMs = 0;

  constructor(label: string) {
    this.#label = label;
    this.#timer = setInterval(() => this.#tell(), progressIntervalMs);
  }

  step(text: string): void {
    this.#step = text;
    if (process.stdout.isTTY) this.#tell();
  }

  end(text: string): void {
    clearInterval(this.#timer);
    const seconds = ((performance.now() - this.#beganMs) / 1_000).toFixed(0);
    process.stdout.write(
      `${process.stdout.isTTY ? "\r\u001b[K" : ""}  ${this.#label}: ${text}, ${seconds} s\n`,
    );
  }

  #tell(): void {
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

async function measure({ name }: Case, place: string): Promise<CaseResult | undefined> {
  const file = join(folder, `${name}.json`);
  const progress = new Progress(`${place} ${name}`);
  const script = join(import.meta.dirname, "run-case.ts");
  const pin = ["taskset", "-c", String(outsideCpu)];
  const argv = ["--net", ...pin, process.execPath, script, name, file];
  const child = spawn("unshare", argv, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, BENCH_PEER: values.peer },
  });
  createInterface(child.stdout).on("line", (line) => progress.step(line));
  const status = await new Promise((resolve) => child.once("close", resolve));
  const result = readResult(name);
  progress.end(status === 0 ? "measured" : (result?.failure?.split("\n")[0] ?? `status ${status}`));
  return result;
}

function readResult(name: string): CaseResult | undefined {
  const file = join(folder, `${name}.json`);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as CaseResult) : undefined;
}

async function measureAll(): Promise<void> {
  const list = chosen();
  const seconds = list.reduce((total, { expectedSeconds }) => total + expectedSeconds, 0);
  console.log(
    `Bench: ${list.length} cases, about ${Math.ceil(seconds / 60)} min on a calm machine`,
  );
  for (const [at, one] of list.entries()) await measure(one, `${at + 1}/${list.length}`);
}

mkdirSync(folder, { recursive: true });
if (!values.table) await measureAll();
const results = cases.flatMap(({ name }) => readResult(name) ?? []);
console.log(`\n${tableText(results, process.stdout.isTTY)}\n\n${totals(results)}`);
writeDocument(results);
const isBroken = ({ failure, rows }: CaseResult): boolean =>
  failure !== undefined || rows.some((row) => row.kind === "count" && verdictOf(row) === "MISS");
process.exitCode = results.some(isBroken) ? 1 : 0;
