/** The lab suites. Every test file in this folder is a suite with its own lab kernel. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { countOf } from "../support/seeds.ts";
import type { LabOptions } from "./lab-kernel.ts";

export interface Suite {
  /** The file's name without `.test.ts`. */
  readonly name: string;
  /** Path from the project's root. */
  readonly file: string;
  readonly options: Omit<LabOptions, "cpu">;
  /** Whether the suite mostly waits, so that it can share a processor with another suite. */
  readonly waits: boolean;
  /** Whether only `make nightly` runs the suite: see nightlySuites. */
  readonly isNightly: boolean;
  /** The change that the suite makes outside its network namespace. Such a suite runs only in the lab kernel. */
  readonly machineWide?: string;
}

interface Settings {
  readonly waits?: true;
  readonly machineWide?: string;
}

const setsLimits = "sets kernel-wide conntrack limits";

/** Settings that differ from the defaults. */
const settingsByName: Readonly<Record<string, Settings>> = {
  drift: { waits: true },
  "packet-paths-modes": { waits: true },
  faults: { waits: true },
  "broken-writes": { waits: true },
  demo: { waits: true },
  drains: { waits: true },
  "stale-flows": { waits: true },
  "many-drains": { waits: true },
  "kernel-tools": { waits: true },
  "upgrade-traffic": { waits: true },
  "mode-histories": { waits: true },
  "broken-nodes": { waits: true, machineWide: setsLimits },
  configuration: { machineWide: setsLimits },
  image: { machineWide: setsLimits },
  acceptance: { waits: true },
  "drains-sctp": { waits: true },
  "rejected-objects": { waits: true },
  "foreign-claims": { waits: true },
  "busy-cluster": { waits: true },
  neighbors: { waits: true },
  namespaces: { waits: true },
  tuning: { waits: true },
  "node-replacement": { waits: true },
  "stopped-traffic": { waits: true },
  "weight-signals": { waits: true },
  systemd: { waits: true, machineWide: "installs a systemd unit" },
  "kernels/flushed-rulesets": { waits: true },
};

/**
 * Suites that `make test` leaves to `make nightly`, so that it ends within half an hour on two slow processors. They use
 * half of the CPU time, and vary what other suites test: other modes, schedulers, protocols, software, numbers of
 * objects and random histories, or optional abilities.
 */
export const nightlySuites: ReadonlySet<string> = new Set([
  "broken-nodes",
  "drains-sctp",
  "faults",
  "golden-recorder",
  "hashing-schedulers",
  "holders",
  "many-drains",
  "neighbors",
  "node-replacement",
  "operator-commands-modes",
  "ownership-histories",
  "rejected-objects",
  "systemd",
  "thousand-services",
  "tunnel",
  "weight-signals",
]);

/** The timeout detects hangs, not slow suites. */
const timeoutSeconds = countOf({ short: 3_600, long: 7_200 });
const ending = ".test.ts";

/** All suites. With `hasNft`, also those that need a kernel with both iptables backends. */
export function listSuites(hasNft: boolean): readonly Suite[] {
  return [...namesIn("."), ...(hasNft ? namesIn("kernels") : [])].map((name) => ({
    name,
    file: join("test/lab", name + ending),
    options: { memory: "2G", timeoutSeconds, ipvs: "present" },
    waits: false,
    isNightly: nightlySuites.has(name),
    ...settingsByName[name],
  }));
}

/** Names of suites in a subfolder: `contract`, `kernels/backends`. */
function namesIn(folder: string): readonly string[] {
  return readdirSync(join(import.meta.dirname, folder))
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name.slice(0, -ending.length)));
}
