/** What runs in the lab: every test file of this folder is a suite with a lab kernel of its own. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { LabOptions } from "./lab-kernel.ts";

export interface Suite {
  /** The file's name without `.test.ts`. */
  readonly name: string;
  /** Path from the project's root. */
  readonly file: string;
  readonly options: Omit<LabOptions, "cpu">;
  /** It waits more than it works: it shares a processor with another suite. */
  readonly waits: boolean;
}

interface Settings {
  /** Measured; the long ones start first, so that all lanes end together. */
  readonly expectedSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly memory?: string;
  readonly ipvs?: "absent";
  readonly waits?: true;
}

/** Only what differs from the defaults. */
const settingsByName: Readonly<Record<string, Settings>> = {
  "set-migration": { expectedSeconds: 60 },
  "quick-checks": { expectedSeconds: 60 },
  "foreign-state": { expectedSeconds: 50 },
  drift: { expectedSeconds: 100, waits: true },
  golden: { expectedSeconds: 280, timeoutSeconds: 1_200 },
  "packet-paths": { expectedSeconds: 150, timeoutSeconds: 1_200 },
  "thousand-services": { expectedSeconds: 240, timeoutSeconds: 600 },
  faults: { expectedSeconds: 340, timeoutSeconds: 1_200, waits: true },
  "broken-writes": { expectedSeconds: 350, timeoutSeconds: 1_200, waits: true },
  demo: { expectedSeconds: 90, timeoutSeconds: 1_200, waits: true },
  drains: { expectedSeconds: 100, waits: true },
  "stale-flows": { expectedSeconds: 60, waits: true },
  "many-drains": { expectedSeconds: 60, waits: true },
  "random-sequences": { expectedSeconds: 80 },
  "golden-executable": { expectedSeconds: 40 },
  "golden-recorder": { expectedSeconds: 30 },
  "start-and-stop": { expectedSeconds: 30 },
  "kernel-tools": { expectedSeconds: 21 },
  contract: { expectedSeconds: 60 },
  surfaces: { expectedSeconds: 12 },
  upgrade: { expectedSeconds: 20 },
  "upgrade-traffic": { expectedSeconds: 26, waits: true },
  costs: { expectedSeconds: 26 },
  "operator-commands": { expectedSeconds: 30 },
  configuration: { expectedSeconds: 30 },
  "bad-input": { expectedSeconds: 13 },
  image: { expectedSeconds: 45 },
  acceptance: { expectedSeconds: 60, waits: true },
  documents: { expectedSeconds: 20 },
  "drains-sctp": { expectedSeconds: 110, waits: true },
  "refused-objects": { expectedSeconds: 40 },
  "foreign-claims": { expectedSeconds: 65 },
  "busy-cluster": { expectedSeconds: 70, waits: true },
  "ownership-histories": { expectedSeconds: 77 },
  namespaces: { expectedSeconds: 25 },
  tuning: { expectedSeconds: 20, waits: true },
  "random-walks": { expectedSeconds: 50, timeoutSeconds: 1_200 },
};

const defaults = { expectedSeconds: 10, timeoutSeconds: 600, memory: "2G" } as const;
const ending = ".test.ts";

/** All suites, the longest first; with `hasNft` those that need a kernel with both backends of iptables, too. */
export function listSuites(hasNft: boolean): readonly Suite[] {
  return [...namesIn("."), ...(hasNft ? namesIn("kernels") : [])]
    .toSorted((one, other) => expectedSeconds(other) - expectedSeconds(one))
    .map((name) => ({
      name,
      file: join("test/lab", name + ending),
      options: optionsOf(name),
      waits: settingsByName[name]?.waits === true,
    }));
}

/** In a folder of this one: `contract`, `kernels/backends`. */
function namesIn(folder: string): readonly string[] {
  return readdirSync(join(import.meta.dirname, folder))
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name.slice(0, -ending.length)));
}

function expectedSeconds(name: string): number {
  return settingsByName[name]?.expectedSeconds ?? defaults.expectedSeconds;
}

function optionsOf(name: string): Suite["options"] {
  const settings = settingsByName[name] ?? {};
  return {
    memory: settings.memory ?? defaults.memory,
    timeoutSeconds: settings.timeoutSeconds ?? defaults.timeoutSeconds,
    ipvs: settings.ipvs ?? "present",
  };
}
