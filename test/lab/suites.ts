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
  /** What the suite changes beyond its network namespace: it runs in the lab kernel only. */
  readonly machineWide?: string;
}

interface Settings {
  /** Measured; the long ones start first, so that all lanes end together. */
  readonly expectedSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly memory?: string;
  readonly ipvs?: "absent";
  readonly waits?: true;
  readonly machineWide?: string;
}

const setsLimits = "sets the conntrack limits of the whole kernel";

/** Only what differs from the defaults. */
const settingsByName: Readonly<Record<string, Settings>> = {
  "set-migration": { expectedSeconds: 40 },
  "quick-checks": { expectedSeconds: 65 },
  "foreign-state": { expectedSeconds: 50 },
  drift: { expectedSeconds: 65, waits: true },
  golden: { expectedSeconds: 330, timeoutSeconds: 1_200 },
  "packet-paths": { expectedSeconds: 130, timeoutSeconds: 1_200 },
  "packet-paths-modes": { expectedSeconds: 75, timeoutSeconds: 600, waits: true },
  "thousand-services": { expectedSeconds: 250, timeoutSeconds: 600 },
  faults: { expectedSeconds: 250, timeoutSeconds: 1_200, waits: true },
  "broken-writes": { expectedSeconds: 350, timeoutSeconds: 1_200, waits: true },
  demo: { expectedSeconds: 80, timeoutSeconds: 1_200, waits: true },
  drains: { expectedSeconds: 85, waits: true },
  "stale-flows": { expectedSeconds: 50, waits: true },
  "many-drains": { expectedSeconds: 50, waits: true },
  "random-sequences": { expectedSeconds: 85 },
  "golden-executable": { expectedSeconds: 40 },
  "golden-recorder": { expectedSeconds: 45 },
  "start-and-stop": { expectedSeconds: 60 },
  "kernel-tools": { expectedSeconds: 28, waits: true },
  contract: { expectedSeconds: 60 },
  surfaces: { expectedSeconds: 12 },
  upgrade: { expectedSeconds: 30 },
  "upgrade-traffic": { expectedSeconds: 30, waits: true },
  costs: { expectedSeconds: 32 },
  "operator-commands": { expectedSeconds: 70 },
  "mode-histories": { expectedSeconds: 180, timeoutSeconds: 600, waits: true },
  "operator-commands-modes": { expectedSeconds: 100 },
  configuration: { expectedSeconds: 20, machineWide: setsLimits },
  "bad-input": { expectedSeconds: 20 },
  image: { expectedSeconds: 50, machineWide: setsLimits },
  acceptance: { expectedSeconds: 60, waits: true },
  documents: { expectedSeconds: 20 },
  "drains-sctp": { expectedSeconds: 115, waits: true },
  "refused-objects": { expectedSeconds: 60, waits: true },
  "foreign-claims": { expectedSeconds: 55, waits: true },
  holders: { expectedSeconds: 90 },
  "event-orders": { expectedSeconds: 60 },
  "busy-cluster": { expectedSeconds: 75, waits: true },
  "ownership-histories": { expectedSeconds: 90 },
  namespaces: { expectedSeconds: 25, waits: true },
  tuning: { expectedSeconds: 28, waits: true },
  "iptables-mode": { expectedSeconds: 50 },
  "fake-kernel": { expectedSeconds: 30 },
  "node-safety": { expectedSeconds: 30 },
  ipvs: { expectedSeconds: 25 },
  "random-walks": { expectedSeconds: 60, timeoutSeconds: 1_200 },
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
      ...machineWideOf(name),
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

function machineWideOf(name: string): Pick<Suite, "machineWide"> {
  const machineWide = settingsByName[name]?.machineWide;
  return machineWide === undefined ? {} : { machineWide };
}

function optionsOf(name: string): Suite["options"] {
  const settings = settingsByName[name] ?? {};
  return {
    memory: settings.memory ?? defaults.memory,
    timeoutSeconds: settings.timeoutSeconds ?? defaults.timeoutSeconds,
    ipvs: settings.ipvs ?? "present",
  };
}
