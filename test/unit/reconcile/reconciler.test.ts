import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import type { Change } from "../../../src/reconcile/change.ts";
import type { SyncReport } from "../../../src/reconcile/report.ts";
import type { VirtualServer } from "../../../src/state/virtual-server.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import type { Operation } from "../../support/fake-kernel/operations.ts";
import { addressesText, ipSetText, ipvsText } from "../../support/fake-kernel/state-text.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import {
  cidr,
  endpointRecord,
  ip,
  localEndpoint,
  portRecord,
  serviceRecord,
} from "../../support/records.ts";

const a = serviceRecord();
const here = localEndpoint("10.244.1.10");
const there = endpointRecord("10.244.2.11");
const foreign: VirtualServer = {
  protocol: "TCP",
  address: ip("10.50.0.1"),
  port: 80,
  scheduler: "wlc",
  persistenceTimeoutSeconds: 0,
  persistencePrefixLength: 32,
  flags: 0,
};

function kindsOf({ rejected }: Pick<SyncReport, "rejected">): readonly string[] {
  return rejected.map(({ change }) => change.kind);
}

describe("Reconciler", () => {
  let bench: Bench;

  beforeEach(() => {
    bench = new Bench();
  });

  it("creates link, sets, entries and rules before the first virtual server, and its address after it", async () => {
    bench.put(a, [here, there]);
    const writes = await bench.writes();
    const at = (part: string): number => writes.findIndex((text) => text.includes(part));
    const order = [
      at("create-link"),
      at("KUBE-LOOP-BACK"),
      at("KUBE-CLUSTER-IP 10.96.0.10"),
      writes.findIndex((text) => text.startsWith("iptables")),
      at("virtual-server-create"),
      at("real-server-create"),
      writes.findIndex((text) => text.startsWith("link") && text.includes("10.96.0.10")),
    ];
    assert.ok(
      order.every((position) => position >= 0),
      writes.join("\n"),
    );
    assert.deepEqual(
      order,
      order.toSorted((left, right) => left - right),
      writes.join("\n"),
    );
  });

  it("writes nothing after it reads everything again", async () => {
    bench.put(a, [here]);
    await bench.sync();
    assert.deepEqual(await bench.writes(true), []);
  });

  it("writes nothing at startup if the kernel state is already correct", async () => {
    bench.put(a, [here]);
    await bench.sync();
    const restarted = new Bench(bench.kernel);
    restarted.put(a, [here]);
    assert.deepEqual(await restarted.writes(), []);
  });

  it("writes one change for one new endpoint", async () => {
    bench.put(a, [there]);
    await bench.sync();
    bench.put(a, [there, endpointRecord("10.244.2.12")]);
    assert.deepEqual(await bench.writes(), [
      "ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.2.12:8080",
    ]);
  });

  it("knows its own writes: neither verification nor reading everything finds a difference", async () => {
    const many = serviceRecord({
      name: "default/b",
      clusterIps: [ip("10.96.0.11"), ip("fd00:96::11")],
      externalIps: [ip("203.0.113.5"), ip("203.0.113.6")],
      type: "NodePort",
      ports: [portRecord({ nodePort: 30_080 }), portRecord({ name: "admin", port: 8080 })],
    });
    const steps: readonly (() => void)[] = [
      () => bench.put(many, [here, there]),
      () => bench.put(a, [there]),
      () => bench.put(many, [there, endpointRecord("10.244.2.12"), endpointRecord("10.244.2.13")]),
      () => bench.put({ ...many, externalIps: [], ports: many.ports.slice(0, 1) }, [here]),
      () => bench.put({ ...many, affinitySeconds: 60 }, [here, there]),
      () => bench.drop(many.name),
    ];
    for (const [index, step] of steps.entries()) {
      step();
      await bench.sync();
      const differs = [await bench.verify(), await bench.checkRules(), bench.reconciler.needsSync];
      assert.deepEqual(differs, [false, false, false], `step ${index}`);
      bench.kernel.operations.clear();
      assert.deepEqual((await bench.sync(true)).drifts, [], `step ${index}`);
      assert.deepEqual(bench.kernel.operations.texts(), [], `step ${index}`);
    }
  });

  it("writes only sysctls that differ", async () => {
    bench.sysctls = [
      { path: "net/ipv4/ip_forward", value: "1" },
      { path: "net/ipv4/vs/conn_reuse_mode", value: "1" },
    ];
    const written = (await bench.writes()).filter((text) => text.startsWith("sysctl"));
    assert.deepEqual(written, ["sysctl write net/ipv4/ip_forward=1"]);
    assert.deepEqual(await bench.writes(true), []);
  });

  it("sets the weight to 0, then deletes the idle real server", async () => {
    bench.put(a, [there, endpointRecord("10.244.2.12")]);
    await bench.sync();
    bench.put(a, [there]);
    assert.deepEqual(await bench.writes(), [
      "ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.2.12:8080",
      "ipvs real-server-remove TCP 10.96.0.10:80 -> 10.244.2.12:8080",
    ]);
    assert.equal(bench.reconciler.drainer.count, 0);
  });

  it("adds new real servers before it removes old ones", async () => {
    bench.put(a, [there]);
    await bench.sync();
    bench.put(a, [endpointRecord("10.244.2.12")]);
    assert.deepEqual(await bench.writes(), [
      "ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.2.12:8080",
      "ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.2.11:8080",
      "ipvs real-server-remove TCP 10.96.0.10:80 -> 10.244.2.11:8080",
    ]);
  });

  it("removes a Service's address, then its virtual server, then its entries", async () => {
    bench.put(a, [there]);
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }));
    await bench.sync();
    bench.drop("default/a");
    assert.deepEqual(await bench.writes(), [
      "link address-remove 10.96.0.10",
      "ipvs virtual-server-remove TCP 10.96.0.10:80",
      "ipset entry-remove KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
      "ipset entry-remove KUBE-IPVS-IPS 10.96.0.10",
    ]);
  });

  it("continues after a rejected change, reports it once, and retries only that change when it is due", async () => {
    bench.put(a, [there]);
    await bench.sync();
    bench.kernel.operations.failWhere(
      ({ action, subject }) =>
        action === "real-server-create" && subject.includes("10.244.2.255:8080"),
      errno.EINVAL,
      2,
    );
    const broken = serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] });
    bench.put(broken, [there, endpointRecord("10.244.2.255")]);
    const report = await bench.sync();
    assert.deepEqual(report.failures, []);
    assert.deepEqual(kindsOf(report), ["real-server-create"]);
    const [refusal, ...others] = report.rejections;
    assert.deepEqual(others, []);
    assert.deepEqual(
      [refusal?.subject, refusal?.reason, refusal?.services, refusal?.dueMs],
      [
        {
          type: "real-server",
          virtualServer: "TCP 10.96.0.11:80",
          realServer: "10.244.2.255:8080",
        },
        "EINVAL",
        ["default/b"],
        bench.clock.monotonicMs() + 1_000,
      ],
    );
    assert.match(ipvsText(bench.kernel), /10\.96\.0\.11:80 -r 10\.244\.2\.11:8080/);
    assert.equal(bench.reconciler.needsObservation, false);
    const refused = "ipvs real-server-create TCP 10.96.0.11:80 -> 10.244.2.255:8080";
    assert.deepEqual(await bench.writes(), [], "it waits");
    bench.put(a, [there, endpointRecord("10.244.2.12")]);
    assert.deepEqual(
      await bench.writes(),
      ["ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.2.12:8080"],
      "others do not wait for it",
    );
    await bench.clock.advance(1_000);
    assert.deepEqual(await bench.writes(), [refused]);
    await bench.clock.advance(1_999);
    assert.deepEqual(await bench.writes(), []);
    await bench.clock.advance(1);
    bench.kernel.operations.clear();
    const last = await bench.sync();
    assert.deepEqual(bench.kernel.operations.texts(), [refused]);
    assert.deepEqual(last.rejections, []);
    assert.equal(bench.reconciler.nextRetryMs, undefined);
  });

  it("retries a rejected change immediately if its object changes", async () => {
    bench.kernel.operations.failWhere(
      ({ subject }) => subject.includes("10.244.2.255:8080"),
      errno.EINVAL,
      1,
    );
    bench.put(a, [there, endpointRecord("10.244.2.255")]);
    await bench.sync();
    bench.put(a, [here, there, endpointRecord("10.244.2.255")]);
    const writes = await bench.writes();
    assert.ok(writes.includes("ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.2.255:8080"));
    assert.equal(bench.reconciler.nextRetryMs, undefined);
  });

  it("retries a rejected entry immediately if another Service needs it, but not for other changes", async () => {
    const writesEntry = ({ subject }: Operation): boolean =>
      subject === "KUBE-CLUSTER-IP 10.96.0.10,tcp:80";
    bench.kernel.operations.failWhere(writesEntry, errno.EINVAL, 1);
    bench.put(a, [there]);
    await bench.sync();
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    const added = "ipset entry-add KUBE-CLUSTER-IP 10.96.0.10,tcp:80";
    assert.ok(!(await bench.writes()).includes(added));
    bench.drop("default/a");
    bench.put({ ...a, name: "default/c" }, [there]);
    assert.ok((await bench.writes()).includes(added));
    assert.equal(bench.reconciler.nextRetryMs, undefined);
  });

  describe("an address", () => {
    const twoPorts = serviceRecord({
      ports: [portRecord(), portRecord({ name: "admin", port: 8080 })],
    });
    const refuse = (part: string): (() => void) =>
      bench.kernel.operations.failWhere(
        ({ action, subject }) => action === "virtual-server-create" && subject.includes(part),
        errno.EINVAL,
      );
    const bind = "link address-add 10.96.0.10";
    const release = "link address-remove 10.96.0.10";
    const takeServers = (...ports: readonly number[]): Promise<unknown> =>
      bench.kernel.ipvs.apply(
        ports.map((port) => ({
          kind: "virtual-server-remove",
          before: { protocol: "TCP", address: ip("10.96.0.10"), port },
        })),
      );

    it("is not bound while its only virtual server is rejected, and is bound with it", async () => {
      const heal = refuse("10.96.0.10:80");
      bench.put(a, [there]);
      assert.ok(!(await bench.writes()).includes(bind));
      bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
      assert.ok(!(await bench.writes()).includes(bind));
      assert.ok(!(await bench.writes(true)).includes(bind));
      heal();
      await bench.clock.advance(300_000);
      assert.equal((await bench.writes()).at(-1), bind);
      assert.deepEqual(await bench.writes(true), []);
    });

    it("is bound if a change of an endpoint creates its rejected virtual server", async () => {
      const heal = refuse("10.96.0.10:80");
      bench.put(a, [there]);
      await bench.sync();
      // A sync that compares only the address clears its withheld status.
      bench.reconciler.noteBound([]);
      await bench.sync();
      heal();
      bench.put(a, [there, here]);
      assert.equal((await bench.writes()).at(-1), bind);
    });

    it("is bound if one of two virtual servers is rejected", async () => {
      refuse("10.96.0.10:8080");
      bench.put(twoPorts, [there]);
      assert.ok((await bench.writes()).includes(bind));
      assert.deepEqual(await bench.writes(true), []);
    });

    it("is not bound if the entry that marks its virtual server is rejected", async () => {
      bench.kernel.operations.failWhere(
        ({ subject }) => subject === "KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
        errno.EINVAL,
      );
      bench.put(a, [there]);
      assert.ok(!(await bench.writes()).includes(bind));
    });

    it("is not bound if its guard in KUBE-IPVS-IPS is rejected", async () => {
      const isGuard = ({ subject }: Operation): boolean => subject === "KUBE-IPVS-IPS 10.96.0.10";
      const heal = bench.kernel.operations.failWhere(isGuard, errno.EINVAL);
      bench.put(a, [there]);
      assert.ok(!(await bench.writes()).includes(bind));
      assert.match(ipvsText(bench.kernel), /10\.96\.0\.10:80 -r 10\.244\.2\.11/);
      heal();
      await bench.clock.advance(1_000);
      assert.deepEqual(await bench.writes(), ["ipset entry-add KUBE-IPVS-IPS 10.96.0.10", bind]);
    });

    it("of a load balancer with source ranges is guarded only when its port is admitted", async () => {
      const sourceRanges = [cidr("198.51.100.0/24")];
      const loadBalancerIps = [ip("203.0.113.10")];
      bench.put({ ...a, type: "LoadBalancer", loadBalancerIps, sourceRanges }, [there]);
      const writes = await bench.writes();
      const at = (write: string): number => writes.indexOf(`ipset entry-add ${write}`);
      const port = at("KUBE-LOAD-BALANCER 203.0.113.10,tcp:80");
      const guard = at("KUBE-IPVS-IPS 203.0.113.10");
      assert.ok(port >= 0 && port < guard, writes.join("\n"));
      assert.ok(at("KUBE-IPVS-IPS 10.96.0.10") < port);
      assert.ok(guard < writes.indexOf(bind.replace("10.96.0.10", "203.0.113.10")));
    });

    it("is not bound by a recreated link while its virtual server is pending", async () => {
      refuse("10.96.0.10:80");
      bench.put(a, [there]);
      bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
      await bench.sync();
      await bench.kernel.link.remove();
      bench.reconciler.noteBound(undefined);
      const writes = await bench.writes();
      assert.ok(writes.includes("link address-add 10.96.0.11"), writes.join("\n"));
      assert.ok(!writes.includes(bind), writes.join("\n"));
    });

    it("is removed with the last virtual server that cannot be recreated, and not before", async () => {
      bench.put(twoPorts, [there]);
      await bench.sync();
      const heal = refuse("10.96.0.10:");
      await takeServers(80);
      await bench.verify();
      const one = await bench.writes();
      assert.ok(!one.includes(release), one.join("\n"));
      await takeServers(8080);
      await bench.verify();
      assert.equal((await bench.writes()).at(-1), release);
      assert.equal(bench.reconciler.needsSync, false);
      assert.deepEqual(await bench.writes(true), []);
      heal();
      await bench.clock.advance(300_000);
      const last = await bench.sync();
      assert.deepEqual(last.rejections, []);
      assert.match(addressesText(bench.kernel), /10\.96\.0\.10/);
    });

    it("is pending, not rejected, while the link is rejected", async () => {
      bench.kernel.operations.failWhere(({ action }) => action === "create-link", errno.EINVAL, 1);
      bench.put(a, [there]);
      const { rejections } = await bench.sync();
      assert.deepEqual(
        rejections.map(({ kind }) => kind),
        ["link-create"],
      );
      await bench.clock.advance(1_000);
      assert.deepEqual(await bench.writes(), ["link create-link kube-ipvs0", bind]);
    });

    it("that a start finds without a virtual server is removed", async () => {
      bench.put(a, [there]);
      await bench.sync();
      await takeServers(80);
      const restarted = new Bench(bench.kernel);
      restarted.put(a, [there]);
      refuse("10.96.0.10:80");
      assert.equal((await restarted.writes()).at(-1), release);
    });
  });

  it("forgets a rejected change when no Service needs it", async () => {
    bench.kernel.operations.failWhere(
      ({ subject }) => subject.includes("10.244.2.255:8080"),
      errno.EINVAL,
    );
    bench.put(a, [there, endpointRecord("10.244.2.255")]);
    await bench.sync();
    bench.put(a, [there]);
    assert.deepEqual((await bench.sync()).rejections, []);
    assert.equal(bench.reconciler.nextRetryMs, undefined);
  });

  it("fails if every change is rejected because of missing permission", async () => {
    bench.put(a, [there]);
    await bench.sync();
    const isIpvsChange = ({ facility, isRead }: Operation): boolean =>
      facility === "ipvs" && isRead !== true;
    const heal = bench.kernel.operations.failWhere(isIpvsChange, errno.EPERM);
    bench.put(a, [there, here]);
    const report = await bench.sync();
    assert.deepEqual(
      report.failures.map(({ kind }) => kind),
      ["real-server-create"],
    );
    assert.deepEqual(report.rejections, []);
    assert.equal(bench.reconciler.needsObservation, true);
    heal();
    assert.deepEqual((await bench.sync()).failures, []);
    assert.match(ipvsText(bench.kernel), /10\.96\.0\.10:80 -r 10\.244\.1\.10:8080/);
  });

  for (const code of ["ENOBUFS", "ETIMEDOUT", "EBADF"]) {
    it(`fails and observes again if the result of a request is unknown: ${code}`, async () => {
      const error = Object.assign(new Error("No reply"), { code, errno: errno[code as "EBADF"] });
      const isLink = ({ action }: Operation): boolean => action === "create-link";
      bench.kernel.operations.failWhere(isLink, error, 1);
      bench.put(a, [there]);
      const { failures, rejections } = await bench.sync();
      assert.deepEqual([failures.map(({ kind }) => kind), rejections], [["link-create"], []]);
      assert.equal(bench.reconciler.needsObservation, true);
      assert.deepEqual((await bench.sync()).failures, []);
      assert.match(addressesText(bench.kernel), /10\.96\.0\.10/);
    });
  }

  it("treats only its first sync as a first sync, regardless of failed requests", async () => {
    const udp = serviceRecord({ ports: [portRecord({ protocol: "UDP" })] });
    bench.put(udp, [there]);
    const isDeletion = ({ kind }: Change): boolean => kind === "conntrack-delete";
    assert.ok((await bench.sync()).plan.changes.some(isDeletion));
    bench.kernel.operations.loseReplyWhere(({ action }) => action === "virtual-server-create");
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    assert.equal((await bench.sync()).failures.length, 1);
    const { plan, failures } = await bench.sync();
    assert.deepEqual([failures, plan.changes.filter(isDeletion)], [[], []]);
  });

  const contradictions: readonly [name: string, code: number][] = [
    ["EEXIST", errno.EEXIST],
    ["ENOENT", errno.ENOENT],
    ["ESRCH", errno.ESRCH],
    ["ENODEV", errno.ENODEV],
  ];
  for (const [name, code] of contradictions) {
    it(`observes the object and retries immediately, without a log line, after ${name}`, async () => {
      bench.put(a, [there]);
      await bench.sync();
      bench.kernel.operations.failWhere(({ action }) => action === "real-server-create", code, 1);
      bench.put(a, [there, here]);
      const report = await bench.sync();
      assert.deepEqual([report.failures, report.rejections], [[], []]);
      assert.equal(bench.reconciler.needsObservation, false);
      assert.equal(bench.reconciler.nextRetryMs, bench.clock.monotonicMs());
      assert.deepEqual(await bench.writes(), [
        "ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.1.10:8080",
      ]);
      assert.equal(bench.reconciler.nextRetryMs, undefined);
    });

    it(`reports the object if ${name} persists`, async () => {
      bench.kernel.operations.failWhere(({ action }) => action === "real-server-create", code);
      bench.put(a, [there]);
      assert.deepEqual((await bench.sync()).rejections, []);
      const { rejections, failures } = await bench.sync();
      assert.deepEqual(failures, []);
      assert.deepEqual(
        rejections.map(({ reason, attempts }) => [reason, attempts]),
        [[name, 2]],
      );
    });
  }

  it("finds and restores an object that a third party removed if a rejection contradicts the cache", async () => {
    bench.put(a, [there]);
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    await bench.sync();
    await bench.kernel.ipvs.apply([
      {
        kind: "virtual-server-remove",
        before: { protocol: "TCP", address: ip("10.96.0.10"), port: 80 },
      },
    ]);
    bench.put(a, [there, here]);
    assert.deepEqual((await bench.sync()).failures, []);
    const report = await bench.sync();
    assert.deepEqual([report.failures, report.rejections], [[], []]);
    assert.match(ipvsText(bench.kernel), /10\.96\.0\.10:80 -r 10\.244\.1\.10:8080/);
    assert.match(ipvsText(bench.kernel), /10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/);
  });

  it("keeps the set entries of a virtual server that could not be removed", async () => {
    bench.put(a);
    await bench.sync();
    bench.kernel.operations.failWhere(
      ({ action }) => action === "virtual-server-remove",
      errno.EBUSY,
      1,
    );
    bench.drop(a.name);
    await bench.sync();
    assert.match(ipSetText(bench.kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
    await bench.sync();
    assert.match(ipSetText(bench.kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
    await bench.clock.advance(1_000);
    await bench.sync();
    assert.equal(ipvsText(bench.kernel).trim(), "");
    assert.doesNotMatch(ipSetText(bench.kernel), /add KUBE-CLUSTER-IP/);
  });

  it("checks again after a lost reply, and reaches the desired state", async () => {
    bench.put(a, [there]);
    bench.kernel.operations.loseReplyWhere(({ action }) => action === "virtual-server-create");
    const report = await bench.sync();
    assert.equal(report.failures.length, 1);
    const reads: string[] = [];
    const observing = bench.kernel.operations.failWhere(({ facility, isRead }) => {
      if (isRead === true) reads.push(facility);
      return false;
    }, errno.EPERM);
    assert.deepEqual((await bench.sync()).failures, []);
    observing();
    assert.deepEqual([...new Set(reads)], ["ipvs"], "of only that part");
    const fresh = new Bench();
    fresh.put(a, [there]);
    await fresh.sync();
    assert.equal(bench.state(), fresh.state());
  });

  it("writes nothing while the kernel cannot be read", async () => {
    bench.kernel.operations.failWhere(({ isRead }) => isRead === true, errno.EPERM);
    bench.put(a);
    const report = await bench.sync();
    assert.deepEqual(
      report.failures.map(({ kind }) => kind),
      ["observe"],
    );
    assert.deepEqual(bench.kernel.operations.texts(), []);
  });

  it("applies nothing in a dry run, and returns the same plan each time", async () => {
    const dry = new Bench(bench.kernel, { isDryRun: true });
    dry.put(a, [there]);
    for (let time = 0; time < 2; time += 1) {
      const { plan, changes, failures } = await dry.sync();
      assert.deepEqual([changes.size, failures, dry.kernel.operations.texts()], [0, [], []]);
      const kinds = plan.changes.map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "set-create").length, 34);
      assert.deepEqual(
        ["link-create", "virtual-server-create", "real-server-create", "address-add"].filter(
          (kind) => kinds.filter((one) => one === kind).length !== 1,
        ),
        [],
      );
      const create = plan.changes.find(({ kind }) => kind === "virtual-server-create");
      assert.ok(create !== undefined);
      assert.deepEqual(plan.servicesOf(create), ["default/a"]);
    }
  });

  it("plans nothing in a dry run if everything is correct", async () => {
    bench.put(a, [there]);
    await bench.sync();
    const dry = new Bench(bench.kernel, { isDryRun: true });
    dry.put(a, [there]);
    assert.deepEqual((await dry.sync()).plan.changes, []);
  });

  it("plans nothing in a dry run after another program made the changes", async () => {
    const dry = new Bench(bench.kernel, { isDryRun: true });
    for (const each of [dry, bench]) each.put(a, [there]);
    await dry.sync();
    await bench.sync();
    const { plan } = await dry.sync();
    assert.deepEqual([plan.changes, plan.conflicts], [[], []]);
  });

  it("keeps foreign virtual servers", async () => {
    await bench.kernel.ipvs.apply([{ kind: "virtual-server-create", after: foreign }]);
    bench.put(a);
    await bench.sync();
    assert.match(ipvsText(bench.kernel), /10\.50\.0\.1:80 -s wlc/);
  });

  it("removes foreign virtual servers if configured, except in excluded networks", async () => {
    for (const excludeCIDRs of [[], [cidr("10.50.0.0/16")]]) {
      const strict = new Bench(new FakeKernel(), {
        ownership: { foreignVirtualServers: "delete", excludeCIDRs },
      });
      await strict.kernel.ipvs.apply([{ kind: "virtual-server-create", after: foreign }]);
      await strict.sync();
      assert.equal(/10\.50\.0\.1/.test(ipvsText(strict.kernel)), excludeCIDRs.length > 0);
    }
  });

  it("does not treat an empty desired state as a clean-up: link, sets and rules stay", async () => {
    bench.put(a, [here]);
    await bench.sync();
    bench.drop(a.name);
    const { plan } = await bench.sync(true);
    const kinds = new Set(plan.changes.map(({ kind }) => kind));
    assert.ok(kinds.has("virtual-server-remove"));
    for (const kind of ["link-remove", "set-destroy", "chain-remove", "jump-remove"] as const) {
      assert.ok(!kinds.has(kind), kind);
    }
    // A restart without desired state does not remove it, either.
    const { plan: first } = await new Bench(bench.kernel).sync();
    assert.deepEqual(first.changes, []);
    assert.match(ipSetText(bench.kernel), /create KUBE-CLUSTER-IP/);
  });

  it("removes objects of an earlier run, which it recognizes by the sets", async () => {
    bench.put(a, [there]);
    bench.put(
      serviceRecord({
        name: "default/np",
        clusterIps: [ip("10.96.0.12")],
        type: "NodePort",
        ports: [portRecord({ nodePort: 30080 })],
      }),
    );
    await bench.sync();
    const restarted = new Bench(bench.kernel);
    await restarted.sync();
    assert.equal(ipvsText(bench.kernel).trim(), "");
    assert.doesNotMatch(ipSetText(bench.kernel), /^add/m);
    assert.equal(addressesText(bench.kernel).trim(), "");
  });

  it("reaches the same state after it was killed at any write and started again", async () => {
    const fresh = new Bench();
    fresh.put(a, [there, here]);
    await fresh.sync();
    const writeCount = fresh.kernel.operations.texts().length;
    assert.ok(writeCount > 10);
    for (let write = 1; write <= writeCount; write++) {
      const killed = new Bench();
      killed.kernel.operations.crashAt(write);
      killed.put(a, [there, here]);
      await killed.sync();
      killed.kernel.operations.revive();
      const restarted = new Bench(killed.kernel);
      restarted.put(a, [there, here]);
      assert.deepEqual((await restarted.sync()).failures, [], `killed at write ${write}`);
      assert.equal(restarted.state(), fresh.state(), `killed at write ${write}`);
    }
  });
});
