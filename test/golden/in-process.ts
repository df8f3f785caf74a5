/**
 * Runs a scenario in this process in its own namespace, with the daemon's composition root. The configuration comes
 * from a file, and the objects from a folder through the manifest source.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { ManifestSource } from "../../src/api/manifest/manifest-source.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { Config } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { type BackendChoice, chooseBackend } from "../../src/kernel/iptables/backend.ts";
import { runProgram } from "../../src/kernel/run-program.ts";
import { type InProcessDaemon, startInProcess } from "../support/in-process.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { hasIptables } from "../support/rules-writer.ts";
import { configurationText } from "./configuration.ts";
import { differencesWithin, lookAfterEnd } from "./eventually.ts";
import type { Difference } from "./kernel-state.ts";
import { nodeSetUp } from "./node-set-up.ts";
import { type ApiObject, healthCheckNodePorts, type Scenario, type Step } from "./scenario.ts";

/** Timeout for events of links and addresses, which reach the daemon after the sync was requested. */
const deadlineMs = 60_000;

/**
 * The backend in a namespace without rules. It is always the same, and is detected only once, because detection runs
 * five programs.
 */
let emptyBackend: BackendChoice | undefined;

/** The differences after each step. Those of the last step include the differences after the daemon has stopped. */
export function runInProcess(scenario: Scenario): Promise<readonly (readonly Difference[])[]> {
  return withNetworkNamespace("golden", [...nodeSetUp, ...scenario.pre], async () => {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-golden-"));
    try {
      return await lookAfterEnd(await runSteps(scenario, folder), scenario);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

async function runSteps(
  scenario: Scenario,
  folder: string,
): Promise<readonly (readonly Difference[])[]> {
  const manifests = join(folder, "manifests");
  mkdirSync(manifests);
  const config = configOf(scenario, folder, manifests);
  const source = new ManifestSource(
    { clock: systemClock, log: silentLogger },
    { folder: manifests, nodeName: config.nodeName },
  );
  const iptablesBackend = await backendOf(scenario);
  let daemon: InProcessDaemon | undefined;
  try {
    const steps: (readonly Difference[])[] = [];
    for (const step of scenario.steps) {
      changeObjects(step, manifests);
      daemon ??= await startInProcess({ config, source, iptablesBackend });
      await source.refresh();
      await daemon.settled();
      const ports = healthCheckNodePorts(scenario);
      steps.push(await differencesWithin(deadlineMs, step.recorded, ports));
    }
    await daemon?.settled();
    return steps;
  } finally {
    await daemon?.stop();
  }
}

/** Undefined without iptables, or if the namespace may have rules, so that the daemon detects the backend itself. */
async function backendOf({ pre }: Scenario): Promise<BackendChoice | undefined> {
  if (!hasIptables || pre.length > 0) return undefined;
  emptyBackend ??= await chooseBackend(runProgram);
  return emptyBackend;
}

function configOf(scenario: Scenario, folder: string, manifests: string): Config {
  const path = join(folder, "config.yaml");
  const own = { manifests, profile: "kube-proxy", ignoreRunningKubeProxy: true };
  writeFileSync(path, configurationText({ ...scenario.config, kubeIpvs: own }));
  const readFile = (name: string): string => readFileSync(name, "utf8");
  return loadConfig(new Map([["config", [path]]]), { readFile, hostname }).config;
}

function changeObjects(step: Step, manifests: string): void {
  for (const line of step.run) shell(line);
  for (const object of step.delete) rmSync(join(manifests, fileName(object)));
  for (const object of step.apply) {
    writeFileSync(join(manifests, fileName(object)), JSON.stringify(object));
  }
}

function fileName({ kind, metadata }: ApiObject): string {
  return `${kind}-${metadata.namespace ?? "default"}-${metadata.name}.json`;
}
