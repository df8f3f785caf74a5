/**
 * Tests that a resource that loses a `lifetime` dependency is withdrawn, and is restored together with the dependency.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { toServiceName } from "../../../src/base/service-name.ts";
import { foldDone } from "../../../src/reconcile/kinds/kinds.ts";
import { CachedRules } from "../../../src/reconcile/observed/cached-rules.ts";
import { CachedState } from "../../../src/reconcile/observed/cached-state.ts";
import type { Jump } from "../../../src/state/rule.ts";
import type { Operation } from "../../support/fake-kernel/operations.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { cidr, endpointRecord, ip, serviceRecord } from "../../support/records.ts";

const open = serviceRecord({ type: "LoadBalancer", loadBalancerIps: [ip("203.0.113.10")] });
const closed = { ...open, sourceRanges: [cidr("198.51.100.0/24")] };
const other = serviceRecord({ name: "default/other", clusterIps: [ip("10.96.0.11")] });
const endpoints = [endpointRecord("10.244.2.11")];
const server = "-A -t 203.0.113.10:80";
const noMemory = 12;

let bench: Bench;

beforeEach(async () => {
  bench = new Bench();
  bench.put(other, endpoints);
  bench.put(open, endpoints);
  await bench.sync();
});

function isAddOf(setName: string): (operation: Operation) => boolean {
  return ({ action, subject }) => action === "entry-add" && subject.startsWith(`${setName} `);
}

function isServed(): boolean {
  return bench.state().includes(server);
}

describe("a Service whose source ranges the kernel rejects", () => {
  beforeEach(() => bench.put(closed, endpoints));

  it("is the only one withdrawn in the same sync, and is served when the kernel accepts them", async () => {
    const { operations } = bench.kernel;
    const heal = operations.failWhere(isAddOf("KUBE-LOAD-BALANCER-FW"), noMemory);
    const writes = await bench.writes();
    assert.deepEqual(
      writes.filter((text) => text.includes("remove")),
      [
        "link address-remove 203.0.113.10",
        "ipset entry-remove KUBE-LOAD-BALANCER 203.0.113.10,tcp:80",
        "ipvs virtual-server-remove TCP 203.0.113.10:80",
      ],
    );
    assert.ok(bench.state().includes("-A -t 10.96.0.10:80"));
    assert.deepEqual(await bench.writes(), [], "it waits for the next attempt");
    heal();
    await bench.clock.advance(1_000);
    await bench.sync();
    const fresh = new Bench();
    fresh.put(other, endpoints);
    fresh.put(closed, endpoints);
    await fresh.sync();
    assert.equal(bench.state(), fresh.state());
    assert.equal(bench.reconciler.nextRetryMs, undefined);
  });

  it("is not withdrawn if the second attempt succeeds", async () => {
    bench.kernel.operations.failWhere(isAddOf("KUBE-LOAD-BALANCER-FW"), noMemory, 1);
    const writes = await bench.writes();
    assert.ok(!writes.some((text) => text.includes("remove")), writes.join("\n"));
    assert.deepEqual(await bench.writes(true), []);
  });

  it("is not withdrawn after an unknown result", async () => {
    bench.kernel.operations.loseRequestWhere(isAddOf("KUBE-LOAD-BALANCER-FW"));
    const { failures } = await bench.sync();
    assert.equal(failures.length, 1);
    assert.ok(isServed());
  });
});

it("a Service whose source ranges the kernel rejects gets no endpoints at the address of an open one", async () => {
  const taker = { ...closed, name: toServiceName("default/taker"), clusterIps: [ip("10.96.0.12")] };
  const { operations } = bench.kernel;
  const isLimit = isAddOf("KUBE-LOAD-BALANCER-FW");
  bench.drop(open.name);
  bench.put(taker, [endpointRecord("10.244.2.12")]);
  operations.loseRequestWhere(isLimit);
  const heal = operations.failWhere(isLimit, noMemory);
  for (let time = 0; time < 2; time += 1) {
    const writes = await bench.writes();
    assert.doesNotMatch(writes.join(), /203\.0\.113\.10:80 -> 10\.244\.2\.12/);
  }
  heal();
  await bench.clock.advance(2_000);
  await bench.sync();
  assert.match(bench.state(), /-a -t 203\.0\.113\.10:80 -r 10\.244\.2\.12:8080/);
});

describe("a Service with source ranges", () => {
  beforeEach(async () => {
    bench.put(closed, endpoints);
    await bench.sync();
  });

  it("stays while a lost rule of its firewall is repaired", async () => {
    bench.kernel.iptables.table("IPv4", "filter").remove("KUBE-SOURCE-RANGES-FIREWALL", /DROP/);
    assert.deepEqual(await bench.writes(true), [
      "iptables apply IPv4: chain-write filter KUBE-SOURCE-RANGES-FIREWALL",
    ]);
  });

  it("is withdrawn while third parties keep removing its firewall, which is repaired every second", async () => {
    const { iptables } = bench.kernel;
    for (let second = 1; second <= 600; second += 1) {
      iptables.table("IPv4", "filter").flush();
      await bench.clock.advance(1_000);
      await bench.checkRules();
      await bench.sync();
      const rules = iptables.peek("IPv4").find(({ name }) => name === "KUBE-PROXY-FIREWALL");
      assert.equal(rules?.rules.length, 1, `second ${second}: the firewall is repaired`);
      assert.equal(isServed(), second < 5, `second ${second}`);
      assert.ok(bench.state().includes("-A -t 10.96.0.11:80"), "other Services stay");
    }
    await bench.clock.advance(60_000);
    await bench.sync();
    assert.ok(isServed());
  });

  it("loses its rules and entries after its virtual server", async () => {
    bench.drop(closed.name);
    const writes = await bench.writes();
    const at = (part: string): number => writes.findIndex((text) => text.includes(part));
    const order = [
      at("address-remove 203.0.113.10"),
      at("virtual-server-remove TCP 203.0.113.10"),
      at("entry-remove KUBE-LOAD-BALANCER 203"),
      at("entry-remove KUBE-LOAD-BALANCER-FW"),
      at("entry-remove KUBE-LOAD-BALANCER-SOURCE-CIDR"),
      writes.findLastIndex((text) => text.includes("KUBE-PROXY-FIREWALL")),
    ];
    assert.ok(!order.includes(-1), writes.join("\n"));
    assert.deepEqual(
      order,
      order.toSorted((one, two) => one - two),
      writes.join("\n"),
    );
  });
});

it("an address is withdrawn if its guard cannot be restored", async () => {
  bench.kernel.ipSets.flush("KUBE-IPVS-IPS");
  const isGuard = (operation: Operation): boolean =>
    isAddOf("KUBE-IPVS-IPS")(operation) && operation.subject.endsWith(" 203.0.113.10");
  bench.kernel.operations.failWhere(isGuard, noMemory);
  await bench.sync(true);
  assert.deepEqual(bench.kernel.link.peek(), ["10.96.0.11", "10.96.0.10"]);
  assert.ok(isServed(), "its virtual server is unreachable and remains");
});

describe("an address whose guard third parties remove twice in a second", () => {
  const guards: readonly (readonly [name: string, remove: () => void, find: () => unknown])[] = [
    [
      "entry",
      () => bench.kernel.ipSets.flush("KUBE-IPVS-IPS"),
      () => bench.state().includes("add KUBE-IPVS-IPS 10.96.0.10"),
    ],
    [
      "chain and jump",
      () => bench.kernel.iptables.table("IPv4", "filter").flush(),
      () =>
        bench.kernel.iptables.peek("IPv4").find(({ name }) => name === "KUBE-IPVS-FILTER")?.rules
          .length,
    ],
  ];
  for (const [name, remove, find] of guards) {
    it(`stays while the repair of the ${name} waits for the second to pass`, async () => {
      const removeAndRepair = async (): Promise<readonly string[]> => {
        remove();
        await bench.checkRules();
        return bench.writes(true);
      };
      const found = find();
      assert.ok(found);
      await removeAndRepair();
      assert.equal(find(), found);
      await bench.clock.advance(500);
      const writes = await removeAndRepair();
      assert.notEqual(find(), found, "the second repair waits");
      assert.ok(!writes.some((text) => text.includes("remove")), writes.join("\n"));
      await bench.clock.advance(500);
      await bench.sync();
      assert.equal(find(), found);
    });
  }
});

it("the removal of a jump that is not cached removes no other", () => {
  const jump: Jump = {
    table: "filter",
    from: "INPUT",
    rule: { matches: [], target: { kind: "jump", chain: "KUBE-GONE" } },
  };
  const cached = new CachedState();
  const { iptables } = bench.kernel;
  const rules = new CachedRules((rule) => iptables.render("IPv4", rule));
  const present = { ...jump.rule, target: { kind: "jump", chain: "KUBE-A" } } as const;
  const insertion = { kind: "jump-insert", family: "IPv4", reason: "missing" } as const;
  rules.note({ ...insertion, jump: { ...jump, rule: present } });
  cached.rules.set("IPv4", rules);
  foldDone([{ kind: "jump-remove", family: "IPv4", jump, reason: "differs" }], {
    cached,
    desired: bench.desired,
  });
  assert.deepEqual(cached.rules.get("IPv4")?.jumps.get("filter INPUT"), ["-j KUBE-A"]);
});

it("jumps that are sent one by one end up in their order", async () => {
  const { iptables, operations } = bench.kernel;
  const jumpsFrom = (): readonly string[] =>
    iptables
      .peek("IPv4")
      .filter(({ table, name }) => table === "filter" && name === "INPUT")
      .flatMap(({ rules }) => rules.map(({ text }) => text));
  const wanted = jumpsFrom();
  const input = iptables.table("IPv4", "filter");
  input.remove("INPUT", /KUBE/);
  for (const text of wanted.toReversed()) input.append("INPUT", text);
  const error = Object.assign(new Error("iptables-restore: rejected"), { exitCode: 2 });
  operations.failWhere(({ action }) => action === "apply", error, 1);
  await bench.sync(true);
  assert.deepEqual(jumpsFrom(), wanted);
});
