/** The scenarios: objects and settings to apply, and kube-proxy's kernel state. See README.md. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { KernelState } from "./kernel-state.ts";
import { baseFile, parseStates } from "./recorded-states.ts";

/** A Service, EndpointSlice or Node as an API server returns it. */
export interface ApiObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

export interface Step {
  /** Shell lines that run in the namespace just before the objects change. */
  readonly run: readonly string[];
  readonly delete: readonly ApiObject[];
  readonly apply: readonly ApiObject[];
  /** The kernel state after this step. */
  readonly recorded: KernelState;
}

export interface Scenario {
  readonly name: string;
  /** Fields of KubeProxyConfiguration in addition to the base. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Shell lines that run in the namespace before the proxy starts. */
  readonly pre: readonly string[];
  readonly steps: readonly Step[];
}

interface ScenarioFile {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly pre?: readonly string[];
  readonly steps: readonly Partial<Omit<Step, "recorded">>[];
}

const scenariosFolder: string = join(import.meta.dirname, "scenarios");
const statesFolder: string = join(import.meta.dirname, "states");

/** The scenarios of IPVS mode, or those with states in a different folder. */
export function listScenarios(states: string = statesFolder): readonly string[] {
  return readdirSync(states)
    .filter((file) => file !== baseFile)
    .map((file) => file.replace(/\.txt$/, ""))
    .sort();
}

export function readScenario(name: string, states: string = statesFolder): Scenario {
  const text = readFileSync(join(scenariosFolder, `${name}.json`), "utf8");
  const file = JSON.parse(text) as ScenarioFile;
  const recorded = readStates(name, states);
  const steps = file.steps.map((step, index) => ({
    run: step.run ?? [],
    delete: step.delete ?? [],
    apply: step.apply ?? [],
    recorded: recorded[index] ?? {},
  }));
  assert.equal(recorded.length, steps.length, `States of scenario ${name}`);
  return { name, config: file.config ?? {}, pre: file.pre ?? [], steps };
}

/** The state of each step. */
function readStates(name: string, folder: string): readonly KernelState[] {
  const [base = {}] = parseStates(readFileSync(join(folder, baseFile), "utf8"), {});
  return parseStates(readFileSync(join(folder, `${name}.txt`), "utf8"), base);
}

/** All health-check node ports of the scenario's Services, over all steps. */
export function healthCheckNodePorts(scenario: Scenario): readonly number[] {
  const objects = scenario.steps.flatMap((step) => step.apply);
  const ports = objects.map((object) => {
    const spec = object["spec"] as { readonly healthCheckNodePort?: number } | undefined;
    return spec?.healthCheckNodePort ?? 0;
  });
  return [...new Set(ports)].filter((port) => port !== 0).sort((one, other) => one - other);
}
