/** The scenarios: objects and settings to apply, and the kernel state that kube-proxy left. See README.md. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type KernelState, stateFiles } from "./kernel-state.ts";

/** A Service, EndpointSlice or Node as an API server serves it. */
export interface ApiObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

export interface Step {
  /** Shell lines, run in the namespace just before the objects change. */
  readonly run: readonly string[];
  readonly delete: readonly ApiObject[];
  readonly apply: readonly ApiObject[];
  /** What the kernel held after this step. */
  readonly recorded: KernelState;
}

export interface Scenario {
  readonly name: string;
  /** Fields of KubeProxyConfiguration beyond the base. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Shell lines, run in the namespace before the proxy starts. */
  readonly pre: readonly string[];
  readonly steps: readonly Step[];
}

interface ScenarioFile {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly pre?: readonly string[];
  readonly steps: readonly Partial<Omit<Step, "recorded">>[];
}

/** Those of mode ipvs. */
const ipvsFolder: string = join(import.meta.dirname, "scenarios");

export function listScenarios(folder: string = ipvsFolder): readonly string[] {
  return readdirSync(folder).sort();
}

export function readScenario(name: string, folder: string = ipvsFolder): Scenario {
  const text = readFileSync(join(folder, name, "scenario.json"), "utf8");
  const file = JSON.parse(text) as ScenarioFile;
  const steps = file.steps.map((step, index) => ({
    run: step.run ?? [],
    delete: step.delete ?? [],
    apply: step.apply ?? [],
    recorded: readRecorded(join(folder, name, `step${index}`)),
  }));
  return { name, config: file.config ?? {}, pre: file.pre ?? [], steps };
}

function readRecorded(stepFolder: string): KernelState {
  const state: Partial<Record<keyof KernelState, string>> = {};
  for (const file of stateFiles) {
    const path = join(stepFolder, `${file}.txt`);
    if (existsSync(path)) state[file] = readLines(path);
  }
  return state;
}

/** "Nothing" was recorded as one empty line. */
function readLines(path: string): string {
  const text = readFileSync(path, "utf8");
  return text === "\n" ? "" : text;
}

/** Every health-check node port that a Service of the scenario has in any of its steps. */
export function healthCheckNodePorts(scenario: Scenario): readonly number[] {
  const objects = scenario.steps.flatMap((step) => step.apply);
  const ports = objects.map((object) => {
    const spec = object["spec"] as { readonly healthCheckNodePort?: number } | undefined;
    return spec?.healthCheckNodePort ?? 0;
  });
  return [...new Set(ports)].filter((port) => port !== 0).sort((one, other) => one - other);
}
