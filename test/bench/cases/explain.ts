/** How long `kube-ipvs explain` takes on a large node, from the start of the program to its exit. */
import { join } from "node:path";
import { clusterIpOf } from "../../support/many-services.ts";
import { type Case, type CaseContext, type CaseOutcome, withMachine } from "../case.ts";
import { clusterOf, sizeText, tableLines } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import { quantile, type Row } from "../rows.ts";
import { ourCommand, quietFlags, Subject } from "../subject.ts";

const size = { services: 10_000, endpoints: 10 };
const runs = 5;
const program: string = join(import.meta.dirname, "../../../dist/kube-ipvs");
const target = { text: "≤ 2 s", most: 2_000 };

interface Question {
  readonly what: string;
  readonly args: readonly string[];
  readonly target?: Row["target"];
}

const questions: readonly Question[] = [
  { what: "--version, which only starts the program", args: ["--version"] },
  {
    what: `explain a Service, ${sizeText(size)}`,
    args: ["explain", "default/svc-5000"],
    target,
  },
  {
    what: `explain one client's packets, ${sizeText(size)}`,
    args: ["explain", "--from", "192.0.2.1", "--to", `${clusterIpOf(5_000)}:80`],
    target,
  },
];

export const explainCases: readonly Case[] = [
  {
    name: "explain",
    title: `kube-ipvs explain, ${sizeText(size)}`,
    expectedSeconds: 90,
    run: (context) => run(context),
  },
];

function run(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(size) }, async (machine, server) => {
    context.step("first sync");
    const subject = await Subject.start(machine, ourCommand(server.url, quietFlags));
    await subject.hasSynced();
    await machine.hasLines(tableLines(size));
    await subject.becomesIdle();
    const rows: Row[] = [];
    for (const { what, args, target } of questions) {
      context.step(what);
      const samples = await timesMs(machine, args);
      const value = quantile(samples, 0.5);
      const aims = target === undefined ? {} : { target };
      rows.push({
        subject: "kube-ipvs",
        what,
        kind: "figure",
        unit: "ms",
        value,
        samples,
        ...aims,
      });
    }
    await subject.end();
    return { rows };
  });
}

/** As on a node, compiled code is stored by the first run, which is not measured. */
async function timesMs(machine: Machine, args: readonly string[]): Promise<readonly number[]> {
  const samples: number[] = [];
  for (let turn = 0; turn <= runs; turn++) {
    const argv = ["env", "NODE_COMPILE_CACHE=/run/compile-cache", program, ...args];
    const { status, stdout, stderr, elapsedMs } = await machine.ask("exec", { argv });
    // The endpoints have no routes here, so `explain` exits with 2.
    if (status === 1 || stdout === "") throw new Error(`${args.join(" ")}: ${status}\n${stderr}`);
    if (turn > 0) samples.push(elapsedMs);
  }
  return samples;
}
