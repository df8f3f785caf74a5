/** What others took away between two syncs: found by a cheap look, repaired with the fewest writes. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import { setFor } from "../../../src/plan/sets.ts";
import type { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { iptablesText } from "../../support/fake-kernel/state-text.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, serviceRecord } from "../../support/records.ts";

const clusterIps = setFor("clusterIp", "IPv4");
const entry = "10.96.0.10,tcp:80";

let bench: Bench;
let kernel: FakeKernel;

beforeEach(async () => {
  bench = new Bench();
  ({ kernel } = bench);
  bench.put(serviceRecord(), [endpointRecord("10.244.2.11")]);
  await bench.sync();
});

describe("a look at the sets", () => {
  it("finds nothing after a sync", async () => {
    assert.deepEqual(await bench.reconciler.checkSets(), []);
  });

  it("finds nothing to compare before the first sync", async () => {
    assert.deepEqual(await new Bench(kernel).reconciler.checkSets(), []);
  });

  const losses: readonly [name: string, lose: () => void, writes: readonly string[]][] = [
    ["emptied", () => kernel.ipSets.put(clusterIps), [`ipset add-entry KUBE-CLUSTER-IP ${entry}`]],
    [
      "filled",
      () => kernel.ipSets.put(clusterIps, [entry, "10.9.9.9,tcp:1"]),
      ["ipset remove-entry KUBE-CLUSTER-IP 10.9.9.9,tcp:1"],
    ],
    [
      "made anew with another capacity",
      () => kernel.ipSets.put({ ...clusterIps, maxElements: 64 }, [entry]),
      [
        "ipset destroy-set KTMP-CLUSTER-IP",
        "ipset create-set KTMP-CLUSTER-IP",
        `ipset add-entry KTMP-CLUSTER-IP ${entry}`,
        "ipset swap-sets KUBE-CLUSTER-IP KTMP-CLUSTER-IP",
        "ipset destroy-set KTMP-CLUSTER-IP",
      ],
    ],
    [
      "made anew with a time-out",
      () => kernel.ipSets.put(clusterIps, [entry], { hasOptions: true }),
      [
        "ipset destroy-set KTMP-CLUSTER-IP",
        "ipset create-set KTMP-CLUSTER-IP",
        `ipset add-entry KTMP-CLUSTER-IP ${entry}`,
        "ipset swap-sets KUBE-CLUSTER-IP KTMP-CLUSTER-IP",
        "ipset destroy-set KTMP-CLUSTER-IP",
      ],
    ],
  ];
  for (const [name, lose, writes] of losses) {
    it(`finds one that was ${name}; the next sync repairs it`, async () => {
      lose();
      assert.deepEqual(await bench.reconciler.checkSets(), ["KUBE-CLUSTER-IP"]);
      assert.deepEqual(await bench.writes(), writes);
      assert.deepEqual(await bench.reconciler.checkSets(), []);
    });
  }

  it("asks for the headers alone", async () => {
    const asked: string[] = [];
    kernel.operations.failWhere(({ action, isRead }) => {
      if (isRead === true) asked.push(action);
      return false;
    }, errno.EPERM);
    await bench.reconciler.checkSets();
    assert.deepEqual(asked, ["list-sets"]);
  });
});

describe("a look at the rules", () => {
  it("finds nothing after a sync, also beside rules of others", async () => {
    kernel.iptables.table("IPv4", "filter").append("INPUT", "-s 192.0.2.1/32 -j DROP");
    assert.deepEqual(await bench.reconciler.checkRules(), []);
    assert.deepEqual(await bench.writes(), []);
  });

  const losses: readonly [name: string, lose: () => void, lost: string, write: string][] = [
    [
      "the upper jump",
      () => kernel.iptables.table("IPv4", "filter").remove("INPUT", /KUBE-IPVS-FILTER/),
      "IPv4 filter INPUT",
      "IPv4: insert-jump filter INPUT KUBE-IPVS-FILTER",
    ],
    [
      "a rule of a chain",
      () => kernel.iptables.table("IPv4", "nat").remove("KUBE-SERVICES", /KUBE-NODE-PORT/),
      "IPv4 nat KUBE-SERVICES",
      "IPv4: write-chain nat KUBE-SERVICES",
    ],
    [
      "one rule too many",
      () => kernel.iptables.table("IPv4", "filter").append("KUBE-FORWARD", "-j DROP"),
      "IPv4 filter KUBE-FORWARD",
      "IPv4: write-chain filter KUBE-FORWARD",
    ],
  ];
  for (const [name, lose, lost, write] of losses) {
    it(`finds ${name}; the next sync repairs it with one write`, async () => {
      lose();
      assert.deepEqual(await bench.reconciler.checkRules(), [lost]);
      assert.deepEqual(await bench.writes(), [`iptables apply ${write}`]);
      assert.deepEqual(await bench.reconciler.checkRules(), []);
    });
  }

  it("finds a flushed table; the next sync writes it again, and no other", async () => {
    const before = iptablesText(kernel, "IPv4");
    kernel.iptables.table("IPv4", "nat").flush();
    const lost = await bench.reconciler.checkRules();
    assert.ok(lost.includes("IPv4 nat KUBE-SERVICES") && lost.includes("IPv4 nat OUTPUT"));
    const [write, ...others] = await bench.writes();
    assert.match(write ?? "", /^iptables apply IPv4: write-chain nat KUBE-SERVICES, /);
    assert.doesNotMatch(write ?? "", / filter /);
    assert.deepEqual(others, []);
    assert.equal(iptablesText(kernel, "IPv4"), before);
  });

  it("finds the sets that went with them, so that the next sync makes those first", async () => {
    kernel.iptables.table("IPv4", "filter").flush();
    kernel.ipSets.lose(setFor("externalIpLocal", "IPv4").name);
    const lost = await bench.reconciler.checkRules();
    assert.equal(lost.at(-1), "KUBE-EXTERNAL-IP-LOCAL");
    const report = await bench.sync();
    assert.deepEqual(report.failures, []);
    assert.equal(report.changes.get("set-create"), 1);
  });

  it("leaves the place of others above our jumps to them", async () => {
    const jumps = kernel.iptables.peek("IPv4").find(({ name }) => name === "INPUT")?.rules ?? [];
    const input = kernel.iptables.table("IPv4", "filter");
    input.remove("INPUT", /KUBE/);
    input.append("INPUT", "-j DROP");
    for (const { text } of jumps) input.append("INPUT", text);
    assert.deepEqual(await bench.reconciler.checkRules(), []);
    assert.deepEqual(await bench.writes(true), []);
  });
});

it("a restore that fails looks at the rules at once and writes what is missing", async () => {
  kernel.iptables.table("IPv4", "filter").flush();
  kernel.operations.failWhere(
    ({ facility, isRead }) => facility === "iptables" && !isRead,
    errno.EPERM,
    1,
  );
  // The first entry of KUBE-EXTERNAL-IP changes chains in nat: known as they were before the flush.
  bench.put(serviceRecord({ externalIps: [endpointRecord("203.0.113.9").address] }), [
    endpointRecord("10.244.2.11"),
  ]);
  assert.deepEqual((await bench.sync()).failures, []);
  const want = new Bench();
  want.put(serviceRecord({ externalIps: [endpointRecord("203.0.113.9").address] }), [
    endpointRecord("10.244.2.11"),
  ]);
  await want.sync();
  assert.equal(iptablesText(kernel, "IPv4"), iptablesText(want.kernel, "IPv4"));
});
