import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { errno } from "../../../src/base/errno.ts";
import { setFor } from "../../../src/plan/sets.ts";
import {
  nothingRecorded,
  type RecordedOwnership,
} from "../../../src/reconcile/ownership/classify.ts";
import type { OwnershipRecord } from "../../../src/reconcile/ownership/ownership.ts";
import type { SyncReport } from "../../../src/reconcile/report.ts";
import {
  toServerKey,
  type VirtualServer,
  virtualServerKey,
} from "../../../src/state/virtual-server.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import type { Operation } from "../../support/fake-kernel/operations.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { cidr, endpointRecord, ip, portRecord, serviceRecord } from "../../support/records.ts";

function foreignAt(address: string, overrides: Partial<VirtualServer> = {}): VirtualServer {
  return {
    protocol: "TCP",
    address: ip(address),
    port: 80,
    scheduler: "wlc",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: 32,
    flags: 0,
    ...overrides,
  };
}

const foreign = foreignAt("203.0.113.5");
const foreignText = "-A -t 203.0.113.5:80 -s wlc";
const there = endpointRecord("10.244.2.11");
const claiming = serviceRecord({ externalIps: [foreign.address] });
const nodePort = serviceRecord({
  type: "NodePort",
  ports: [portRecord({ nodePort: 30_080 })],
});

/** Whether the operation reads all virtual servers. */
const isDump = ({ action }: Operation): boolean => action === "list-virtual-servers";
const isFind = ({ action }: Operation): boolean => action === "find-virtual-servers";

async function make(kernel: FakeKernel, virtualServer: VirtualServer): Promise<void> {
  await kernel.ipvs.apply([{ kind: "virtual-server-create", after: virtualServer }]);
}

/** A record that persists across one node's restarts. */
function keptRecord(): {
  kept(): RecordedOwnership;
  /** The record as it was before the first write of the last sync that changed it. */
  keptAhead(): RecordedOwnership;
  writeCount(): number;
  forStart(): OwnershipRecord;
} {
  let recorded: RecordedOwnership = nothingRecorded;
  let ahead = recorded;
  let writeCount = 0;
  return {
    kept: () => recorded,
    keptAhead: () => ahead,
    writeCount: () => writeCount,
    forStart: () => ({
      recorded,
      keep: (ownership) => {
        recorded = ownership;
        writeCount += 1;
      },
      async idle() {
        ahead = recorded;
      },
    }),
  };
}

/** Flushes all sets, as `ipset flush` does. */
function flush({ ipSets }: FakeKernel): void {
  for (const { set } of ipSets.peek()) ipSets.put(set);
}

describe("a Service that claims a foreign virtual server", () => {
  let kernel: FakeKernel;
  let bench: Bench;
  let report: SyncReport;

  beforeEach(async () => {
    kernel = new FakeKernel();
    await make(kernel, foreign);
    bench = new Bench(kernel);
    bench.put(claiming, [there]);
    report = await bench.sync();
  });

  it("is served at all other addresses", () => {
    assert.deepEqual(report.failures, []);
    assert.match(bench.state(), new RegExp(foreignText));
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5:80 -r/);
    assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/);
  });

  it("has neither an address nor entries that would mark the virtual server as owned", () => {
    assert.doesNotMatch(bench.state(), /kube-ipvs0 .*203\.0\.113\.5|add KUBE-.* 203\.0\.113\.5/);
  });

  it("is reported", () => {
    assert.deepEqual(report.conflicts, ["TCP 203.0.113.5:80"]);
    assert.equal(bench.desired.claimantOf(toServerKey("TCP 203.0.113.5:80")), "default/a:http");
  });

  it("keeps its conflict after a restart and after verification", async () => {
    assert.deepEqual(await bench.writes(true), []);
    const restarted = new Bench(kernel);
    restarted.put(claiming, [there]);
    assert.deepEqual(await restarted.writes(), []);
  });

  it("does not affect the virtual server when it is deleted", async () => {
    bench.drop(claiming.name);
    await bench.sync();
    assert.match(bench.state(), new RegExp(foreignText));
    assert.doesNotMatch(bench.state(), /10\.96\.0\.10/);
  });

  for (const isFull of [true, false]) {
    const how = isFull ? "everything is read" : "verification finds it";
    it(`is served when the foreign virtual server is removed: ${how}`, async () => {
      await kernel.ipvs.apply([{ kind: "virtual-server-remove", before: foreign }]);
      if (!isFull) await bench.verify();
      assert.deepEqual((await bench.sync(isFull)).conflicts, []);
      const want = new Bench();
      want.put(claiming, [there]);
      await want.sync();
      assert.equal(bench.state(), want.state());
    });
  }

  it("does not delay addresses and entries of other Services", async () => {
    const before = bench.state();
    const other = serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] });
    for (const isFull of [true, false]) {
      bench.put(other, [there]);
      await bench.sync(isFull);
      assert.match(bench.state(), /10\.96\.0\.11:80 -r 10\.244\.2\.11:8080/);
      assert.match(bench.state(), /add KUBE-CLUSTER-IP 10\.96\.0\.11,tcp:80/);
      assert.match(bench.state(), /kube-ipvs0 .*10\.96\.0\.11/);
      bench.drop(other.name);
      await bench.sync(isFull);
      assert.equal(bench.state(), before);
    }
  });

  it("keeps the address if another port of it is served", async () => {
    const other = serviceRecord({
      name: "default/b",
      clusterIps: [ip("10.96.0.11")],
      externalIps: [foreign.address],
      ports: [portRecord({ port: 443 })],
    });
    bench.put(other, [there]);
    await bench.sync();
    assert.match(bench.state(), /203\.0\.113\.5:443 -r 10\.244\.2\.11/);
    assert.match(bench.state(), /kube-ipvs0 .*203\.0\.113\.5/);
    assert.match(bench.state(), new RegExp(foreignText));
    assert.deepEqual(await bench.writes(true), []);
  });
});

describe("a foreign virtual server that was created since the last observation", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = new Bench();
    bench.put(serviceRecord(), [there]);
    await bench.sync();
    await make(bench.kernel, foreign);
  });

  function assertUntouched(): void {
    assert.match(bench.state(), new RegExp(foreignText));
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5:80 -r/);
  }

  it("is a conflict before anything is written, in a sync that stays partial", async () => {
    const { ipvs } = bench.kernel;
    const asked: string[] = [];
    const find = ipvs.findVirtualServers.bind(ipvs);
    ipvs.findVirtualServers = (ids) => {
      asked.push(...ids.map(virtualServerKey));
      return find(ids);
    };
    bench.put(claiming, [there]);
    bench.kernel.operations.failWhere(isDump, errno.EBUSY);
    const writes = await bench.writes();
    assert.deepEqual(asked, ["TCP 203.0.113.5:80"]);
    assert.deepEqual(
      writes.filter((text) => text.includes("203.0.113.5")),
      [],
    );
    assertUntouched();
    assert.equal(bench.reconciler.nextRetryMs, undefined);
    const again = await bench.sync();
    assert.deepEqual(again.conflicts, ["TCP 203.0.113.5:80"]);
    assert.equal(asked.length, 1);
  });

  it("is a conflict in the next sync if its request failed, and this one writes nothing", async () => {
    const heal = bench.kernel.operations.failWhere(isFind, errno.EPERM);
    bench.put(claiming, [endpointRecord("10.244.2.12")]);
    bench.kernel.operations.clear();
    const [failure] = (await bench.sync()).failures;
    assert.equal(failure?.kind, "observe");
    assert.deepEqual(bench.kernel.operations.texts(), []);
    heal();
    bench.kernel.operations.failWhere(isDump, errno.EBUSY);
    const report = await bench.sync();
    assert.deepEqual([report.failures, report.conflicts], [[], ["TCP 203.0.113.5:80"]]);
    assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.12:8080/);
    assert.doesNotMatch(bench.state(), /add KUBE-.* 203\.0\.113\.5/);
    assertUntouched();
  });

  it("is not overwritten if it is created after the request, and immediately becomes a conflict", async () => {
    const { ipvs } = bench.kernel;
    ipvs.findVirtualServers = async () => [];
    bench.put(claiming, [there]);
    const first = await bench.sync();
    assert.deepEqual([first.failures, first.rejections], [[], []]);
    assertUntouched();
    assert.equal(bench.reconciler.needsObservation, false);
    assert.equal(bench.reconciler.nextRetryMs, bench.clock.monotonicMs());
    const second = await bench.sync();
    assert.deepEqual([second.failures, second.rejections], [[], []]);
    assert.deepEqual(second.conflicts, ["TCP 203.0.113.5:80"]);
    assert.doesNotMatch(bench.state(), /kube-ipvs0 .*203\.0\.113\.5|add KUBE-.* 203\.0\.113\.5/);
    assertUntouched();
    assert.equal(bench.reconciler.nextRetryMs, undefined);
  });

  it("is a conflict in the first partial sync if it was observed", async () => {
    await bench.verify();
    await bench.sync();
    bench.put(claiming, [there]);
    const writes = await bench.writes();
    assert.deepEqual(
      writes.filter((text) => text.includes("203.0.113.5")),
      [],
    );
    bench.put(claiming, [endpointRecord("10.244.2.12")]);
    assert.deepEqual((await bench.sync()).conflicts, ["TCP 203.0.113.5:80"]);
    assertUntouched();
  });

  it("is not removed with its Service in a partial sync", async () => {
    await bench.verify();
    bench.put(claiming, [there]);
    await bench.sync();
    bench.drop(claiming.name);
    assert.deepEqual((await bench.sync()).conflicts, []);
    assertUntouched();
  });
});

it("with `delete`, a Service gets a foreign virtual server", async () => {
  const kernel = new FakeKernel();
  await make(kernel, foreign);
  const ownership = { foreignVirtualServers: "delete", excludeCIDRs: [] } as const;
  const bench = new Bench(kernel, { ownership });
  bench.put(claiming, [there]);
  assert.deepEqual((await bench.sync()).conflicts, []);
  assert.match(bench.state(), /203\.0\.113\.5:80 -r 10\.244\.2\.11:8080/);
});

const excluded = {
  foreignVirtualServers: "delete",
  excludeCIDRs: [cidr("203.0.113.0/24")],
} as const;
for (const [how, ownership] of [
  ["as the Service claims it", { foreignVirtualServers: "delete", excludeCIDRs: [] }],
  ["before, in an excluded network", excluded],
] as const) {
  it(`with \`delete\`, a Service gets the virtual server that a third party creates while kube-ipvs runs: ${how}`, async () => {
    const bench = new Bench(new FakeKernel(), { ownership });
    await bench.sync();
    await make(bench.kernel, foreign);
    await bench.verify();
    if (ownership === excluded) await bench.sync();
    assert.match(bench.state(), new RegExp(`${foreignText}$`, "m"));
    bench.put(claiming, [there]);
    const { conflicts } = await bench.sync();
    assert.deepEqual(conflicts, []);
    assert.match(bench.state(), /203\.0\.113\.5:80 -r 10\.244\.2\.11:8080/);
    assert.deepEqual((await bench.sync(true)).conflicts, []);
  });
}

it("all set entries of a Service are removed if a third party created its virtual server in between", async () => {
  const bench = new Bench();
  await bench.sync();
  await make(bench.kernel, foreign);
  bench.put(
    serviceRecord({
      type: "LoadBalancer",
      loadBalancerIps: [foreign.address],
      sourceRanges: [cidr("10.0.0.0/8")],
      isExternalPolicyLocal: true,
    }),
    [there],
  );
  await bench.sync();
  assert.deepEqual((await bench.sync()).conflicts, ["TCP 203.0.113.5:80"]);
  assert.doesNotMatch(bench.state(), /add KUBE-\S+ 203\.0\.113\.5,tcp:80$/m);
});

it("a foreign virtual server on a virtual IP survives a restart after a flush of the sets", async () => {
  const kernel = new FakeKernel();
  const record = keptRecord();
  const bench = new Bench(kernel, {}, { ownershipRecord: record.forStart() });
  bench.put(nodePort, [there]);
  await bench.sync();
  await make(kernel, foreignAt("10.96.0.10", { port: 443 }));
  assert.equal(await bench.verify(), true);
  await bench.sync();
  flush(kernel);
  const restarted = new Bench(kernel, {}, { ownershipRecord: record.forStart() });
  restarted.put(nodePort, [there]);
  assert.deepEqual((await restarted.sync()).foreignServers, ["TCP 10.96.0.10:443"]);
  assert.match(restarted.state(), /-A -t 10\.96\.0\.10:443 /);
  restarted.drop(nodePort.name);
  await restarted.sync();
  assert.deepEqual([...record.kept().foreign], [], "the address is no longer kube-ipvs's");
});

it("a foreign virtual server at the same port on another node address survives a restart", async () => {
  const kernel = new FakeKernel();
  const nodeAddresses = new Set([ip("192.168.10.11"), ip("172.16.5.11"), ip("192.168.10.12")]);
  const record = keptRecord();
  const start = async (): Promise<SyncReport> => {
    const bench = new Bench(kernel, {}, { ownershipRecord: record.forStart() });
    bench.nodeAddresses = nodeAddresses;
    bench.put(nodePort, [there]);
    return bench.sync();
  };
  await make(kernel, foreignAt("192.168.10.12", { port: 30_080 }));
  for (const what of ["first start", "restart", "second restart"]) {
    assert.deepEqual((await start()).foreignServers, ["TCP 192.168.10.12:30080"], what);
  }
});

describe("the record of a running daemon", () => {
  const record = keptRecord();
  const kernel = new FakeKernel();
  const bench = new Bench(kernel, {}, { ownershipRecord: record.forStart() });
  const { kept, keptAhead, writeCount } = record;
  const onNode = { ...nodePort, externalIps: [ip("192.168.10.11"), ip("203.0.113.6")] };

  it("names kube-ipvs's virtual servers on node addresses, but not those on kube-ipvs0", async () => {
    bench.put(onNode, [there]);
    await bench.sync();
    assert.deepEqual([...kept().owned].toSorted(), [
      "TCP 192.168.10.11:30080",
      "TCP 192.168.10.11:80",
    ]);
    assert.match(bench.state(), /203\.0\.113\.6:80/);
  });

  it("names a conflict", async () => {
    await make(kernel, foreign);
    bench.put({ ...claiming, name: "default/b", clusterIps: [ip("10.96.0.11")] }, [there]);
    await bench.sync(true);
    assert.deepEqual([...kept().foreign], [virtualServerKey(foreign)]);
  });

  it("is not written again while it does not change", async () => {
    const before = writeCount();
    bench.put(onNode, [endpointRecord("10.244.2.12")]);
    bench.put(serviceRecord({ name: "default/c", clusterIps: [ip("10.96.0.12")] }), [there]);
    await bench.sync();
    bench.drop("default/c");
    await bench.sync();
    await bench.sync(true);
    assert.equal(writeCount(), before);
  });

  it("omits a conflict once no Service claims the address", async () => {
    bench.drop("default/b");
    await bench.sync();
    assert.deepEqual([...kept().foreign], []);
  });

  it("names a foreign virtual server on a virtual IP, as long as the IP is bound", async () => {
    const [first, second] = [ip("10.96.0.12"), ip("10.96.0.13")];
    for (const address of [first, second]) await make(kernel, foreignAt(address, { port: 443 }));
    await bench.sync(true);
    for (const address of [first, second]) {
      bench.put(serviceRecord({ name: "default/c", clusterIps: [address] }), [there]);
      await bench.sync();
      assert.deepEqual([...kept().foreign], [`TCP ${address}:443`]);
    }
    assert.deepEqual([...keptAhead().foreign], [`TCP ${first}:443`, `TCP ${second}:443`]);
    bench.drop("default/c");
    await bench.sync();
    assert.deepEqual([...kept().foreign], []);
  });

  it("is updated once for removed virtual servers", async () => {
    bench.drop(nodePort.name);
    await bench.sync();
    assert.deepEqual([...kept().owned], []);
    const before = writeCount();
    await bench.sync(true);
    assert.equal(writeCount(), before);
  });
});

it("possibly owned virtual servers on a virtual IP are kept across restarts, and not recorded as foreign", async () => {
  const kernel = new FakeKernel();
  const record = keptRecord();
  const former = foreignAt("10.96.0.10", { port: 443 });
  await make(kernel, former);
  const realServer = { address: ip("10.244.2.11"), port: 8080, weight: 1, forwardingMethod: 0 };
  await kernel.ipvs.apply([
    { kind: "real-server-create", virtualServer: former, after: realServer },
  ]);
  for (const what of ["first start", "restart", "second restart"]) {
    const bench = new Bench(kernel, {}, { ownershipRecord: record.forStart() });
    bench.put(serviceRecord(), [there]);
    const { possiblyOwned } = await bench.sync();
    assert.deepEqual(possiblyOwned, ["TCP 10.96.0.10:443"], what);
    assert.deepEqual([...record.kept().foreign], [], what);
    if (what === "second restart") {
      await kernel.ipvs.apply([{ kind: "virtual-server-remove", before: former }]);
      const report = await bench.sync(true);
      assert.deepEqual([report.possiblyOwned, report.foreignServers], [[], []]);
    }
  }
});

describe("a foreign virtual server at a node port on one node address", () => {
  const taken = foreignAt("192.168.10.11", { port: 30_080 });
  let recordedBeforeEntry: readonly string[];
  let bench: Bench;

  beforeEach(() => {
    recordedBeforeEntry = [];
    let given = nothingRecorded;
    const ownershipRecord = {
      recorded: nothingRecorded,
      keep: (ownership: RecordedOwnership) => {
        given = ownership;
      },
      idle: async () => {
        await setImmediate();
        if (!bench.state().includes("add KUBE-NODE-PORT-TCP")) {
          recordedBeforeEntry = [...given.foreign];
        }
      },
    };
    bench = new Bench(new FakeKernel(), {}, { ownershipRecord });
  });

  it("is recorded before the entry for its port, at startup", async () => {
    await make(bench.kernel, taken);
    bench.put(nodePort, [there]);
    await bench.sync();
    assert.deepEqual(recordedBeforeEntry, ["TCP 192.168.10.11:30080"]);
    assert.match(bench.state(), /add KUBE-NODE-PORT-TCP 30080/);
  });

  it("is recorded before the entry for its port, on an address that does not serve node ports", async () => {
    await make(bench.kernel, foreignAt("192.168.10.12", { port: 30_080 }));
    bench.put(nodePort, [there]);
    await bench.sync();
    assert.deepEqual(recordedBeforeEntry, ["TCP 192.168.10.12:30080"]);
  });

  it("is recorded before the entry for its port, if it was created in the meantime", async () => {
    await bench.sync();
    await make(bench.kernel, taken);
    bench.put(nodePort, [there]);
    await bench.sync();
    assert.deepEqual(recordedBeforeEntry, ["TCP 192.168.10.11:30080"]);
  });
});

describe("after a third party flushed the sets", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = new Bench();
    bench.put(nodePort, [there]);
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    await bench.sync();
    flush(bench.kernel);
  });

  it("a running daemon still owns its virtual servers", async () => {
    bench.put(nodePort, [endpointRecord("10.244.2.12")]);
    bench.drop("default/b");
    const report = await bench.sync(true);
    assert.deepEqual([report.conflicts, report.foreignServers], [[], []]);
    const want = new Bench();
    want.put(nodePort, [endpointRecord("10.244.2.12")]);
    await want.sync();
    assert.equal(bench.state(), want.state());
  });

  it("a restarted daemon recognizes and serves its virtual servers by their addresses", async () => {
    const restarted = new Bench(bench.kernel);
    restarted.put(nodePort, [endpointRecord("10.244.2.12")]);
    restarted.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    assert.deepEqual((await restarted.sync()).conflicts, []);
    assert.match(restarted.state(), /192\.168\.10\.11:30080 -r 10\.244\.2\.12:8080/);
    assert.match(restarted.state(), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
  });

  it("a restarted daemon removes unclaimed virtual servers on kube-ipvs0, but no foreign ones", async () => {
    await make(bench.kernel, foreign);
    const restarted = new Bench(bench.kernel);
    restarted.put(nodePort, [there]);
    assert.deepEqual((await restarted.sync()).foreignServers, ["TCP 203.0.113.5:80"]);
    assert.doesNotMatch(restarted.state(), /10\.96\.0\.11/);
    assert.match(restarted.state(), new RegExp(foreignText));
  });
});

for (const isWhole of [true, false]) {
  const how = isWhole ? "when everything is observed" : "when a Service claims it";
  it(`a removed virtual server that a third party recreates is foreign and stays ${how}`, async () => {
    const bench = new Bench();
    const service = serviceRecord({ externalIps: [foreign.address] });
    bench.put(service, [there]);
    await bench.sync();
    bench.drop(service.name);
    await bench.sync(isWhole);
    await make(bench.kernel, foreign);
    if (!isWhole) bench.put(service, [there]);
    const { foreignServers, conflicts } = await bench.sync(isWhole);
    assert.deepEqual(isWhole ? foreignServers : conflicts, ["TCP 203.0.113.5:80"]);
    assert.match(bench.state(), new RegExp(`${foreignText}$`, "m"));
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5:80 -r/);
  });
}

describe("a recorded foreign virtual server that the third party removed", () => {
  const key = virtualServerKey(foreign);

  /**
   * Returns the foreign virtual servers that the record contained when the first write began, and the kernel state at
   * that time.
   */
  function recordFrom(recorded: RecordedOwnership): {
    readonly bench: Bench;
    readonly atFirstWrite: { foreign: readonly string[]; state: string };
  } {
    const atFirstWrite = { foreign: [...recorded.foreign], state: "" };
    let given = recorded;
    const ownershipRecord = {
      recorded,
      keep: (ownership: RecordedOwnership) => {
        given = ownership;
      },
      idle: async () => {
        atFirstWrite.foreign = [...given.foreign];
        atFirstWrite.state = bench.state();
      },
    };
    const bench = new Bench(new FakeKernel(), {}, { ownershipRecord });
    return { bench, atFirstWrite };
  }

  it("is deleted from the record before kube-ipvs creates its own, so that a start does not treat that one as foreign", async () => {
    const { bench, atFirstWrite } = recordFrom(nothingRecorded);
    await make(bench.kernel, foreign);
    bench.put(claiming, [there]);
    await bench.sync();
    assert.deepEqual(atFirstWrite.foreign, [key]);
    const removal = { kind: "virtual-server-remove", before: foreign } as const;
    await bench.kernel.ipvs.apply([removal]);
    await bench.sync(true);
    assert.deepEqual(atFirstWrite.foreign, []);
    assert.doesNotMatch(atFirstWrite.state, /203\.0\.113\.5:80/);
    assert.match(bench.state(), /203\.0\.113\.5:80 -r 10\.244\.2\.11:8080/);
  });

  it("is deleted from the record before kube-ipvs creates its own, if it was removed while the program was stopped", async () => {
    const { bench, atFirstWrite } = recordFrom({ ...nothingRecorded, foreign: new Set([key]) });
    bench.put(claiming, [there]);
    await bench.sync();
    assert.deepEqual(atFirstWrite, { foreign: [], state: "" });
    assert.match(bench.state(), /203\.0\.113\.5:80 -r 10\.244\.2\.11:8080/);
  });
});

describe("a virtual server that could not be created", () => {
  const key = toServerKey("TCP 203.0.113.5:80");
  let bench: Bench;

  beforeEach(() => {
    bench = new Bench();
  });

  /** A third party creates the virtual server before kube-ipvs does. */
  async function makeThere(): Promise<SyncReport> {
    await make(bench.kernel, foreign);
    await bench.clock.advance(60_000);
    return bench.sync();
  }

  async function staysForeign(report: SyncReport): Promise<void> {
    assert.deepEqual(report.conflicts, [key]);
    bench.drop(claiming.name);
    await bench.sync();
    assert.match(bench.state(), new RegExp(`${foreignText}$`, "m"));
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5:80 -r/);
  }

  const reasons: readonly [why: string, action: string, errno: number][] = [
    ["was refused", "virtual-server-create", errno.EINVAL],
    ["waited for its entry, which was rejected", "entry-add", errno.EBUSY],
  ];
  for (const [why, action, number] of reasons) {
    it(`is foreign once a third party creates it: it ${why}`, async () => {
      const isRefused = (operation: Operation): boolean => operation.action === action;
      const heal = bench.kernel.operations.failWhere(isRefused, number);
      bench.put(claiming, [there]);
      await bench.sync();
      heal();
      await staysForeign(await makeThere());
    });
  }

  it("is foreign once a third party creates it: its repair was backing off", async () => {
    bench.put(claiming, [there]);
    await bench.sync();
    for (let time = 0; time < 5; time += 1) {
      const removal = { kind: "virtual-server-remove", before: foreign } as const;
      await bench.kernel.ipvs.apply([removal]);
      await bench.sync(true);
    }
    assert.doesNotMatch(bench.state(), /-t 203\.0\.113\.5:80/);
    await staysForeign(await makeThere());
  });
});

it("after a third party flushed one set, a restarted daemon removes the ports in it, but no foreign ones", async () => {
  const kernel = new FakeKernel();
  const bench = new Bench(kernel);
  bench.put(serviceRecord(), [there]);
  bench.put(claiming, [there]);
  await bench.sync();
  await make(kernel, foreignAt("203.0.113.5", { port: 81 }));
  kernel.ipSets.put(setFor("clusterIp", "IPv4"));
  const restarted = new Bench(kernel);
  const report = await restarted.sync();
  // A set still contains the external IP, with another port.
  assert.deepEqual(report.foreignServers, ["TCP 203.0.113.5:81"]);
  assert.doesNotMatch(restarted.state(), /10\.96\.0\.10/);
});

for (const policy of ["keep", "delete"] as const) {
  it(`a virtual server that the kernel refuses to remove does not become foreign with \`${policy}\``, async () => {
    const ownership = { foreignVirtualServers: policy, excludeCIDRs: [] };
    const bench = new Bench(new FakeKernel(), { ownership });
    bench.put(serviceRecord(), [there]);
    await bench.sync();
    if (policy === "delete") {
      await make(bench.kernel, foreign);
      await bench.verify();
    }
    const isRemoval = ({ action }: Operation): boolean => action === "virtual-server-remove";
    bench.kernel.operations.failWhere(isRemoval, errno.EBUSY);
    bench.drop("default/a");
    const { foreignServers, rejected } = await bench.sync();
    assert.deepEqual(
      rejected.map(({ change }) => change.kind),
      Array(policy === "delete" ? 2 : 1).fill("virtual-server-remove"),
    );
    assert.deepEqual(foreignServers, []);
  });
}

describe("unclaimed virtual servers", () => {
  const key = toServerKey("TCP 203.0.113.5:80");
  const cases: readonly {
    readonly name: string;
    readonly policy: "keep" | "delete";
    readonly excluded: readonly string[];
    readonly stays: boolean;
  }[] = [
    { name: "stays", policy: "keep", excluded: [], stays: true },
    { name: "is removed with `delete`", policy: "delete", excluded: [], stays: false },
    {
      name: "stays in an excluded network",
      policy: "delete",
      excluded: ["203.0.113.0/24"],
      stays: true,
    },
    {
      name: "is removed outside excluded networks",
      policy: "delete",
      excluded: ["203.0.112.0/24"],
      stays: false,
    },
  ];
  for (const { name, policy, excluded, stays } of cases) {
    it(name, async () => {
      const kernel = new FakeKernel();
      await make(kernel, foreign);
      const ownership = { foreignVirtualServers: policy, excludeCIDRs: excluded.map(cidr) };
      const bench = new Bench(kernel, { ownership });
      bench.put(serviceRecord(), [there]);
      const report = await bench.sync();
      assert.deepEqual(report.foreignServers, stays ? [key] : []);
      assert.equal(bench.state().includes(foreignText), stays);
    });
  }
});

it("of kube-ipvs in an excluded network are served again when a Service claims them again", async () => {
  const ownership = {
    foreignVirtualServers: "keep",
    excludeCIDRs: [cidr("10.96.0.0/24")],
  } as const;
  const bench = new Bench(new FakeKernel(), { ownership });
  bench.put(serviceRecord(), [there]);
  await bench.sync();
  bench.drop("default/a");
  await bench.sync();
  await bench.sync(true);
  bench.put(serviceRecord(), [endpointRecord("10.244.2.12")]);
  const report = await bench.sync(true);
  assert.deepEqual(report.conflicts, []);
  assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.12:8080/);
});

it("of kube-ipvs in an excluded network are recorded before their entries are removed, and are kept", async () => {
  const record = keptRecord();
  const ownership = {
    foreignVirtualServers: "keep",
    excludeCIDRs: [cidr("10.96.0.0/24")],
  } as const;
  const key = toServerKey("TCP 10.96.0.10:8080");
  const ownershipRecord = record.forStart();
  const bench = new Bench(new FakeKernel(), { ownership }, { ownershipRecord });
  const [web, admin] = [portRecord(), portRecord({ name: "admin", port: 8080 })];
  bench.put(serviceRecord({ ports: [web, admin] }), [there]);
  bench.put({ ...nodePort, name: "default/b", clusterIps: [ip("10.96.0.11")] }, [there]);
  assert.deepEqual((await bench.sync()).foreignServers, []);
  const atNode = toServerKey("TCP 192.168.10.11:30080");
  assert.deepEqual([...record.kept().owned], [atNode]);
  bench.put(serviceRecord({ ports: [web] }), [there]);
  assert.deepEqual((await bench.sync()).foreignServers, [key]);
  assert.deepEqual([...record.keptAhead().owned], [atNode, key]);
  const before = record.writeCount();
  await bench.sync(true);
  assert.equal(record.writeCount(), before);
  bench.drop("default/b");
  await bench.sync();
  const { owned, foreign: others } = record.kept();
  assert.ok(owned.has(key) && !owned.has(atNode));
  assert.deepEqual([...others], [], "its address is still kube-ipvs's");
});

it("are classified by a dry run each time, also by the record", async () => {
  const kernel = new FakeKernel();
  const running = new Bench(kernel);
  running.put(claiming, [there]);
  await running.sync();
  const recorded = foreignAt("198.51.100.1");
  for (const server of [recorded, foreignAt("198.51.100.2")]) await make(kernel, server);
  const ownershipRecord = {
    ...keptRecord().forStart(),
    recorded: { ...nothingRecorded, owned: new Set([virtualServerKey(recorded)]) },
  };
  const dry = new Bench(kernel, { isDryRun: true }, { ownershipRecord });
  dry.put(claiming, [there]);
  const first = await dry.sync();
  assert.deepEqual([first.foreignServers, first.conflicts], [["TCP 198.51.100.2:80"], []]);
  running.drop(claiming.name);
  await running.sync();
  await make(kernel, foreign);
  const second = await dry.sync();
  assert.deepEqual(second.foreignServers, ["TCP 198.51.100.2:80", virtualServerKey(foreign)]);
  assert.deepEqual(second.conflicts, [virtualServerKey(foreign)]);
});

describe("a virtual server whose set entry is rejected", () => {
  const isEntry = ({ action }: { readonly action: string }): boolean => action === "entry-add";

  it("is neither created nor bound before the entry exists, so that a restart recognizes it", async () => {
    const kernel = new FakeKernel();
    const bench = new Bench(kernel);
    bench.put(serviceRecord(), [there]);
    const heal = kernel.operations.failWhere(isEntry, errno.EBUSY);
    await bench.sync();
    assert.doesNotMatch(bench.state(), /10\.96\.0\.10:80|inet 10\.96\.0\.10/);
    heal();
    const restarted = new Bench(kernel);
    restarted.put(serviceRecord(), [there]);
    assert.deepEqual((await restarted.sync()).conflicts, []);
    assert.match(restarted.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/);
  });

  it("is not created while the entry for its source ranges is rejected", async () => {
    const bench = new Bench();
    const isFirewall = ({ action, subject }: Operation): boolean =>
      action === "entry-add" && subject.includes("KUBE-LOAD-BALANCER-FW");
    const heal = bench.kernel.operations.failWhere(isFirewall, errno.EBUSY);
    const restricted = { loadBalancerIps: [foreign.address], sourceRanges: [cidr("10.0.0.0/8")] };
    bench.put(serviceRecord({ type: "LoadBalancer", ...restricted }), [there]);
    await bench.sync();
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5:80/);
    assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/);
    heal();
    await bench.clock.advance(1_000);
    await bench.sync();
    assert.match(bench.state(), /203\.0\.113\.5:80 -r 10\.244\.2\.11:8080/);
    assert.match(bench.state(), /add KUBE-LOAD-BALANCER-FW 203\.0\.113\.5,tcp:80/);
  });

  const parts: readonly [entry: string, text: RegExp][] = [
    ["KUBE-CLUSTER-IP 10.96.0.10", /-t 10\.96\.0\.10:80|inet 10\.96\.0\.10/],
    ["KUBE-LOAD-BALANCER 203", /-t 203\.0\.113\.5:80|inet 203\.0\.113\.5/],
    ["KUBE-LOAD-BALANCER-FW 203", /-t 203\.0\.113\.5:80|inet 203\.0\.113\.5/],
    ["KUBE-IPVS-IPS 203", /inet 203\.0\.113\.5/],
  ];
  for (const [part, served] of parts) {
    it(`is neither created nor bound by an endpoint change in the meantime: ${part}`, async () => {
      const bench = new Bench();
      const service = serviceRecord({
        type: "LoadBalancer",
        loadBalancerIps: [foreign.address],
        sourceRanges: [cidr("10.0.0.0/8")],
      });
      const isRefused = ({ action, subject }: Operation): boolean =>
        action === "entry-add" && subject.startsWith(part);
      const heal = bench.kernel.operations.failWhere(isRefused, errno.EBUSY);
      bench.put(service, [there]);
      await bench.sync();
      bench.put(service, [endpointRecord("10.244.2.12")]);
      await bench.sync();
      assert.doesNotMatch(bench.state(), served);
      heal();
      await bench.clock.advance(300_000);
      await bench.sync();
      const want = new Bench();
      want.put(service, [endpointRecord("10.244.2.12")]);
      await want.sync();
      assert.equal(bench.state(), want.state());
    });
  }

  it("is changed nevertheless if it exists", async () => {
    const bench = new Bench();
    bench.put(serviceRecord(), [there]);
    await bench.sync();
    bench.kernel.operations.failWhere(isEntry, errno.EBUSY);
    bench.put(serviceRecord({ externalIps: [foreign.address] }), [endpointRecord("10.244.2.12")]);
    await bench.sync();
    assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.12:8080/);
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5/);
  });
});
