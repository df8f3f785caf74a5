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
}

interface Settings {
  /** Measured; the long ones start first, so that both processors end together. */
  readonly expectedSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly memory?: string;
  readonly ipvs?: "absent";
}

/** Only what differs from the defaults. */
const settingsByName: Readonly<Record<string, Settings>> = {
  "set-migration": { expectedSeconds: 39 },
  "quick-checks": { expectedSeconds: 50 },
  "foreign-state": { expectedSeconds: 50 },
  drift: { expectedSeconds: 52 },
  golden: { expectedSeconds: 180, timeoutSeconds: 600 },
  "packet-paths": { expectedSeconds: 120 },
  "thousand-services": { expectedSeconds: 180, timeoutSeconds: 600 },
  faults: { expectedSeconds: 260, timeoutSeconds: 1_200 },
  "broken-writes": { expectedSeconds: 270, timeoutSeconds: 1_200 },
  demo: { expectedSeconds: 180 },
  drains: { expectedSeconds: 75 },
  "stale-flows": { expectedSeconds: 41 },
  "many-drains": { expectedSeconds: 40 },
  "random-sequences": { expectedSeconds: 45 },
  "golden-executable": { expectedSeconds: 31 },
  "golden-recorder": { expectedSeconds: 25 },
  "start-and-stop": { expectedSeconds: 30 },
  "kernel-tools": { expectedSeconds: 21 },
  contract: { expectedSeconds: 35 },
  surfaces: { expectedSeconds: 12 },
  upgrade: { expectedSeconds: 20 },
  "upgrade-traffic": { expectedSeconds: 20 },
  costs: { expectedSeconds: 26 },
  "operator-commands": { expectedSeconds: 30 },
  configuration: { expectedSeconds: 15 },
  "bad-input": { expectedSeconds: 13 },
  image: { expectedSeconds: 29 },
  documents: { expectedSeconds: 10 },
  "drains-sctp": { expectedSeconds: 100 },
  "refused-objects": { expectedSeconds: 75 },
  "foreign-claims": { expectedSeconds: 80 },
  "busy-cluster": { expectedSeconds: 75 },
  "ownership-histories": { expectedSeconds: 110 },
  namespaces: { expectedSeconds: 50 },
  "random-walks": { expectedSeconds: 100, timeoutSeconds: 1_200 },
};

const defaults = { expectedSeconds: 10, timeoutSeconds: 600, memory: "2G" } as const;
const ending = ".test.ts";

/** All suites, the longest first; with `hasNft` those that need a kernel with both backends of iptables, too. */
export function listSuites(hasNft: boolean): readonly Suite[] {
  return [...namesIn("."), ...(hasNft ? namesIn("kernels") : [])]
    .toSorted((one, other) => expectedSeconds(other) - expectedSeconds(one))
    .map((name) => ({ name, file: join("test/lab", name + ending), options: optionsOf(name) }));
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
