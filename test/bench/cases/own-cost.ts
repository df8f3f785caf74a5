/** The CPU time that kube-ipvs itself needs for one changed endpoint, on a fake kernel. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { Case, CaseContext, CaseOutcome } from "../case.ts";
import type { Row, Target } from "../rows.ts";

const script: string = join(import.meta.dirname, "../own-cost.ts");
const tree: string = join(import.meta.dirname, "../../..");
const changes = 200;
/** Number of runs. The row shows the lowest median, because other work on the machine only adds time. */
const rounds = 3;
const target: Target = { text: "≤ 50 ms", most: 50 };

const sizes = ["ipvs", "iptables"].flatMap((mode) =>
  [1_000, 5_000].map((services) => ({ mode, services, changes })),
);

export const ownCostCases: readonly Case[] = [
  {
    name: "own-cost",
    title: "one changed endpoint: CPU time of kube-ipvs itself, on a fake kernel",
    expectedSeconds: 120,
    run,
  },
];

async function run({ step, keep }: CaseContext): Promise<CaseOutcome> {
  const rows: Row[] = [];
  for (const size of sizes) {
    const what = `${size.mode} mode, ${size.services} Services × 5 endpoints`;
    step(what);
    const samples = Array.from({ length: rounds }, () => {
      const argv = [script, "--of", tree, JSON.stringify(size)];
      return Number(spawnSync(process.execPath, argv, { encoding: "utf8" }).stdout);
    });
    const value = Math.min(...samples);
    rows.push({ subject: "kube-ipvs", what, unit: "ms", kind: "figure", value, samples, target });
    keep(rows);
  }
  return { rows };
}
