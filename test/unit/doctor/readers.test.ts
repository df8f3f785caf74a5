import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ApiConnection, ApiResponse } from "../../../src/api/connection.ts";
import { neededRights } from "../../../src/api/needed-rights.ts";
import type { Cluster } from "../../../src/doctor/node.ts";
import { readCluster } from "../../../src/doctor/read/cluster.ts";
import { readDaemon } from "../../../src/doctor/read/daemon.ts";
import { readReversePath } from "../../../src/doctor/read/kernel-state.ts";
import { readOtherNamespaces } from "../../../src/doctor/read/namespaces.ts";
import {
  isLockHeld,
  readMissingCapabilities,
  readMounts,
} from "../../../src/doctor/read/processes.ts";
import { headlessLabel } from "../../../src/endpoint-slices/objects.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { endpoint, endpointSlice } from "../../support/objects.ts";

describe("data from the daemon", () => {
  const folder = mkdtempSync(join(tmpdir(), "daemon-"));
  const path = join(folder, "socket");
  const status = {
    ...{ apiVersion: "kube-ipvs/v1", kind: "Status", verdict: "OK", summary: "", mode: "ipvs" },
    ...{ node: {}, ipFamilies: [], source: {}, versions: {}, process: {} },
    ...{ rejectedObjects: [], conflicts: [], backingOffRepairs: [], manualWeights: [] },
    ignoredAnnotations: [],
    counts: { conflicts: 0 },
  };
  let code = 200;
  const server = createServer((request, response) => {
    response.statusCode = request.url === "/v1/status" ? code : 404;
    response.end(JSON.stringify(status));
  });

  before(() => once(server.listen(path), "listening"));
  after(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });

  it("contains its status", async () => {
    assert.deepEqual(await readDaemon(path), status);
  });

  it("contains the error if it cannot be read", async () => {
    code = 500;
    await assert.rejects(readDaemon(path), /Cannot query kube-ipvs on .*500/);
  });

  it("is absent without a daemon", async () => {
    const skipped = `no kube-ipvs answers on ${path}-other (ENOENT)`;
    assert.deepEqual(await readDaemon(`${path}-other`), { skipped });
  });
});

describe("data from /proc", () => {
  it("contains capabilities", () => {
    assert.deepEqual(readMissingCapabilities("CapEff:\t0000000000003000\n"), []);
    assert.deepEqual(readMissingCapabilities("CapEff:\t0000000000001000\n"), ["NET_RAW"]);
    assert.throws(() => readMissingCapabilities("Name:\tx\n"), /no capabilities/);
  });

  it("contains the instance lock", () => {
    const sockets =
      "Num RefCount Protocol Flags Type St Inode Path\n" +
      "0: 00000002 00000000 00010000 0001 01 123 @kube-ipvs-other\n" +
      "0: 00000002 00000000 00010000 0001 01 124 @kube-ipvs\n";
    assert.equal(isLockHeld(sockets, "kube-ipvs"), true);
    assert.equal(isLockHeld(sockets, "kube"), false);
  });

  it("contains packets that rp_filter dropped, and the strict interfaces", () => {
    const values = new Map([
      ["net/ipv4/conf/eth0/rp_filter", "1"],
      ["net/ipv4/conf/eth1/rp_filter", "2"],
      ["net/ipv4/conf/all/rp_filter", "0"],
    ]);
    const sysctl = { read: (name: string) => values.get(name) };
    const readers = { sysctl } as Parameters<typeof readReversePath>[0];
    const counters =
      "TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 3 7\nIpExt: InNoRoutes\nIpExt: 9\n";
    const links = ["all", "default", "lo", "eth0", "eth1", "eth2"];
    assert.deepEqual(readReversePath(readers, counters, links), {
      strictLinks: ["eth0"],
      droppedPackets: 7,
    });
    assert.throws(() => readReversePath(readers, "TcpExt: A\nTcpExt: 1\n", links), /has no IPRev/);
  });

  it("contains mounts, in a pod and on a node", () => {
    const root = "1 0 0:1 / / rw - overlay overlay rw\n";
    const lock = "2 1 8:1 /run/xtables.lock /run/xtables.lock rw - ext4 /dev/sda1 rw\n";
    const pod = { KUBERNETES_SERVICE_HOST: "10.96.0.1" };
    assert.equal(readMounts(undefined, root, pod).isLockShared, false);
    assert.equal(readMounts(undefined, root + lock, pod).isLockShared, true);
    const { isContainer, modulesFolder } = readMounts("/lib/modules/6.1.0", root, {});
    assert.deepEqual([isContainer, modulesFolder], [true, "/lib/modules/6.1.0"]);
  });

  it("contains virtual servers in other namespaces, each once", () => {
    const proc = mkdtempSync(join(tmpdir(), "proc-"));
    after(() => rmSync(proc, { recursive: true }));
    const add = (name: string, namespace: string, servers: string): void => {
      for (const part of ["ns", "net"]) mkdirSync(join(proc, name, part), { recursive: true });
      symlinkSync(namespace, join(proc, name, "ns/net"));
      writeFileSync(join(proc, name, "comm"), `${name}-command\n`);
      writeFileSync(join(proc, name, "net/ip_vs"), servers);
    };
    const head = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler\n";
    const servers = `${head}TCP  0A600001:0050 rr  \n  -> 0AF40105:1F90 Masq 1 0 0\nUDP  0A60000A:0035 rr  \n`;
    add("self", "net:[1]", servers);
    add("10", "net:[1]", servers);
    add("11", "net:[2]", servers);
    add("12", "net:[2]", servers);
    add("13", "net:[3]", head);
    assert.deepEqual(readOtherNamespaces(proc), [
      { pid: 11, command: "11-command", virtualServerCount: 2 },
    ]);
  });
});

/** Starts a server with answers by path. Other paths return 403, as for an account without permission. */
function serverWith(
  bodies: Readonly<Record<string, object>>,
  isAllowed: (resource: string, verb: string) => boolean = () => true,
): ApiConnection {
  const answer = (status: number, body: object): ApiResponse => ({
    status,
    headers: { date: "Thu, 01 Jan 2026 00:00:30 GMT" },
    body: (async function* () {
      yield Buffer.from(JSON.stringify(body));
    })(),
  });
  return {
    server: "https://10.0.0.1:6443",
    async request(path) {
      const body = bodies[path];
      return body === undefined ? answer(403, { message: "forbidden" }) : answer(200, body);
    },
    async send({ body }) {
      const { spec } = JSON.parse(body) as {
        spec: { resourceAttributes: { resource: string; verb: string } };
      };
      const { resource, verb } = spec.resourceAttributes;
      return answer(201, { status: { allowed: isAllowed(resource, verb) } });
    },
    close() {},
  };
}

const version = { gitVersion: "v1.36.2" };
const list = (...items: readonly object[]): object => ({
  ...{ kind: "List", metadata: { resourceVersion: "1" } },
  items,
});
const node = (name: string, address: string): object => ({
  metadata: { name },
  status: {
    addresses: [
      { type: "InternalIP", address },
      { type: "Hostname", address: name },
    ],
  },
});

describe("data from an API server", () => {
  const clusterOf = (connection: ApiConnection): Cluster =>
    readCluster({
      ...{ connect: async () => connection, clock: new FakeClock(), nodeName: "node-1" },
      rights: neededRights,
    });

  it("contains its version and clock, the account's permissions and the other nodes", async () => {
    const server = serverWith(
      {
        "/version": version,
        "/api/v1/nodes": list(node("node-1", "192.0.2.1"), node("node-2", "192.0.2.2")),
        "/api/v1/services": list(),
      },
      (resource) => resource !== "events",
    );
    const cluster = clusterOf(server);
    assert.deepEqual(await cluster.version(), {
      server: "https://10.0.0.1:6443",
      version: "v1.36.2",
      aheadMs: -30_500,
    });
    assert.deepEqual(await cluster.otherNodes(), [{ name: "node-2", addresses: ["192.0.2.2"] }]);
    assert.equal(await cluster.metalLb(), undefined);
    const texts = (await cluster.rights()).map(
      ({ resource, verb, isAllowed }) => `${resource} ${verb} ${isAllowed}`,
    );
    assert.deepEqual(texts, [
      "services list true",
      "services watch true",
      "endpointslices.discovery.k8s.io list true",
      "endpointslices.discovery.k8s.io watch true",
      "nodes list true",
      "nodes watch true",
      "events.events.k8s.io create false",
      "events.events.k8s.io patch false",
    ]);
  });

  const seenBy: readonly (readonly [path: string, body: object, says: RegExp])[] = [
    ["/api/v1/pods", { items: [{}] }, /pods/],
    ["/api/v1/namespaces/metallb-system/configmaps/config", {}, /ConfigMap/],
    [
      "/api/v1/services",
      list({
        metadata: {
          namespace: "default",
          name: "web",
          annotations: { "metallb.universe.tf/ip-allocated-from-pool": "a" },
        },
      }),
      /default\/web/,
    ],
  ];
  for (const [path, body, says] of seenBy) {
    it(`shows MetalLB: ${path}`, async () => {
      const cluster = clusterOf(serverWith({ "/version": version, [path]: body }));
      assert.match((await cluster.metalLb())?.evidence ?? "", says);
    });
  }

  it("names Nodes that are not ready and have ready endpoints of Services with a virtual IP", async () => {
    const nodeIn = (name: string, ready?: string): object => ({
      metadata: { name },
      status: { conditions: ready === undefined ? [] : [{ type: "Ready", status: ready }] },
    });
    const on = (nodeName: string, ready?: boolean): ReturnType<typeof endpoint> =>
      endpoint("10.244.1.10", { nodeName, conditions: { ready } });
    const serving = (nodes: object): Promise<unknown> =>
      clusterOf(
        serverWith({
          ...{ "/version": version, "/api/v1/nodes": nodes },
          "/apis/discovery.k8s.io/v1/endpointslices": list(
            endpointSlice({
              endpoints: [
                on("node-2", true),
                on("node-2"),
                on("node-2", false),
                on("node-3", true),
              ],
            }),
            endpointSlice({
              endpoints: [on("node-1", true), on("node-4", false), on("node-5", true)],
            }),
            endpointSlice({ endpoints: [on("node-2", true)], labels: { [headlessLabel]: "" } }),
          ),
        }),
      ).deadNodes();
    const healthy = [nodeIn("node-1", "True"), nodeIn("node-5")];
    const dead = ["2", "3", "4"].map((n) => nodeIn(`node-${n}`, n === "3" ? "False" : "Unknown"));
    assert.deepEqual(await serving(list(...healthy, ...dead)), [
      { name: "node-2", readyEndpoints: 2, services: ["default/web"] },
      { name: "node-3", readyEndpoints: 1, services: ["default/web"] },
    ]);
    assert.deepEqual(await serving(list(...healthy)), []);
  });

  it("contains the error message if it rejects a request", async () => {
    const cluster = clusterOf(serverWith({}));
    const error = { message: /^Cannot read version: 403 HTTP403 \(forbidden\)/ };
    await assert.rejects(cluster.version(), error);
    await assert.rejects(cluster.rights(), error);
  });
});
