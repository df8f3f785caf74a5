/** Tests what a sync reads before it plans: everything at startup, and later only state that is no longer cached. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import { type VirtualServer, virtualServerKey } from "../../../src/state/virtual-server.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import type { Failure, Operation } from "../../support/fake-kernel/operations.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, portRecord, serviceRecord } from "../../support/records.ts";

const a = serviceRecord();
const b = serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] });
const c = serviceRecord({ name: "default/c", clusterIps: [ip("10.96.0.12")] });
const nodePort = serviceRecord({ type: "NodePort", ports: [portRecord({ nodePort: 30_080 })] });
const there = endpointRecord("10.244.2.11");
const more = endpointRecord("10.244.2.12");

let bench: Bench;
/** The kernel state that was read, in read order. */
let reads: string[];
/** Virtual servers whose real servers were read. */
let readServers: string[];

beforeEach(async () => {
  bench = new Bench();
  bench.put(a, [there]);
  bench.put(b, [there]);
  await bench.sync();
  watchReads(bench.kernel);
});

function watchReads({ operations, ipvs }: FakeKernel): void {
  reads = [];
  readServers = [];
  operations.failWhere(({ facility, action, isRead }) => {
    if (isRead === true) reads.push(`${facility} ${action}`);
    return false;
  }, errno.EPERM);
  const read = ipvs.readRealServers.bind(ipvs);
  ipvs.readRealServers = (servers: readonly VirtualServer[], ...rest) => {
    readServers.push(...servers.map(virtualServerKey));
    return read(servers, ...rest);
  };
}

/** Runs a sync and returns its reads. */
async function readsOfSync(): Promise<readonly string[]> {
  [reads, readServers] = [[], []];
  assert.deepEqual((await bench.sync()).failures, []);
  return reads;
}

/** Runs a sync in which the kernel rejects one change with this action. */
async function refuse(action: string, failure: Failure): Promise<void> {
  bench.kernel.operations.failWhere((operation) => operation.action === action, failure, 1);
  const { failures, rejected } = await bench.sync();
  assert.deepEqual(failures, []);
  assert.notEqual(rejected.length, 0);
}

it("the first sync lists everything, and requests no virtual server individually", async () => {
  const started = new Bench();
  started.put(a, [there]);
  watchReads(started.kernel);
  await started.sync();
  assert.deepEqual(
    [...new Set(reads)],
    [
      "link find",
      "link list-addresses",
      "ipset list-sets",
      "ipvs list-virtual-servers",
      "ipvs read-real-servers",
      "iptables observe",
    ],
  );
});

describe("a sync with a complete cache", () => {
  it("reads nothing, and visits only objects that planning touched", async () => {
    const { desired } = bench;
    for (const list of ["virtualServerKeys", "entries", "addresses"] as const) {
      desired[list] = () => assert.fail(`everything is compared: ${list}`);
    }
    bench.put(a, [there, more]);
    assert.deepEqual(await readsOfSync(), []);
    assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.12/);
  });

  it("requests a virtual server once before it creates it", async () => {
    bench.put(c, [there]);
    assert.deepEqual(await readsOfSync(), ["ipvs find-virtual-servers"]);
    bench.put(c, [there, more]);
    assert.deepEqual(await readsOfSync(), []);
  });

  it("requests none with `delete`, since all belong to kube-ipvs", async () => {
    const ownership = { foreignVirtualServers: "delete", excludeCIDRs: [] } as const;
    bench = new Bench(new FakeKernel(), { ownership });
    await bench.sync();
    watchReads(bench.kernel);
    bench.put(c, [there]);
    assert.deepEqual(await readsOfSync(), []);
  });

  it("reads nothing after a rejection that does not contradict the cache", async () => {
    bench.put(a, [there, more]);
    await refuse("real-server-create", errno.EINVAL);
    await bench.clock.advance(1_000);
    assert.deepEqual(await readsOfSync(), []);
  });
});

describe("after a rejection that contradicts the cache, a sync reads", () => {
  it("the headers of virtual servers, and the real servers of the affected one", async () => {
    bench.put(a, [there, more]);
    await refuse("real-server-create", errno.EEXIST);
    bench.put(c, [there]);
    const listed = ["ipvs list-virtual-servers", "ipvs read-real-servers"];
    assert.deepEqual(
      await readsOfSync(),
      listed,
      "and requests no others, because all were listed",
    );
    assert.deepEqual(readServers, ["TCP 10.96.0.10:80"]);
    bench.put(b, [there, more]);
    await refuse("real-server-create", errno.EEXIST);
    assert.deepEqual(await readsOfSync(), listed);
    assert.deepEqual(readServers, ["TCP 10.96.0.11:80"]);
    assert.deepEqual(await readsOfSync(), []);
  });

  it("the headers of sets, and no entries if the headers are correct", async () => {
    bench.put(c, [there]);
    await refuse("entry-add", errno.ENOENT);
    assert.deepEqual(await readsOfSync(), ["ipset list-sets", "ipvs find-virtual-servers"]);
    assert.deepEqual(await readsOfSync(), []);
  });

  it("link and addresses", async () => {
    bench.put(c, [there]);
    await refuse("address-add", errno.ENODEV);
    assert.deepEqual(await readsOfSync(), ["link find", "link list-addresses", "link find"]);
  });

  it("rules, and the headers of the sets in them", async () => {
    bench.put(nodePort, [there]);
    const failed = Object.assign(new Error("iptables-restore failed"), { exitCode: 2 });
    await refuse("apply", failed);
    assert.deepEqual([...new Set(await readsOfSync())], ["ipset list-sets", "iptables observe"]);
  });

  const parts: readonly [action: string, failure: number, read: string][] = [
    ["real-server-create", errno.EEXIST, "list-virtual-servers"],
    ["real-server-create", errno.EEXIST, "read-real-servers"],
    ["entry-add", errno.ENOENT, "list-sets"],
    ["address-add", errno.ENODEV, "list-addresses"],
  ];
  for (const [action, failure, read] of parts) {
    it(`the same again after a failed read, and writes nothing before: ${read}`, async () => {
      bench.put(a, [there, more]);
      bench.put(c, [there]);
      await refuse(action, failure);
      await writesNothingWithout(read);
      assert.ok((await readsOfSync()).some((text) => text.endsWith(read)));
      assert.equal(bench.state(), await wantedState());
    });
  }
});

/** Runs another sync in which this read fails. */
async function writesNothingWithout(read: string): Promise<void> {
  const { kernel } = bench;
  const isRead = ({ action }: Operation): boolean => action === read;
  kernel.operations.failWhere(isRead, errno.EBUSY, 1);
  kernel.operations.clear();
  const { failures } = await bench.sync();
  assert.deepEqual(
    failures.map(({ kind }) => kind),
    ["observe"],
  );
  assert.deepEqual(kernel.operations.texts(), []);
}

async function wantedState(): Promise<string> {
  const fresh = new Bench();
  fresh.put(a, [there, more]);
  fresh.put(b, [there]);
  fresh.put(c, [there]);
  await fresh.sync();
  return fresh.state();
}

for (const read of ["find", "list-sets", "list-virtual-servers", "read-real-servers", "observe"]) {
  it(`a first sync that could not read is repeated, and writes nothing before it has read: ${read}`, async () => {
    bench = new Bench();
    bench.put(a, [there, more]);
    bench.put(b, [there]);
    bench.put(c, [there]);
    await writesNothingWithout(read);
    watchReads(bench.kernel);
    assert.ok((await readsOfSync()).some((text) => text.endsWith(read)));
    assert.equal(bench.state(), await wantedState());
  });
}

for (const action of ["entry-add", "address-add", "virtual-server-create", "real-server-create"]) {
  it(`the next sync completes what a request with an unknown result left undone: ${action}`, async () => {
    const isOne = (operation: Operation): boolean => operation.action === action;
    const heal = bench.kernel.operations.failWhere(isOne, errno.EPERM);
    bench.put(a, [there, more]);
    bench.put(c, [there]);
    const { failures } = await bench.sync();
    assert.deepEqual(
      failures.map(({ kind }) => kind),
      [action],
    );
    heal();
    assert.deepEqual((await bench.sync()).failures, []);
    assert.equal(bench.state(), await wantedState());
  });
}
