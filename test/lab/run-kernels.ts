/**
 * Runs the suites that depend on the kernel and on iptables on the kernel of `make lab-kernel`, with each backend of
 * iptables, and writes docs/reports/kernels.md:
 *
 *     LAB_KERNEL=FOLDER node test/lab/run-kernels.ts [SUITE…]
 *
 * With names of suites, only those run and nothing is written.
 */
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { knownDeviations, type Measured, renderReport } from "./kernels-report.ts";
import { findLab } from "./lab.ts";
import type { IptablesVariant } from "./lab-kernel.ts";

const backends: readonly IptablesVariant[] = ["nft", "legacy"];

/** What the state of kernel and rules decides; the others are the same on every kernel. */
const kernelSuites: readonly string[] = [
  "golden",
  "contract",
  "packet-paths",
  "drift",
  "quick-checks",
  "foreign-state",
  "set-migration",
  "kernel-tools",
  "demo",
  "kernels/backends",
];

const runner: string = join(import.meta.dirname, "run-suites.ts");
const report: string = join(import.meta.dirname, "../../docs/reports/kernels.md");

/** Runs the suites and passes their output on. */
async function runWith(
  backend: IptablesVariant,
  suites: readonly string[],
): Promise<readonly Measured[]> {
  console.log(`\niptables: ${backend}`);
  const child = spawn(process.execPath, [runner, ...suites], {
    env: { ...process.env, LAB_IPTABLES: backend },
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
  return suites.map((suite) => readMeasured(backend, suite, output));
}

/** The suite's line in the table that run-suites.ts prints, and the names of its red cases. */
function readMeasured(backend: IptablesVariant, suite: string, output: string): Measured {
  const row = new RegExp(`^${suite} +[0-9.]+ +(\\d+|-) +(\\d+|-) +(\\d+|-)$`, "m").exec(output);
  const [passed, failed] = [Number(row?.[1]), Number(row?.[2])];
  if (Number.isNaN(passed) || Number.isNaN(failed)) {
    return { backend, suite, passed: 0, failed: 0, red: ["did not run to its end"] };
  }
  const ending = output.slice(output.lastIndexOf("\nLab: "));
  const section = ending
    .split(/\n\n(?=[\w/-]+: FAILED)/)
    .find((one) => one.startsWith(`${suite}:`));
  const red = [...(section ?? "").matchAll(/^ *✖ (.+?)(?: \([0-9.]+ms\))?$/gm)].map(
    ([, name = ""]) => name,
  );
  return { backend, suite, passed, failed, red };
}

async function main(): Promise<number> {
  const lab = findLab();
  if (lab.kind !== "lab-kernel" || process.env["LAB_KERNEL"] === undefined) {
    console.error("lab: LAB_KERNEL must name the folder of a kernel: make lab-kernel");
    return 1;
  }
  const wanted = process.argv.slice(2);
  const suites = wanted.length === 0 ? kernelSuites : wanted;
  const measured: Measured[] = [];
  for (const backend of backends) measured.push(...(await runWith(backend, suites)));
  const release = lab.kernel.modules.split("/").at(-1) ?? "";
  const text = renderReport(release, measured);
  console.log(`\n${text}`);
  if (wanted.length === 0) {
    mkdirSync(dirname(report), { recursive: true });
    writeFileSync(report, text);
  }
  const unexpected = measured.flatMap(({ red }) => red).filter((one) => !knownDeviations.has(one));
  for (const name of unexpected) console.error(`red: ${name}`);
  return unexpected.length === 0 ? 0 : 1;
}

process.exitCode = await main();
