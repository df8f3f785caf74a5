/** The commands that run in the project's root, in addition to the lab suites. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { countOf } from "../support/seeds.ts";
import type { Command } from "./command-job.ts";

const unitFolder: string = join(import.meta.dirname, "../unit");

export function commands(): readonly Command[] {
  return [
    ...readdirSync(unitFolder).map((folder) => units(`unit-${folder}`, `test/unit/${folder}/**`)),
    units("unit-contract", "test/contract"),
    {
      name: "fuzz",
      argv: ["node", "test/fuzz/run.ts"],
      hasNoSummary: true,
    },
    { name: "hostile-clients", argv: nodeTests("test/fuzz/http-flood.test.ts") },
    { name: "shim", argv: ["make", "-s", "-C", "native-shim", "check"], hasNoSummary: true },
    {
      name: "prometheus",
      argv: nodeTests("--test-timeout=600000", "test/prometheus/*.test.ts"),
      waits: true,
    },
    { name: "deploy", argv: nodeTests("test/deploy/*.test.ts") },
    { name: "elsewhere", argv: ["test/elsewhere/run.sh"], hasNoSummary: true },
    { name: "lab-boot", argv: nodeTests("test/lab-boot/*.test.ts"), isNightly: true },
  ];
}

function units(name: string, folder: string): Command {
  const limits = [
    // `make unit` uses one process per file, which takes a third more CPU time.
    "--test-isolation=none",
    `--test-timeout=${countOf({ short: 600, long: 3_600 })}000`,
  ];
  return { name, argv: nodeTests(...limits, `${folder}/*.test.ts`) };
}

function nodeTests(...words: readonly string[]): readonly string[] {
  return ["node", "--test", "--test-reporter=spec", ...words];
}
