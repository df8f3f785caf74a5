import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import { setFor, standardMaxElements, temporaryNameOf } from "../../../src/plan/sets.ts";
import type { IpSet } from "../../../src/state/ip-set.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { iptablesText } from "../../support/fake-kernel/state-text.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, serviceRecord } from "../../support/records.ts";

const clusterIps = setFor("clusterIp", "IPv4");
const temporary = temporaryNameOf(clusterIps.name);
const entry = "10.96.0.10,tcp:80";
const a = serviceRecord();
const there = endpointRecord("10.244.2.11");

/** Returns the state after a fresh start. */
async function fresh(): Promise<Bench> {
  const bench = new Bench();
  bench.put(a, [there]);
  await bench.sync();
  return bench;
}

function setNames({ ipSets }: FakeKernel): readonly string[] {
  return ipSets.peek().map(({ set }) => set.name);
}

function maxElementsOf({ ipSets }: FakeKernel, name: string): number | undefined {
  return ipSets.peek().find(({ set }) => set.name === name)?.set.maxElements;
}

const misfits: readonly {
  readonly name: string;
  readonly set: Partial<IpSet>;
  readonly entries: readonly string[];
  readonly hasOptions?: true;
}[] = [
  { name: "a smaller capacity", set: { maxElements: 1000 }, entries: [entry] },
  {
    name: "a larger capacity",
    set: { maxElements: 1_000_000 },
    entries: [entry, "10.96.0.9,tcp:1"],
  },
  { name: "a timeout or similar option", set: {}, entries: [entry], hasOptions: true },
  { name: "another type", set: { type: "hash:ip" }, entries: ["10.96.0.10"] },
  { name: "the other family", set: { family: "IPv6" }, entries: ["fd00::1,tcp:80"] },
];

describe("an existing set with", () => {
  for (const { name, set, entries, hasOptions } of misfits) {
    const options = hasOptions === undefined ? {} : { hasOptions };

    it(`${name} is replaced`, async () => {
      const kernel = new FakeKernel();
      kernel.ipSets.put({ ...clusterIps, ...set }, entries, options);
      const bench = new Bench(kernel);
      bench.put(a, [there]);
      assert.deepEqual((await bench.sync()).failures, []);
      assert.equal(bench.state(), (await fresh()).state());
      assert.deepEqual(await bench.writes(true), []);
    });

    if (set.type !== undefined || set.family !== undefined) continue;

    it(`${name} is replaced under the rules that refer to it`, async () => {
      const { kernel } = await fresh();
      kernel.ipSets.put({ ...clusterIps, ...set }, entries, options);
      const bench = new Bench(kernel);
      bench.put(a, [there]);
      assert.deepEqual((await bench.sync()).failures, []);
      assert.equal(bench.state(), (await fresh()).state());
      assert.equal(iptablesText(kernel, "IPv4"), iptablesText((await fresh()).kernel, "IPv4"));
      assert.deepEqual(await bench.writes(true), []);
    });
  }

  it("another range of ports is replaced", async () => {
    const { kernel } = await fresh();
    const ports = setFor("nodePortTcp", "IPv6");
    kernel.ipSets.put({ ...ports, maxElements: 1024 }, ["80"]);
    const bench = new Bench(kernel);
    bench.put(a, [there]);
    assert.deepEqual((await bench.sync()).failures, []);
    assert.equal(maxElementsOf(kernel, ports.name), 65_536);
    assert.deepEqual(await bench.writes(true), []);
  });
});

describe("the entries of a set that is replaced", () => {
  /**
   * Checks after each write that every rule that refers to a set, or to its temporary replacement, finds the entry
   * there.
   */
  async function watched(
    set: Partial<IpSet>,
    entries: readonly string[],
  ): Promise<readonly string[]> {
    const { kernel } = await fresh();
    kernel.ipSets.put({ ...clusterIps, ...set }, entries);
    const bench = new Bench(kernel);
    bench.put(a, [there]);
    const gaps: string[] = [];
    kernel.operations.failWhere(() => {
      const [text] = kernel.operations.texts().slice(-1);
      const rules = iptablesText(kernel, "IPv4");
      for (const name of [clusterIps.name, temporary]) {
        if (!rules.includes(`--match-set ${name} `)) continue;
        const held = kernel.ipSets.peek().find((one) => one.set.name === name);
        if (held?.set.type !== clusterIps.type) continue;
        if (!held.entries.some((one) => one === entry)) gaps.push(`${name} before ${text}`);
      }
      return false;
    }, errno.EPERM);
    assert.deepEqual((await bench.sync()).failures, []);
    return gaps;
  }

  it("are always complete, because the set is swapped", async () => {
    assert.deepEqual(await watched({ maxElements: 1000 }, [entry]), []);
  });
});

describe("a set that cannot be replaced", () => {
  let kernel: FakeKernel;
  let bench: Bench;

  beforeEach(async () => {
    ({ kernel } = await fresh());
    kernel.ipSets.put({ ...clusterIps, type: "hash:ip" }, ["10.96.0.10"]);
    bench = new Bench(kernel);
    bench.put(a, [there]);
  });

  it("since rules refer to it stays, is reported, and does not stop other changes", async () => {
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    kernel.operations.clear();
    const report = await bench.sync();
    assert.deepEqual(report.failures, []);
    const [refusal, ...others] = report.rejections;
    assert.deepEqual(others, []);
    assert.deepEqual(
      [refusal?.subject, refusal?.reason],
      [{ type: "set", setName: clusterIps.name }, "incompatible-set"],
    );
    assert.match(
      refusal?.error.message ?? "",
      /^Cannot replace set KUBE-CLUSTER-IP \(hash:ip\) with a hash:ip,port set: rules refer to it/,
    );
    assert.equal(bench.reconciler.needsObservation, false);
    assert.match(bench.state(), /10\.96\.0\.11:80 -r 10\.244\.2\.11:8080/);
    assert.match(bench.state(), /add KUBE-IPVS-IPS 10\.96\.0\.11/);
    assert.deepEqual(
      kernel.operations.texts().filter((text) => text.includes("CLUSTER-IP")),
      [],
    );
  });

  it("is reported once, and replaced after its delay when the rules are gone", async () => {
    await bench.sync();
    await bench.clock.advance(1_000);
    assert.equal((await bench.sync(true)).rejections.length, 1);
    for (const [table, chain] of [
      ["nat", "KUBE-SERVICES"],
      ["filter", "KUBE-IPVS-FILTER"],
    ] as const) {
      kernel.iptables.table("IPv4", table).remove(chain, /KUBE-CLUSTER-IP/);
    }
    assert.deepEqual(await bench.writes(), [], "while it is pending");
    await bench.clock.advance(2_000);
    const report = await bench.sync(true);
    assert.deepEqual(report.failures, []);
    assert.deepEqual(report.rejections, []);
    assert.equal(bench.state(), (await fresh()).state());
    assert.deepEqual(await bench.writes(true), []);
  });
});

it("the next start completes a replacement that was interrupted at any write, and leaves no temporary set", async () => {
  const want = await fresh();
  for (let write = 1; write <= 12; write++) {
    const { kernel } = await fresh();
    kernel.ipSets.put({ ...clusterIps, maxElements: 1000 }, [entry]);
    kernel.operations.crashAt(write);
    const killed = new Bench(kernel);
    killed.put(a, [there]);
    await killed.sync();
    kernel.operations.revive();
    const restarted = new Bench(kernel);
    restarted.put(a, [there]);
    assert.deepEqual((await restarted.sync()).failures, [], `killed at write ${write}`);
    assert.equal(restarted.state(), want.state(), `killed at write ${write}`);
  }
});

describe("the capacity of a set", () => {
  /** Plans `count` local endpoints, each with an entry in KUBE-LOOP-BACK. */
  function endpoints(count: number): ReturnType<typeof endpointRecord>[] {
    return Array.from({ length: count }, (_, index) =>
      endpointRecord(`10.${240 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`, {
        nodeName: "node-1",
      }),
    );
  }
  const loopBack = setFor("loopBack", "IPv4").name;

  it("grows when it must, and shrinks to kube-proxy's when it can", async () => {
    const bench = new Bench();
    bench.put(a, endpoints(65_536));
    assert.deepEqual((await bench.sync()).failures, []);
    assert.equal(maxElementsOf(bench.kernel, loopBack), standardMaxElements);
    bench.put(a, endpoints(65_537));
    assert.deepEqual((await bench.sync()).failures, []);
    assert.equal(maxElementsOf(bench.kernel, loopBack), 131_072);
    bench.put(a, endpoints(10));
    assert.deepEqual((await bench.sync()).failures, []);
    assert.equal(maxElementsOf(bench.kernel, loopBack), 131_072, "not in a sync of what changed");
    assert.deepEqual((await bench.sync(true)).failures, []);
    assert.equal(maxElementsOf(bench.kernel, loopBack), standardMaxElements);
    assert.equal(
      bench.kernel.ipSets.peek().find(({ set }) => set.name === loopBack)?.entries.length,
      10,
    );
    assert.ok(!setNames(bench.kernel).some((name) => name.startsWith("KTMP-")));
  });

  it("always equals kube-proxy's below the limit", async () => {
    const bench = new Bench();
    for (const count of [1, 100, 5_000, 100]) {
      bench.put(a, endpoints(count));
      await bench.sync();
      assert.equal(maxElementsOf(bench.kernel, loopBack), standardMaxElements);
    }
  });
});
