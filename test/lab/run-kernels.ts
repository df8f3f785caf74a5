/**
 * On the kernel from `make lab-kernel`, runs the suites that depend on the kernel and iptables with each iptables
 * backend, and writes docs/reports/kernels.md:
 *
 *     LAB_KERNEL=FOLDER node test/lab/run-kernels.ts [--backend nft|legacy|nftables|none] [SUITE…]
 *     node test/lab/run-kernels.ts --stock 'debian-13 …' [--backend nft|none]
 *
 * With --stock, runs stock/node.test.ts on kernels as Debian ships them instead.
 *
 * With "nftables" and "none", rules and sets are written with nf_tables. "none", which only runs on request, needs a
 * kernel without iptables and ipset. With a backend or suite names, only those run, and the report keeps the others'
 * earlier results. Running suites one at a time gives the same report as running all at once.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import {
  type Backend,
  knownDeviations,
  type Measured,
  mergeMeasured,
  renderReport,
  stockSuite,
} from "./kernels-report.ts";
import { findLab } from "./lab.ts";
import type { IptablesVariant } from "./lab-kernel.ts";
import { runOnStockKernels } from "./stock/kernels.ts";

const backends: readonly Backend[] = ["nft", "legacy", "nftables", "none"];
const usualBackends = "nft legacy nftables";

/** Suites about the abilities of docs/tuning.md. */
const abilitySuites: readonly string[] = [
  "ipv6-only",
  "port-ranges",
  "tunnel",
  "tuning",
  "unbound-addresses",
  "weight-signals",
];

/** Suites that depend on the kernel's state and rules. The others give the same result on every kernel. */
const kernelSuites: readonly string[] = [
  "golden",
  "contract",
  "packet-paths",
  "drift",
  "quick-checks",
  "foreign-state",
  "neighbors",
  "set-migration",
  "kernel-tools",
  "doctor",
  "node-safety",
  "start-and-stop",
  "demo",
  ...abilitySuites,
  "kernels/backends",
  "kernels/estimator",
  "kernels/nft-rules",
  "kernels/rules-writers",
];

/** Suites that also prepare and inspect rules that are written with nf_tables. */
const nftablesSuites: readonly string[] = [
  "golden",
  "contract",
  "packet-paths",
  "drift",
  "foreign-state",
  "neighbors",
  "doctor",
  "node-safety",
  "start-and-stop",
  "upgrade",
  "faults",
  "rejected-objects",
  ...abilitySuites,
  "kernels/rules-writers",
  "kernels/flushed-rulesets",
  "kernels/killed-moves",
];

/** Suites that also run without iptables and ipset. They skip cases that concern only iptables or ipset. */
const suitesWithoutIptables: readonly string[] = [
  "golden",
  "contract",
  "packet-paths",
  "drift",
  "foreign-state",
  "doctor",
  "node-safety",
  "start-and-stop",
  "faults",
  "rejected-objects",
  "kernels/nft-rules",
  "kernels/without-iptables",
  "kernels/image-without-iptables",
];

const suitesOf: Readonly<Record<Backend, readonly string[]>> = {
  // Walks move between both writers of rules.
  nft: [...kernelSuites, "random-walks"],
  legacy: kernelSuites,
  nftables: nftablesSuites,
  none: suitesWithoutIptables,
};
const reportedSuites: readonly string[] = [...new Set(Object.values(suitesOf).flat()), stockSuite];

const runner: string = join(import.meta.dirname, "run-suites.ts");
const project: string = join(import.meta.dirname, "../..");
const report: string = join(project, "docs/reports/kernels.md");
/** File with each suite's last result on each kernel. */
const measuredPath: string = join(project, "docs/reports/data/kernels.json");

/** Output lines of suites that belong in the report: numbers of compared states, and CPU shares. */
const figureLine = /^ +(golden: \S+ +\d+ of \d+ match|with \d+ third-party rules in .*)$/gm;

/** Runs the suites and passes on their output. */
async function runWith(
  backend: Backend,
  suites: readonly string[],
  release: string,
): Promise<readonly Measured[]> {
  console.log(`\niptables: ${backend}`);
  const child = spawn(process.execPath, [runner, ...suites], {
    env: {
      ...process.env,
      LAB_IPTABLES: (backend === "nftables" ? "nft" : backend) satisfies IptablesVariant,
      ...(backend === "nftables" || backend === "none" ? { TEST_RULES: "nftables" } : {}),
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    process.stdout.write(chunk);
    output += chunk.toString();
  });
  await new Promise((resolve, reject) => {
    child.once("close", resolve);
    child.once("error", reject);
  });
  return suites.map((suite) => ({ release, backend, suite, ...readMeasured(suite, output) }));
}

/** Reads a suite's line from the table that run-suites.ts prints, and the names of the suite's failed cases. */
function readMeasured(
  suite: string,
  output: string,
): Pick<Measured, "passed" | "failed" | "red" | "why" | "notes"> {
  const row = new RegExp(`^${suite} +[0-9.]+ +[0-9.-]+ +(\\d+|-) +(\\d+|-) +(\\d+|-)$`, "m").exec(
    output,
  );
  const [passed, failed] = [Number(row?.[1]), Number(row?.[2])];
  if (Number.isNaN(passed) || Number.isNaN(failed)) {
    return { passed: 0, failed: 0, red: ["did not finish"] };
  }
  const ending = output.slice(output.lastIndexOf("\nTests: "));
  const section = ending
    .split(/\n\n(?=[\w/-]+: FAILED)/)
    .find((one) => one.startsWith(`${suite}:`));
  const red = [
    ...(section ?? "").matchAll(/^ *✖ (?!failing tests)(.+?)(?: \([0-9.]+ms\))?$/gm),
  ].map(([, name = ""]) => name);
  const told = new RegExp(`^${suite}\\n((?: +.*\\n?)+)`, "m").exec(output)?.[1] ?? "";
  const notes = [...told.matchAll(figureLine)].map(([, note = ""]) => note.replace(/ +/g, " "));
  const why = [...output.matchAll(/^ +NO (.+)$/gm)].map(([, line = ""]) => line);
  return {
    passed,
    failed,
    red,
    why: [...new Set(red.length === 0 ? [] : why)],
    notes: [...new Set(notes)],
  };
}

function readEarlier(): readonly Measured[] {
  if (!existsSync(measuredPath)) return [];
  return JSON.parse(readFileSync(measuredPath, "utf8")) as readonly Measured[];
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/** Runs the suites on LAB_KERNEL. */
async function runOnLab(
  wanted: readonly Backend[],
  suites: readonly string[],
): Promise<readonly Measured[]> {
  const lab = findLab();
  if (lab.kind !== "lab-kernel" || process.env["LAB_KERNEL"] === undefined) {
    throw new Error("LAB_KERNEL must be the folder of a lab kernel (run make lab-kernel)");
  }
  const release = lab.kernel.modules.split("/").at(-1) ?? "";
  const now: Measured[] = [];
  for (const backend of wanted) {
    now.push(
      ...(await runWith(backend, suites.length === 0 ? suitesOf[backend] : suites, release)),
    );
  }
  return now;
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: { backend: { type: "string" }, stock: { type: "string" } },
    allowPositionals: true,
  });
  const { stock, backend = stock === undefined ? usualBackends : "nft none" } = values;
  const wanted = backends.filter((one) => backend.split(" ").includes(one));
  if (wanted.length === 0) {
    console.error(`lab: unknown backend ${backend}: must be ${backends.join(", ")}`);
    return 1;
  }
  const now =
    stock === undefined
      ? await runOnLab(wanted, positionals)
      : await runOnStockKernels(stock.split(" "), wanted);
  // Suites outside the report only print their result.
  const measured = mergeMeasured(readEarlier(), now).filter(({ suite }) =>
    reportedSuites.includes(suite),
  );
  write(measuredPath, `${JSON.stringify(measured, undefined, 1)}\n`);
  const text = renderReport(measured, suitesOf);
  write(report, text);
  console.log(`\n${text}`);
  const unexpected = now.flatMap(({ red }) => red).filter((one) => !knownDeviations.has(one));
  for (const name of unexpected) console.error(`red: ${name}`);
  return unexpected.length === 0 ? 0 : 1;
}

process.exitCode = await main();
