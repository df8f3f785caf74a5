/**
 * Tests the built program with 1,000 Services of 5 endpoints each and an API server over HTTP: its writes, the cost of
 * an API server outage, and the effect of kills on open connections.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { silentLogger } from "../../src/base/log.ts";
import { type OpenKernel, openKernel } from "../../src/kernel/open-kernel.ts";
import { setFor } from "../../src/plan/sets.ts";
import { ApiServer } from "../support/api-server/api-server.ts";
import { isInKernel, type KernelText, observedText, plannedText } from "../support/kernel-text.ts";
import { positions, serviceOf, sliceOf } from "../support/many-services.ts";
import { enterNetworkNamespace } from "../support/netns/network-namespace.ts";
import { buildNodeNetwork, nodeAddress } from "../support/node-network.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { pauseAfterCheck } from "../support/pause-after-check.ts";
import { Program } from "../support/program.ts";
import { countOf } from "../support/seeds.ts";
import { StartedProcesses } from "../support/started-processes.ts";

const started = new StartedProcesses();
const serviceCount = 1_000;
const endpointCount = 5;
const kills = countOf({ short: 4, long: 20 });
const killsInsideSync = kills / 2;
const mostKills = 2 * kills;
const echoPod = { name: "pod-1", address: "10.244.1.10" };
const echoPort = 30_777;
const echoClusterIp = "10.96.0.7";
const echoClusterPort = 7;
const synced = /SyncProxyRules complete/;

/** The API server's objects, by kind and name. */
class Cluster {
  readonly objects = new Map<string, ApiObject>();
  server: ApiServer | undefined;
  #plan: KernelText | undefined;

  /** The plan is computed once for each object state, because planning takes longer than reading the kernel. */
  get planned(): KernelText {
    this.#plan ??= plannedText(this.objects.values());
    return this.#plan;
  }

  apply(...objects: readonly ApiObject[]): void {
    this.#plan = undefined;
    for (const object of objects) {
      this.objects.set(`${object.kind} ${String(object.metadata["name"])}`, object);
    }
    this.server?.apply(...objects);
  }

  delete(...objects: readonly ApiObject[]): void {
    this.#plan = undefined;
    for (const object of objects) {
      this.objects.delete(`${object.kind} ${String(object.metadata["name"])}`);
    }
    this.server?.delete(...objects);
  }

  async start(port = 0): Promise<number> {
    this.server = await ApiServer.start({ objects: [...this.objects.values()], port });
    return Number(new URL(this.server.url).port);
  }
}

function echoObjects(): readonly ApiObject[] {
  const port = {
    name: "http",
    protocol: "TCP",
    port: echoClusterPort,
    nodePort: echoPort,
    targetPort: 8080,
  };
  return [
    service({ name: "echo", type: "NodePort", clusterIps: [echoClusterIp], ports: [port] }),
    endpointSlice({
      name: "echo-a",
      service: "echo",
      endpoints: [endpoint(echoPod.address, { nodeName: "node-1" })],
    }),
  ];
}

describe(`${serviceCount} Services with ${endpointCount} endpoints each, over HTTP`, () => {
  const cluster = new Cluster();
  let apiPort = 0;
  let program: Program;
  let kernel: OpenKernel;

  function startProgram(): Program {
    const flags = ["--hostname-override=node-1", "--cluster-cidr=10.244.0.0/16", "-v=2"];
    const pace = [
      "--ipvs-min-sync-period=0s",
      "--ipvs-sync-period=300s",
      "--kube-ipvs-verification-period=300s",
      // Rule checks start programs.
      "--kube-ipvs-rule-check-period=0s",
      // Only the first network namespace can set the limit.
      "--conntrack-max-per-core=0",
    ];
    return new Program([...flags, ...pace, `--master=http://127.0.0.1:${apiPort}`]);
  }

  before(async () => {
    buildNodeNetwork([echoPod]);
    enterNetworkNamespace("node");
    kernel = await openKernel({ log: silentLogger });
    cluster.apply(node(), ...echoObjects());
    for (let index = 0; index < serviceCount; index++) {
      cluster.apply(serviceOf(index), sliceOf(index, positions(endpointCount)));
    }
    apiPort = await cluster.start();
    program = startProgram();
    await program.prints(synced);
  });

  after(async () => {
    program.kill("SIGKILL");
    await program.ends();
    await cluster.server?.stop();
    kernel.close();
  });

  it("end in the planned kernel state", async () => {
    await assertKernelEqualsPlan();
  });

  it("need one kernel change and no new process for one new endpoint", async () => {
    await idle();
    const [writes, forks] = [await kernelChanges(), started.count()];
    cluster.apply(sliceOf(17, positions(endpointCount + 1)));
    await until(async () => (await kernelChanges()).total > writes.total);
    await pause(500);
    const changed = await kernelChanges();
    assert.equal(changed.total - writes.total, 1, changed.text);
    assert.equal(changed.realServerCreations - writes.realServerCreations, 1, changed.text);
    assert.equal(started.count() - forks, 0);
    await assertKernelEqualsPlan();
  });

  it("cause no writes when the daemon starts and the kernel state is already correct", async () => {
    program.kill("SIGTERM");
    assert.equal((await program.ends()).code, 0);
    program = startProgram();
    await program.prints(synced);
    await pause(1_000);
    const { total, text } = await kernelChanges();
    assert.equal(total, 0, text);
  });

  it("cause no writes while the API server is unreachable, and are updated when it is back", async () => {
    await idle();
    const writes = await kernelChanges();
    await cluster.server?.stop();
    cluster.server = undefined;
    await pause(3_000);
    await cluster.start(apiPort);
    // Reflectors reconnect at different times. They are back once this change reaches the kernel.
    cluster.apply(sliceOf(18, positions(endpointCount + 1)));
    await until(async () => (await kernelChanges()).total > writes.total);
    const changed = await kernelChanges();
    assert.equal(changed.total - writes.total, 1, changed.text);
    await assertKernelEqualsPlan();
  });

  it(`keep every connection during ${kills} kills in bursts of changes, ${killsInsideSync} of them during a sync`, async (test) => {
    const echo = startEcho();
    const held = [
      startConnections(nodeAddress, echoPort),
      startConnections(echoClusterIp, echoClusterPort),
    ];
    await pause(2_000);
    let [killed, inside] = [0, 0];
    while ((killed < kills || inside < killsInsideSync) && killed < mostKills) {
      const isInside = await killInBurst(killed);
      killed += 1;
      inside += isInside ? 1 : 0;
      program = startProgram();
      await program.prints(synced);
      await assertKernelEqualsPlan();
    }
    const reports = [];
    for (const connections of held) reports.push(await endConnections(connections));
    await stopChild(echo);
    test.diagnostic(
      `${killed} kills, ${inside} of them between the first and the last write of a sync`,
    );
    for (const { opened, echoes, broken } of reports) {
      test.diagnostic(`${opened} connections, ${echoes} answers, ${broken} broken`);
    }
    assert.ok(killed >= kills && inside >= killsInsideSync);
    for (const { opened, broken } of reports) {
      assert.equal(opened, 10);
      assert.equal(broken, 0);
    }
  });

  /**
   * A burst of new and changed Services. The program is killed at the burst's first visible write (odd turns) or a
   * little later. Returns whether any of the burst's writes were missing.
   */
  async function killInBurst(turn: number): Promise<boolean> {
    const set = setFor("clusterIp", "IPv4");
    const elements = async (): Promise<number> =>
      (await kernel.ipSets.listSets()).find(({ name }) => name === set.name)?.elementCount ?? 0;
    const before = await elements();
    const first = serviceCount + (turn % 2) * 200;
    const burst = Array.from({ length: 200 }, (_, offset) => first + offset);
    const others = burst.map((index) => (index < serviceCount + 200 ? index + 200 : index - 200));
    cluster.delete(...others.flatMap((index) => objectsOf(index)));
    cluster.apply(...burst.flatMap((index) => objectsOf(index)));
    cluster.apply(...positions(50).map((index) => sliceOf(index, positions(1 + (turn % 5)))));
    const deadlineMs = performance.now() + 10_000;
    while ((await elements()) === before && performance.now() < deadlineMs) await pause(1);
    const hasBegun = (await elements()) !== before;
    await pause((turn % 4) * 5);
    program.kill("SIGKILL");
    await program.ends();
    return hasBegun && !isKernelAsPlanned();
  }

  function objectsOf(index: number): readonly ApiObject[] {
    return [serviceOf(index), sliceOf(index, positions(endpointCount))];
  }

  function isKernelAsPlanned(): boolean {
    return isInKernel(cluster.planned);
  }

  async function assertKernelEqualsPlan(): Promise<void> {
    const deadlineMs = performance.now() + patienceMs;
    for (;;) {
      const checkBeganMs = performance.now();
      if (isKernelAsPlanned()) return;
      if (checkBeganMs > deadlineMs) assert.deepEqual(observedText(), cluster.planned);
      await pauseAfterCheck(checkBeganMs);
    }
  }

  interface Changes {
    readonly total: number;
    readonly realServerCreations: number;
    readonly text: string;
  }

  /** The daemon's count of messages that change the kernel, which it counts when it sends them. */
  async function kernelChanges(): Promise<Changes> {
    const response = await fetch("http://127.0.0.1:10249/metrics");
    const lines = (await response.text())
      .split("\n")
      .filter((line) => line.startsWith("kube_ipvs_kernel_changes_total"));
    const sum = (some: readonly string[]): number =>
      some.reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
    return {
      total: sum(lines),
      realServerCreations: sum(lines.filter((line) => line.includes("real-server-create"))),
      text: lines.join("\n"),
    };
  }

  /** Waits for a second without writes. */
  async function idle(): Promise<void> {
    let last = -1;
    await until(async () => {
      const { total } = await kernelChanges();
      const isSame = total === last;
      last = total;
      await pause(1_000);
      return isSame;
    });
  }
});

async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + patienceMs;
  while (!(await condition())) {
    assert.ok(performance.now() < deadlineMs, `Timed out after ${patienceMs} ms`);
    await pause(20);
  }
}

const connectionScript = join(import.meta.dirname, "../support/long-connections.ts");

function startEcho(): ChildProcess {
  const argv = ["netns", "exec", echoPod.name, process.execPath, connectionScript, "echo", "8080"];
  return spawn("ip", argv, { stdio: ["ignore", "inherit", "inherit"] });
}

interface Connections {
  readonly child: ChildProcess;
  output: string;
}

function startConnections(address: string, port: number): Connections {
  const target = ["connect", address, String(port)];
  const argv = ["netns", "exec", "client", process.execPath, connectionScript, ...target];
  const child = spawn("ip", argv, { stdio: ["ignore", "pipe", "inherit"] });
  const connections: Connections = { child, output: "" };
  child.stdout?.on("data", (chunk: Buffer) => {
    connections.output += chunk.toString();
  });
  return connections;
}

async function endConnections(connections: Connections): Promise<{
  readonly opened: number;
  readonly echoes: number;
  readonly broken: number;
}> {
  await stopChild(connections.child);
  return JSON.parse(connections.output) as never;
}

function stopChild(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once("close", () => resolve());
    child.kill("SIGTERM");
  });
}
