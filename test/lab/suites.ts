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
  "set-migration": { expectedSeconds: 40 },
  "quick-checks": { expectedSeconds: 50 },
  "foreign-state": { expectedSeconds: 25 },
  drift: { expectedSeconds: 60 },
  golden: { expectedSeconds: 100, timeoutSeconds: 600 },
  "packet-paths": { expectedSeconds: 90 },
  "thousand-services": { expectedSeconds: 90, timeoutSeconds: 600 },
  demo: { expectedSeconds: 75 },
  drains: { expectedSeconds: 85 },
  "stale-flows": { expectedSeconds: 65 },
  "many-drains": { expectedSeconds: 35 },
  "random-sequences": { expectedSeconds: 45 },
  "golden-executable": { expectedSeconds: 30 },
  "golden-recorder": { expectedSeconds: 30 },
  "start-and-stop": { expectedSeconds: 30 },
  "kernel-tools": { expectedSeconds: 25 },
  contract: { expectedSeconds: 25 },
  surfaces: { expectedSeconds: 15 },
  upgrade: { expectedSeconds: 25 },
  costs: { expectedSeconds: 25 },
  configuration: { expectedSeconds: 30 },
  "bad-input": { expectedSeconds: 20 },
  image: { expectedSeconds: 30 },
  documents: { expectedSeconds: 15 },
};

const defaults = { expectedSeconds: 10, timeoutSeconds: 600, memory: "2G" } as const;
const ending = ".test.ts";

/** All suites, the longest first. */
export function listSuites(): readonly Suite[] {
  const names = readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length));
  return names
    .toSorted((one, other) => expectedSeconds(other) - expectedSeconds(one))
    .map((name) => ({ name, file: join("test/lab", name + ending), options: optionsOf(name) }));
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
