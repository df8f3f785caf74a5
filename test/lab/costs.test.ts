/**
 * Counts the cost of changes: netlink messages, processes and files. Uses the built program with 500 Services of 5
 * endpoints each, an API server over HTTP, and strace. The results do not depend on timing.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { clusterOf, serviceOf, slicesOf, tableLines } from "../bench/cluster.ts";
import {
  isEstimatorCheck,
  isSetLook,
  readSystemCalls,
  type SystemCalls,
  straceArguments,
} from "../bench/system-calls.ts";
import { ApiServer } from "../support/api-server/api-server.ts";
import { clusterIpOf, positions } from "../support/many-services.ts";
import { enterNetworkNamespace } from "../support/netns/network-namespace.ts";
import { buildNodeNetwork } from "../support/node-network.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";
import { StartedProcesses } from "../support/started-processes.ts";

const size = { services: 500, endpoints: 5 };
const turns = 10;
const started = new StartedProcesses();
const rolling = { index: size.services, endpoints: 250, perStep: 10 };
const burst = { services: 300, endpoints: 5 };
/** Maximum delay of a change's effects. */
const aftermathMs = 2_000;
const tracePath = "/run/costs-strace";

describe(`the cost of changes with ${size.services} other Services`, () => {
  let server: ApiServer;
  let program: Program;

  before(async () => {
    buildNodeNetwork([]);
    enterNetworkNamespace("node");
    const rolled = [serviceOf(rolling.index), ...slicesOf(rolling.index, rolledPositions(0))];
    server = await ApiServer.start({ objects: [...clusterOf(size), ...rolled] });
    program = start();
    await program.prints(/SyncProxyRules complete/);
    await unchanging();
    // The program receives notifications about its own writes, and keeps checking for a while afterwards.
    await until(() => isIdle(program.pid), "nothing is left to do");
  });

  after(async () => {
    program.kill("SIGKILL");
    await program.ends();
    await server.stop();
  });

  function start(): Program {
    return new Program([
      "--hostname-override=node-1",
      "--cluster-cidr=10.244.0.0/16",
      "--ipvs-min-sync-period=0s",
      "--ipvs-sync-period=1h",
      "--kube-ipvs-verification-period=1h",
      "--kube-ipvs-rule-check-period=0s",
      // Only a kernel's first network namespace can set this limit.
      ...["--conntrack-max-per-core=0", "--conntrack-min=0"],
      "-v=2",
      `--master=${server.url}`,
    ]);
  }

  it("sends one message for a new endpoint, opens no file and starts no process", async () => {
    const calls = await traced(() => changeEach(size.endpoints + 1));
    assertCosts(calls, { changeMessages: turns, readMessages: 0 });
  });

  it("sends two messages for a removed endpoint, and requests its connections once", async () => {
    const calls = await traced(() => changeEach(size.endpoints));
    assertCosts(calls, { changeMessages: 2 * turns, readMessages: turns });
  });

  it("sends three messages for each replaced endpoint of a rolling update, and starts no process", async () => {
    const [changes, forks] = [await kernelChanges(), started.count()];
    const wanted = 3 * rolling.endpoints;
    for (let step = 1; step <= rolling.endpoints / rolling.perStep; step++) {
      server.apply(...slicesOf(rolling.index, rolledPositions(step)));
      await pause(20);
    }
    await until(async () => (await kernelChanges()) - changes >= wanted, "the rolling update");
    await unchanging();
    assert.equal((await kernelChanges()) - changes, wanted);
    assert.equal(started.count() - forks, 0);
    assert.equal(tableLineCount(), tableLines(size) + 1 + rolling.endpoints);
  });

  it("applies all new Services of a burst, and writes each of their objects once", async () => {
    const changes = await kernelChanges();
    const wanted = tableLineCount() + tableLines(burst);
    const first = rolling.index + 1;
    for (const offset of positions(burst.services)) {
      const index = first + offset;
      server.apply(serviceOf(index), ...slicesOf(index, positions(burst.endpoints)));
    }
    await until(async () => tableLineCount() >= wanted, "the burst");
    await unchanging();
    assert.equal(tableLineCount(), wanted);
    // The virtual server, its real servers, its address, and entries in the sets of cluster IPs and of bound addresses.
    const perService = 1 + burst.endpoints + 1 + 2;
    assert.equal((await kernelChanges()) - changes, burst.services * perService);
  });

  it("writes nothing when it restarts on this kernel", async () => {
    program.kill("SIGTERM");
    assert.equal((await program.ends()).code, 0);
    program = start();
    await program.prints(/SyncProxyRules complete/);
    await unchanging();
    assert.equal(await kernelChanges(), 0);
  });

  /**
   * Gives some Services this many endpoints each, one Service after another. Checks only the kernel, because a metrics
   * scrape opens files.
   */
  async function changeEach(count: number): Promise<void> {
    for (const index of positions(turns)) {
      server.apply(...slicesOf(index, positions(count)));
      await until(async () => serversOf(index) === count, `Service ${index}`);
    }
  }

  async function traced(body: () => Promise<void>): Promise<SystemCalls> {
    const argv = straceArguments(program.pid, tracePath);
    const tracer = spawn("strace", argv, { stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(tracer, "close");
    // strace reports on standard error when it is attached.
    await once(tracer.stderr, "data");
    await body();
    await pause(aftermathMs);
    tracer.kill("SIGINT");
    await ended;
    return readSystemCalls(readFileSync(tracePath, "utf8"));
  }
});

interface Costs {
  readonly changeMessages: number;
  readonly readMessages: number;
}

function assertCosts(calls: SystemCalls, wanted: Costs): void {
  const readMessages = calls.readMessages.filter((message) => !isSetLook(message));
  assert.deepEqual(
    { changeMessages: calls.changeMessages.length, readMessages: readMessages.length },
    wanted,
    [...calls.changeMessages, ...readMessages].join("\n"),
  );
  assert.deepEqual(
    calls.openedFiles.filter((file) => !isEstimatorCheck(file)),
    [],
  );
  assert.deepEqual(calls.startedProcesses, []);
}

/** Positions 0 to 249 at first. Each step replaces ten of them with positions that are 250 higher. */
function rolledPositions(step: number): readonly number[] {
  return positions(rolling.endpoints).map((position) =>
    position < step * rolling.perStep ? position + rolling.endpoints : position,
  );
}

/** The daemon's metric for messages that change the kernel. The daemon counts them when it sends them. */
async function kernelChanges(): Promise<number> {
  const response = await fetch("http://127.0.0.1:10249/metrics");
  return (await response.text())
    .split("\n")
    .filter((line) => line.startsWith("kube_ipvs_kernel_changes_total"))
    .reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
}

/** Waits for a second without writes. */
async function unchanging(): Promise<void> {
  let last = -1;
  await until(async () => {
    const total = await kernelChanges();
    const isSame = total === last;
    last = total;
    await pause(1_000);
    return isSame;
  }, "a second without a write");
}

/** Whether the process used at most three ticks of CPU time within a second. */
async function isIdle(pid: number): Promise<boolean> {
  const before = cpuTicks(pid);
  await pause(1_000);
  return cpuTicks(pid) - before <= 3;
}

function cpuTicks(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`).toString();
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

/** Number of lines in the kernel's table, excluding the header. */
function tableLineCount(): number {
  return tableText().trimEnd().split("\n").length - 3;
}

/** A Service's number of real servers, including draining ones. */
function serversOf(index: number): number {
  const hex = clusterIpOf(index)
    .split(".")
    .map((part) => Number(part).toString(16).padStart(2, "0").toUpperCase())
    .join("");
  const [, rest = ""] = tableText().split(`TCP  ${hex}:0050 `);
  const lines = rest.split("\n").slice(1);
  const end = lines.findIndex((line) => !line.startsWith("  ->"));
  return end < 0 ? lines.length : end;
}

function tableText(): string {
  return readFileSync("/proc/net/ip_vs").toString();
}

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const deadlineMs = performance.now() + patienceMs;
  while (!(await condition())) {
    assert.ok(performance.now() < deadlineMs, `Timed out after ${patienceMs} ms: ${what}`);
    await pause(20);
  }
}
