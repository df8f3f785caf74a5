/**
 * Two nodes behind a load balancer that checks `/healthz`, as in KEP-3836. They are replaced one by one under traffic:
 * a node's namespace, with all its connections, is removed as soon as the program has exited.
 *
 *     balancer 192.168.N.1 ── 192.168.N.11 node-N 10.0.N.1 ── 10.0.N.2 pods 10.244.1.10, 10.244.1.11
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { ask } from "../faults/ask.ts";
import { until } from "../support/lab-node.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { endpointSlice, service, servicePort } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";

const requestCount = 10_000;
const clientCount = 16;
const requestTimeoutMs = 3_000;
const checkIntervalMs = 200;
/** Consecutive failed checks after which the balancer stops using a node. */
const failureThreshold = 2;
const stopDelay = "5s";
const nodePort = 30_080;
const endpoints = ["10.244.1.10", "10.244.1.11"] as const;

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-replacement-"));

function applyEndpoint(address: string): void {
  const objects = [
    service({ type: "NodePort", ports: [servicePort({ nodePort })] }),
    endpointSlice({ endpoints: [address] }),
  ];
  const path = join(folder, "objects.yaml");
  writeFileSync(`${path}.new`, objects.map((object) => JSON.stringify(object)).join("\n---\n"));
  renameSync(`${path}.new`, path);
}

/** Runs a shell script while requests continue. {@link shell} would block this process, and requests would time out. */
async function runScript(script: string): Promise<void> {
  await promisify(execFile)("sh", ["-ec", script]);
}

/** Connects and returns what the pod sends. Rejects if the connection breaks or times out. */
async function request(host: string): Promise<string> {
  const socket = connect(nodePort, host);
  const timer = setTimeout(() => socket.destroy(new Error("timeout")), requestTimeoutMs);
  return await text(socket).finally(() => clearTimeout(timer));
}

class ReplaceableNode {
  readonly name: string;
  readonly address: string;
  readonly #number: number;
  readonly #flags: readonly string[];
  #program: Program | undefined;
  /** Whether the balancer uses this node. */
  isUsed = false;
  #usedSinceMs = 0;
  #isRegistered = false;
  #failedChecks = 0;

  constructor(number: number, flags: readonly string[]) {
    this.name = `node-${number}`;
    this.address = `192.168.${number}.11`;
    this.#number = number;
    this.#flags = flags;
  }

  async start(): Promise<void> {
    const number = this.#number;
    createNetworkNamespace(this.name);
    await runScript(`
      ip -n ${this.name} link add eth0 type veth peer name eth${number} netns balancer
      ip -n ${this.name} link add eth1 type veth peer name eth${number} netns pods
      ip -n ${this.name} address add ${this.address}/24 dev eth0
      ip -n ${this.name} address add 10.0.${number}.1/24 dev eth1
      ip -n balancer address add 192.168.${number}.1/24 dev eth${number}
      ip -n pods address add 10.0.${number}.2/24 dev eth${number}
      for link in eth0 eth1; do ip -n ${this.name} link set $link up; done
      for neighbor in balancer pods; do ip -n $neighbor link set eth${number} up; done
      ip -n ${this.name} route add 10.244.1.0/24 via 10.0.${number}.2
    `);
    this.#program = new Program(
      [
        `--hostname-override=${this.name}`,
        `--kube-ipvs-lock-name=${this.name}`,
        `--manifests=${folder}`,
        "--proxy-mode=ipvs",
        "--cluster-cidr=10.244.0.0/16",
        "--conntrack-max-per-core=0",
        "--kube-ipvs-state-file=",
        "--kube-ipvs-claims-file=",
        ...this.#flags,
      ],
      ["ip", "netns", "exec", this.name],
    );
  }

  tellToStop(): void {
    this.#program?.kill("SIGTERM");
  }

  /** Waits until the program exits and returns its exit code. */
  async ends(): Promise<number | null> {
    return (await this.#program?.ends())?.code ?? null;
  }

  async remove(): Promise<void> {
    if (this.#program === undefined) return;
    this.#program.kill("SIGKILL");
    await this.ends();
    this.#program = undefined;
    removeNetworkNamespace(this.name);
    // The kernel removes the links of a namespace later.
    for (const neighbor of ["balancer", "pods"])
      await runScript(`ip -n ${neighbor} link delete eth${this.#number} 2> /dev/null || true`);
  }

  /** The status of `/healthz` or another path on the same server. Undefined if there is no answer. */
  async healthStatus(path = "/healthz"): Promise<number | undefined> {
    const answer = ask(`http://${this.address}:10256${path}`).then(
      ({ status }) => status,
      () => undefined,
    );
    return await Promise.race([answer, pause(1_000, undefined)]);
  }

  async check(): Promise<void> {
    if (!this.#isRegistered) return;
    if ((await this.healthStatus()) === 200) {
      this.#failedChecks = 0;
      if (!this.isUsed) this.#usedSinceMs = performance.now();
      this.isUsed = true;
    } else if (++this.#failedChecks >= failureThreshold) {
      this.isUsed = false;
    }
  }

  get usedForMs(): number {
    return Math.round(performance.now() - this.#usedSinceMs);
  }

  /** Adds the node to the balancer, which knows only `/healthz`. */
  async register(): Promise<void> {
    this.#isRegistered = true;
    await until(
      async () => this.isUsed,
      patienceMs,
      async () => this.#program?.output ?? "",
    );
  }

  async replace(): Promise<void> {
    this.tellToStop();
    assert.equal(await this.ends(), 0);
    await this.remove();
    await until(
      async () => !this.isUsed,
      patienceMs,
      async () => "The balancer still uses the node",
    );
    this.#isRegistered = false;
    await this.start();
    await this.register();
  }
}

/** Distributes requests from several clients to the nodes that it uses. */
class Balancer {
  readonly #nodes: readonly ReplaceableNode[];
  readonly #loops: Promise<void>[] = [];
  #isOver = false;
  #turn = 0;
  answered = 0;
  readonly failures: string[] = [];

  constructor(nodes: readonly ReplaceableNode[]) {
    this.#nodes = nodes;
    for (const node of nodes) this.#loops.push(this.#checks(node));
  }

  get requestCount(): number {
    return this.answered + this.failures.length;
  }

  beginRequests(): void {
    for (let client = 0; client < clientCount; client++) this.#loops.push(this.#requests());
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#loops);
  }

  async #checks(node: ReplaceableNode): Promise<void> {
    while (!this.#isOver) {
      await node.check();
      await pause(checkIntervalMs);
    }
  }

  async #requests(): Promise<void> {
    while (!this.#isOver) {
      const used = this.#nodes.filter(({ isUsed }) => isUsed);
      const node = used[this.#turn++ % used.length];
      if (node === undefined) {
        this.failures.push("The balancer uses no node");
        await pause(checkIntervalMs);
        continue;
      }
      try {
        assert.equal(await request(node.address), endpoints[0]);
        this.answered += 1;
      } catch (error) {
        this.failures.push(`${node.name}, used for ${node.usedForMs} ms: ${error}`);
      }
    }
  }
}

describe("nodes behind a load balancer that checks /healthz", () => {
  const servers: Server[] = [];
  let nodes: readonly ReplaceableNode[] = [];

  before(async () => {
    createNetworkNamespace("balancer");
    createNetworkNamespace("pods");
    enterNetworkNamespace("pods");
    for (const address of endpoints) {
      shell(`ip address add ${address}/32 dev lo`);
      // The answer takes a while, so that some requests are always in progress.
      const server = createServer((socket) => {
        socket.on("error", () => socket.destroy());
        // A removed node never confirms that its connections are closed.
        socket.unref();
        setTimeout(() => socket.end(address), 20);
      }).listen(8080, address);
      await once(server, "listening");
      servers.push(server);
    }
    enterNetworkNamespace("balancer");
  });

  afterEach(async () => {
    for (const node of nodes) await node.remove();
  });

  after(() => {
    for (const server of servers) server.close();
    leaveNetworkNamespace();
    for (const name of ["balancer", "pods"]) removeNetworkNamespace(name);
    rmSync(folder, { recursive: true });
  });

  /** Replaces the nodes one by one, in rounds, until there were `leastRequests`. */
  async function replaceUnderTraffic(delay: string, leastRequests: number): Promise<Balancer> {
    applyEndpoint(endpoints[0]);
    nodes = [1, 2].map(
      (number) => new ReplaceableNode(number, [`--kube-ipvs-stop-delay=${delay}`]),
    );
    for (const node of nodes) await node.start();
    const balancer = new Balancer(nodes);
    try {
      for (const node of nodes) await node.register();
      balancer.beginRequests();
      do for (const node of nodes) await node.replace();
      while (balancer.requestCount < leastRequests);
    } finally {
      await balancer.stop();
    }
    return balancer;
  }

  it("lose requests without a stop delay when they are replaced", async (test) => {
    const { answered, failures } = await replaceUnderTraffic("0s", 0);
    test.diagnostic(`${answered} requests answered, ${failures.length} failed`);
    // Failures outnumber answers on a fast machine, because a refused connection takes no time.
    assert.ok(failures.length > 0);
    assert.ok(answered > 0);
  });

  it(`lose none of ${requestCount} requests with a stop delay`, async (test) => {
    const { answered, failures } = await replaceUnderTraffic(stopDelay, requestCount);
    test.diagnostic(`${answered} requests answered, ${failures.length} failed`);
    assert.deepEqual(failures.slice(0, 10), []);
    assert.ok(answered >= requestCount);
  });

  it("keep syncing during the stop delay, which a second signal ends", async () => {
    applyEndpoint(endpoints[0]);
    const node = new ReplaceableNode(1, ["--kube-ipvs-stop-delay=10m"]);
    nodes = [node];
    await node.start();
    const reaches = (wanted: () => Promise<boolean>): Promise<void> =>
      until(wanted, patienceMs, async () => `/healthz: ${await node.healthStatus()}`);
    await reaches(async () => (await node.healthStatus("/readyz")) === 200);
    assert.equal(await node.healthStatus(), 200);
    assert.equal(await request(node.address), endpoints[0]);
    node.tellToStop();
    await reaches(async () => (await node.healthStatus()) === 503);
    applyEndpoint(endpoints[1]);
    await reaches(async () => (await request(node.address)) === endpoints[1]);
    node.tellToStop();
    assert.equal(await node.ends(), 143);
  });
});
