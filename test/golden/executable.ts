/**
 * Runs a scenario with the built program in its own namespace: `dist/kube-ipvs --config FILE --master URL`, with an API
 * server over HTTP. Stops it with SIGTERM.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiServer } from "../support/api-server/api-server.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import type { ApiObject as ServedObject } from "../support/objects.ts";
import { configurationText } from "./configuration.ts";
import { differencesWithin, lookAfterEnd } from "./eventually.ts";
import type { Difference } from "./kernel-state.ts";
import { nodeSetUp } from "./node-set-up.ts";
import { type ApiObject, healthCheckNodePorts, type Scenario } from "./scenario.ts";

const program: string = join(import.meta.dirname, "../../dist/kube-ipvs");
/** Timeout from a change in the API server to the kernel, in a lab kernel on a busy machine. */
const deadlineMs = 60_000;

export interface ExecutableRun {
  /** The differences after each step. Those of the last step include the differences after the exit. */
  readonly steps: readonly (readonly Difference[])[];
  /** Exit status after SIGTERM. */
  readonly exitStatus: number | null;
  readonly log: string;
}

export function runExecutable(scenario: Scenario): Promise<ExecutableRun> {
  return withNetworkNamespace("golden", [...nodeSetUp, ...scenario.pre], async () => {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-golden-"));
    const server = await ApiServer.start();
    try {
      const run = await runSteps(scenario, server, folder);
      return { ...run, steps: await lookAfterEnd(run.steps, scenario) };
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true });
    }
  });
}

async function runSteps(
  scenario: Scenario,
  server: ApiServer,
  folder: string,
): Promise<ExecutableRun> {
  let log = "";
  let child: ChildProcess | undefined;
  const steps: (readonly Difference[])[] = [];
  try {
    for (const step of scenario.steps) {
      for (const line of step.run) shell(line);
      server.delete(...step.delete.map(served));
      server.apply(...step.apply.map(served));
      child ??= startProgram(scenario, server, folder, (text) => {
        log += text;
      });
      const ports = healthCheckNodePorts(scenario);
      steps.push(await differencesWithin(deadlineMs, step.recorded, ports));
    }
  } finally {
    child?.kill("SIGTERM");
  }
  return { steps, exitStatus: await endOf(child), log };
}

/** Deletions contain no namespace. The test server adds version and resourceVersion. */
function served(object: ApiObject): ServedObject {
  const namespace = object.kind === "Node" ? {} : { namespace: "default" };
  return { apiVersion: "", ...object, metadata: { ...namespace, ...object.metadata } };
}

function startProgram(
  scenario: Scenario,
  server: ApiServer,
  folder: string,
  onLog: (text: string) => void,
): ChildProcess {
  const path = join(folder, "config.yaml");
  const own = { profile: "kube-proxy", ignoreRunningKubeProxy: true };
  writeFileSync(path, configurationText({ ...scenario.config, kubeIpvs: own }));
  const child = spawn(program, ["--config", path, "--master", server.url], { cwd: folder });
  child.stdout.on("data", (chunk: Buffer) => onLog(chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => onLog(chunk.toString()));
  return child;
}

function endOf(child: ChildProcess | undefined): Promise<number | null> {
  return new Promise((resolve) => {
    if (child === undefined || child.exitCode !== null) resolve(child?.exitCode ?? null);
    else child.once("exit", resolve);
  });
}
