/** Removes real servers while connections are open, with the built program, real pods and an external client. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { askName, Connection, Datagrams } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { assertNotLogged } from "../support/not-logged.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";

const [first, second] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const clusterIp = "10.96.0.10";
const tcp = { protocol: "TCP", address: ip(clusterIp), port: 80 } as const;
const udp = { protocol: "UDP", address: ip(clusterIp), port: 53 } as const;

const ports = [
  { name: "http", protocol: "TCP", port: 80, targetPort: 8080 },
  { name: "dns", protocol: "UDP", port: 53, targetPort: 5353 },
];
const slicePorts = [
  { name: "http", protocol: "TCP", port: 8080 },
  { name: "dns", protocol: "UDP", port: 5353 },
];

function web(...endpoints: readonly ReturnType<typeof endpoint>[]): readonly ApiObject[] {
  return [service({ ports }), slice(endpoints)];
}

function slice(endpoints: readonly ReturnType<typeof endpoint>[]): ApiObject {
  return endpointSlice({ endpoints, ports: slicePorts });
}

const one = endpoint(first.address, { nodeName: "node-1" });
const two = endpoint(second.address, { nodeName: "node-1" });
const oneTerminates = {
  ...one,
  conditions: { ready: false, serving: true, terminating: true },
};

/** The kernel drops a datagram that arrives between the server's removal and the flow's deletion. */
async function askTwice(client: Datagrams): Promise<string> {
  const answer = await client.ask(clusterIp, 53, 2_000);
  return answer === "nobody" ? client.ask(clusterIp, 53) : answer;
}

/** When the only drain began, in milliseconds since boot. Undefined if the state file does not contain it. */
function notedBegin(): number | undefined {
  const path = "/run/kube-ipvs/state.json";
  if (!existsSync(path)) return undefined;
  const { beganMs = {} } = JSON.parse(readFileSync(path, "utf8")) as {
    readonly beganMs?: Readonly<Record<string, number>>;
  };
  return beganMs["TCP 10.96.0.10:80 -> 10.244.1.10:8080"];
}

describe("a removed real server", () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build([first, second]);
  });
  afterEach(() => node.clear());
  after(() => node.destroy());

  /** Opens a connection while pod-1 is the only endpoint, then replaces pod-1 with pod-2. */
  async function drainingWith(request: string, flags: readonly string[] = []): Promise<Connection> {
    node.apply(...web(one));
    await node.start(flags);
    const connection = await Connection.open(clusterIp, 80, request);
    await connection.receives(1);
    node.apply(...web(two));
    await node.hasWeights(tcp, "pod-1 0, pod-2 1");
    return connection;
  }

  function countsDrains(count: number): Promise<void> {
    return until(
      async () => (await node.metric("kube_ipvs_draining_real_servers")) === count,
      patienceMs,
      async () => node.program.output,
    );
  }

  it("loses no byte of a transfer, gets no new connection, and is deleted when it is idle", async () => {
    const size = 30_000_000;
    const transfer = await drainingWith(`send ${size}`);
    assert.ok(transfer.byteCount < size / 2, `${transfer.byteCount} bytes at the removal`);
    for (let turn = 0; turn < 5; turn++) assert.equal(await askName(clusterIp, 80), "pod-2");
    await node.program.prints(
      /"Real server draining" virtualServer="TCP 10\.96\.0\.10:80" realServer="10\.244\.1\.10:8080" reason="endpoint-removed"/,
    );
    await countsDrains(1);
    await transfer.receives(size);
    await pause(200);
    assert.equal(transfer.byteCount, size);
    assert.equal(await node.weights(tcp), "pod-1 0, pod-2 1");
    transfer.reset();
    // IPVS keeps a reset connection for 10 s.
    await node.hasWeights(tcp, "pod-2 1");
    await node.program.prints(/"Real server drain ended" .* reason="idle"/);
    await countsDrains(0);
  });

  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    it(`continues to drain, with its age, when the program is restarted by ${signal}`, async () => {
      const connection = await drainingWith("echo");
      await until(
        async () => notedBegin() !== undefined,
        patienceMs,
        async () => node.program.output,
      );
      const beganMs = notedBegin() ?? Number.NaN;
      await pause(2_000);
      await connection.ping("before");
      await node.stop(signal);
      await connection.ping("between");
      await node.start();
      await connection.ping("after");
      assert.equal(await node.weights(tcp), "pod-1 0, pod-2 1");
      await node.program.prints(/"Real server draining" .* reason="found-draining"/);
      assertNotLogged(node.program.output, "Drain start unknown, restarting its deadline");
      const age = await node.metric("kube_ipvs_oldest_draining_real_server_age_seconds");
      assert.ok(age >= 2, `${age} s`);
      // The clocks of the two programs differ by a few milliseconds. A restarted count would be two seconds off.
      assert.ok(Math.abs((notedBegin() ?? Number.NaN) - beganMs) < 1_000);
      connection.reset();
    });
  }

  it("restarts its deadline if its age is unknown, and logs this", async () => {
    const flags = ["--kube-ipvs-state-file="];
    const connection = await drainingWith("echo", flags);
    await node.stop();
    await node.start(flags);
    await node.program.prints(
      /"Drain start unknown, restarting its deadline" count=1 reason="no state file is configured"/,
    );
    await connection.ping("after");
    connection.reset();
  });

  it("also drains on a read-only file system, with one log line about the failed write", async () => {
    const script = 'mkdir -p /run/kube-ipvs; mount -t tmpfs -o ro none /run/kube-ipvs; exec "$@"';
    const readOnly = ["unshare", "--mount", "sh", "-ec", script, "sh"];
    node.apply(...web(one));
    await node.start([], readOnly);
    const connection = await Connection.open(clusterIp, 80, "echo");
    await connection.name();
    node.apply(...web(two));
    await node.hasWeights(tcp, "pod-1 0, pod-2 1");
    await node.program.prints(
      /"Cannot save the state file; a restart resets drain deadlines [^"]*" .*EROFS/,
    );
    assert.doesNotMatch(node.program.output, /^E/m);
    await connection.ping("still here");
    connection.reset();
  });

  it("gets its weight back if its endpoint returns, and keeps its connections", async () => {
    const connection = await drainingWith("echo");
    await connection.ping("while it drains");
    node.apply(...web(one, two));
    await node.hasWeights(tcp, "pod-1 1, pod-2 1");
    await connection.ping("after it");
    await node.program.prints(/"Real server drain ended" .* reason="wanted-again"/);
    const names = new Set<string>();
    for (let turn = 0; turn < 4; turn++) names.add(await askName(clusterIp, 80));
    assert.deepEqual([...names].toSorted(), ["pod-1", "pod-2"]);
    await pause(2_500);
    await connection.ping("looks later");
    assert.equal(await node.weights(tcp), "pod-1 1, pod-2 1");
    connection.reset();
  });

  it("does not attract clients with session affinity, but keeps their open connections", async () => {
    const sticky = service({
      ports,
      spec: {
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
      },
    });
    node.apply(sticky, slice([one]));
    await node.start();
    const connection = await Connection.open(clusterIp, 80, "echo");
    assert.equal(await connection.name(), "pod-1");
    node.apply(sticky, slice([one, two]));
    await node.hasWeights(tcp, "pod-1 1, pod-2 1");
    for (let turn = 0; turn < 4; turn++) assert.equal(await askName(clusterIp, 80), "pod-1");
    node.apply(sticky, slice([two]));
    await node.hasWeights(tcp, "pod-1 0, pod-2 1");
    for (let turn = 0; turn < 4; turn++) assert.equal(await askName(clusterIp, 80), "pod-2");
    await connection.ping("still here");
    const [draining] = (await node.realServers(tcp)).filter(({ weight }) => weight === 0);
    assert.equal(draining?.activeConnections, 1);
    connection.reset();
  });

  it("is deleted at the deadline: the open connection is reset, and the client's next connection works", async () => {
    const connection = await drainingWith("echo", ["--kube-ipvs-tcp-drain-deadline=3s"]);
    await node.hasWeights(tcp, "pod-2 1");
    // Checks by the program's own clock that this does not happen too early.
    await node.program.prints(
      /"Real server drain ended" .* reason="deadline" elapsedSeconds=([3-9]|\d\d)/,
    );
    connection.write("ping into the void\n");
    assert.match(await connection.ends(), /ECONNRESET|ECONNREFUSED/);
    assert.equal(await askName(clusterIp, 80), "pod-2");
  });

  it("is removed with its Service, and does not affect a new Service with the same name", async () => {
    const connection = await drainingWith("echo");
    node.apply();
    await node.hasWeights(tcp, "");
    node.apply(...web(one, two));
    await node.hasWeights(tcp, "pod-1 1, pod-2 1");
    await node.program.prints(/"Real server drain ended" .* reason="virtual-server-removed"/);
    for (let turn = 0; turn < 6; turn++) {
      await pause(500);
      assert.equal(await node.weights(tcp), "pod-1 1, pod-2 1");
      await askName(clusterIp, 80);
    }
    connection.reset();
  });

  it("keeps UDP flows as long as its endpoint is serving, but not longer", async () => {
    node.apply(...web(one));
    await node.start();
    const client = await Datagrams.open(4_711);
    assert.equal(await client.ask(clusterIp, 53), "pod-1");
    node.apply(...web(oneTerminates, two));
    await node.hasWeights(udp, "pod-1 0, pod-2 1");
    for (let turn = 0; turn < 8; turn++) {
      assert.equal(await client.ask(clusterIp, 53), "pod-1");
      await pause(500);
    }
    const newcomer = await Datagrams.open(4_712);
    assert.equal(await newcomer.ask(clusterIp, 53), "pod-2");
    node.apply(...web(two));
    await node.hasWeights(udp, "pod-2 1");
    assert.equal(await askTwice(client), "pod-2");
    await node.program.prints(/"Real server drain ended" .*UDP.* reason="not-serving"/);
    for (const each of [client, newcomer]) each.close();
  });

  it("keeps UDP flows no longer than the UDP deadline", async () => {
    node.apply(...web(one));
    await node.start(["--kube-ipvs-udp-drain-deadline=3s"]);
    const client = await Datagrams.open(4_713);
    assert.equal(await client.ask(clusterIp, 53), "pod-1");
    node.apply(...web(oneTerminates, two));
    await node.hasWeights(udp, "pod-1 0, pod-2 1");
    await node.hasWeights(udp, "pod-2 1");
    assert.equal(await askTwice(client), "pod-2");
    await node.program.prints(/"Real server drain ended" .*UDP.* reason="deadline"/);
    client.close();
  });

  it("has its age recorded while it drains", async () => {
    const connection = await drainingWith("echo", ["--kube-ipvs-tcp-drain-deadline=3s"]);
    await until(
      async () => notedBegin() !== undefined,
      patienceMs,
      async () => node.program.output,
    );
    await until(
      async () => notedBegin() === undefined,
      patienceMs,
      async () => node.program.output,
    );
    connection.reset();
  });
});
