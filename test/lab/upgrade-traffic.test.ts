/**
 * Replaces an older build with the current one while clients use its state: open connections, and new ones through a
 * cluster IP and a node port. By default, the operator's tools restore the older build's state. With
 * `OLDER_PROGRAM=PATH`, the older build itself creates it.
 */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { ask } from "../faults/ask.ts";
import { type Figures, Traffic } from "../faults/traffic.ts";
import { compareStates, differenceText, type KernelState } from "../golden/kernel-state.ts";
import { observeKernel } from "../golden/observe.ts";
import { replayLines } from "../golden/replay.ts";
import { eventually } from "../support/lab-daemon.ts";
import { enterNetworkNamespace, shell } from "../support/netns/network-namespace.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";
import { nodeWithNeighbours, podNamespace, targets } from "../upgrade/node.ts";
import { objects } from "../upgrade/objects.ts";

const statesFolder = join(import.meta.dirname, "../upgrade/states");
const olderProgram = process.env["OLDER_PROGRAM"];
/** Time without any program, about as long as a DaemonSet takes to start the next pod. */
const gapMs = 1_000;
const longCount = 10 * targets.length;

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-upgrade-"));
const flags = [
  "--hostname-override=node-1",
  "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
  "--proxy-mode=ipvs",
  "--conntrack-max-per-core=0",
  `--manifests=${folder}`,
  "-v=3",
];

let traffic: Traffic;
let older: KernelState;
let program: Program | undefined;

before(async () => {
  shell(nodeWithNeighbours.join("\n"));
  enterNetworkNamespace("node");
  for (const [index, object] of objects.entries()) {
    writeFileSync(join(folder, `${index}.json`), JSON.stringify(object));
  }
  older = await leftByOlderBuild();
  traffic = new Traffic(podNamespace, targets);
  await eventually(async () => (await traffic.take()).long, longCount, patienceMs);
});

after(async () => {
  await traffic?.stop();
  program?.kill("SIGKILL");
  await program?.ends();
});

async function leftByOlderBuild(): Promise<KernelState> {
  if (olderProgram === undefined) {
    const [name = ""] = readdirSync(statesFolder).sort();
    const { health: _, ...state } = JSON.parse(
      readFileSync(join(statesFolder, name), "utf8"),
    ) as KernelState;
    shell(replayLines(state).join("\n"));
    return state;
  }
  const first = new Program(flags, [], { program: olderProgram });
  await first.prints(/SyncProxyRules complete/);
  await end(first, "SIGTERM");
  return observeKernel([]);
}

async function end(running: Program, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  running.kill(signal);
  await running.ends();
}

/** Starts the current build and waits for its first sync. */
async function startPresent(): Promise<Program> {
  program = new Program(flags);
  await program.prints(/SyncProxyRules complete/);
  return program;
}

/** Lines of the metric that counts writes. */
async function writes(): Promise<readonly string[]> {
  const { text } = await ask("http://127.0.0.1:10249/metrics");
  return text.split("\n").filter((line) => line.startsWith("kube_ipvs_kernel_changes_total{"));
}

async function assertUndisturbed(): Promise<Figures> {
  assert.deepEqual(await writes(), []);
  const figures = await traffic.take();
  const { long, broken, failed, reasons } = figures;
  assert.deepEqual(
    { long, broken, failed, reasons },
    { long: longCount, broken: 0, failed: 0, reasons: {} },
  );
  assert.deepEqual(compareStates(older, await observeKernel([])).map(differenceText), []);
  return figures;
}

describe("while clients use an older build's state", () => {
  it("the current build replaces it without writes and without broken connections", async (test) => {
    await traffic.take();
    await startPresent();
    await pause(2_000);
    const { short } = await assertUndisturbed();
    test.diagnostic(`${longCount} open connections, ${short} new ones`);
  });

  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    it(`the current build is itself replaced after ${signal}`, async (test) => {
      if (program !== undefined) await end(program, signal);
      await pause(gapMs);
      await startPresent();
      const { short } = await assertUndisturbed();
      assert.ok(short > 0);
      test.diagnostic(`${longCount} open connections, ${short} new ones`);
    });
  }
});
