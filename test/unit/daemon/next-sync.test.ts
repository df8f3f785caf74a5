/** Tests `kube-ipvs plan`: the next sync of a running daemon, and the removal of leftovers. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { Answers, Status } from "../../../src/answer/answers.ts";
import { countChanges, type Plan, planView } from "../../../src/answer/plan.ts";
import { errno } from "../../../src/base/errno.ts";
import { silentLogger } from "../../../src/base/log.ts";
import type { Config } from "../../../src/config/config.ts";
import { planRemovals } from "../../../src/daemon/clean-up.ts";
import { leftoverRemovals, noEarlierRuns } from "../../../src/daemon/leftovers/remove-leftovers.ts";
import type { Mode } from "../../../src/daemon/leftovers/rules-of-modes.ts";
import { listText } from "../../../src/daemon/operator/list-text.ts";
import { answerTo } from "../../../src/daemon/operator/routes.ts";
import { planOf, type RunningDaemon } from "../../../src/daemon/print-plan.ts";
import { ApiContact } from "../../../src/daemon/report/api-contact.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../../src/daemon/start.ts";
import { withoutFlowChecks } from "../../../src/reconcile/change-plan.ts";
import type { SyncReport } from "../../../src/reconcile/report.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import type { Operation } from "../../support/fake-kernel/operations.ts";
import { FakeNode } from "../../support/fake-node.ts";
import { iptablesModeRules, putRules } from "../../support/iptables-mode.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { endpointSlice, node as nodeObject, service } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";
import { load } from "../config/loading.ts";

const endpoints = ["10.244.1.10", "10.244.1.20"];
const objects = [
  nodeObject(),
  service(),
  endpointSlice({ endpoints }),
] as readonly unknown[] as readonly NamedObject[];
const virtualServer = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const [first] = endpoints.map((address) => ({ address: ip(address), port: 8080 }));
const hour = 3_600_000;

describe("the plan of the next sync", () => {
  let node: FakeNode;

  beforeEach(async () => {
    node = new FakeNode({});
    node.source.apply(...objects);
    await node.start();
    await node.settle();
  });

  afterEach(() => node.stop());

  /** `ipvsadm -e -w WEIGHT`. */
  async function setWeight(weight: number): Promise<void> {
    const after = { ...(first ?? assert.fail()), weight, forwardingMethod: 0 };
    await node.kernel.ipvs.apply([{ kind: "real-server-update", virtualServer, after }]);
  }

  async function ask<T>(target: string): Promise<T> {
    const { clock } = node.view;
    const health = new ProxyHealth(new FakeClock(), 60_000);
    const apiContact = new ApiContact(clock, silentMetrics);
    const { config, view } = { config: node.config, view: node.view };
    const status = () => ({ clock, config, health, apiContact, startedAtMs: 0, view });
    const sources = { clock, status, configuration: () => ({}), view: () => view };
    const answer = await answerTo(target, sources);
    if (answer.kind === "object") return answer.object as T;
    const pieces: string[] = [];
    for await (const piece of listText(answer.listKind, answer.rows, clock)) pieces.push(piece);
    return JSON.parse(pieces.join("")) as T;
  }

  async function daemon(): Promise<RunningDaemon> {
    return {
      status: await ask<Status>("/v1/status?all=true"),
      rowsOf: async (name) => {
        const [namespace = "", own = ""] = name.split("/");
        const query = new URLSearchParams({ namespace, name: own, endpoints: "true" });
        return (await ask<Answers["ServiceList"]>(`/v1/services?${query}`)).items;
      },
    };
  }

  /** The plan of a first sync on this node. */
  async function firstSync(): Promise<SyncReport> {
    const source = new MemorySource();
    source.apply(...node.source.objects());
    const clock = new FakeClock();
    const report = Promise.withResolvers<SyncReport>();
    const observing = await startDaemon({
      ...{ config: { ...node.config, observeOnly: true }, kernel: node.kernel, source },
      ...{ metrics: silentMetrics, log: silentLogger, clock },
      health: new ProxyHealth(clock, 60_000),
      onReport: report.resolve,
    });
    await clock.advance(1_000);
    await observing.stop();
    return await report.promise;
  }

  async function plan(running?: RunningDaemon): Promise<Plan> {
    return await planOf(withoutFlowChecks((await firstSync()).plan), node.config, running);
  }

  for (const [title, waitMs] of [
    ["has not noticed yet", 0],
    ["has noticed", hour],
  ] as const) {
    it(`keeps a weight that a third party set and the daemon ${title}`, async () => {
      await setWeight(0);
      await node.wait(waitMs);
      const next = await plan(await daemon());
      assert.deepEqual([countChanges(next), next.changes], [0, []]);
      assert.deepEqual(
        [...planView.blocks(next, false)],
        [
          "No changes.",
          "",
          "Kept TCP 10.96.0.10:80 -> 10.244.1.10:8080: a third party set its weight",
        ],
      );
      assert.equal(countChanges(await plan()), 1, "a start sets the planned weight");
    });
  }

  it("contains a manual weight if the daemon repairs such weights", async () => {
    await node.reconfigure({ "kube-ipvs-manual-weights": "repair" });
    await node.settle();
    await setWeight(0);
    assert.equal(countChanges(await plan(await daemon())), 1);
  });

  it("contains drift that the daemon has not noticed yet", async () => {
    await node.kernel.ipvs.apply([
      { kind: "real-server-remove", virtualServer, before: first ?? assert.fail() },
    ]);
    assert.equal(countChanges(await plan(await daemon())), 1);
  });

  it("shows a rejected change as pending until its retry", async () => {
    const isThird = ({ subject }: Operation): boolean => subject.includes("10.244.1.30");
    node.kernel.operations.failWhere(isThird, errno.EINVAL);
    const more = endpointSlice({ endpoints: [...endpoints, "10.244.1.30"] });
    node.source.apply(more as unknown as NamedObject);
    await node.settle();
    const next = await plan(await daemon());
    assert.deepEqual(
      [countChanges(next), next.changes.map(({ text, deferred }) => [text.slice(0, 5), deferred])],
      [0, [["+ TCP", "refused"]]],
    );
  });

  it("shows a repair that backs off as pending until it is due", async () => {
    const before = first ?? assert.fail();
    for (let time = 0; time < 8; time += 1) {
      await node.kernel.ipvs.apply([{ kind: "real-server-remove", virtualServer, before }]);
      await node.wait(61_000);
    }
    const running = await daemon();
    const [repair = assert.fail()] = running.status.backingOffRepairs;
    const next = await plan(running);
    assert.ok(repair.retryInSeconds > 0, JSON.stringify(repair));
    assert.deepEqual(
      next.changes.map(({ deferred }) => deferred),
      ["reverted"],
    );
    const due = { ...running.status, backingOffRepairs: [{ ...repair, retryInSeconds: 0 }] };
    assert.equal(countChanges(await plan({ ...running, status: due })), 1);
  });

  describe("lists leftovers", () => {
    const planned = async (config: Config, earlier: readonly Mode[] = []): Promise<Plan> => {
      const runs = { ...noEarlierRuns, earlier: new Set(earlier) };
      const { kernel } = node;
      kernel.operations.clear();
      const left = await planRemovals(
        await leftoverRemovals(kernel, config, runs),
        new FakeClock(),
      );
      assert.deepEqual(kernel.operations.texts(), [], "nothing is written");
      return { apiVersion: "kube-ipvs/v1", kind: "Plan", conflicts: [], ...left };
    };
    const textOf = (plan: Plan): string => planView.blocks(plan, false).join("\n");

    it("of IPVS mode before a change of the mode", async () => {
      const { config } = load({ "proxy-mode": "iptables" });
      const text = textOf(await planned(config, ["ipvs"]));
      assert.match(text, /^Virtual servers: 1\n {2}- TCP 10\.96\.0\.10:80 {2}# unwanted\n/m);
      assert.match(text, /^Link: 1\n/m);
      assert.match(text, /^ {2}- IPv4 nat KUBE-LOAD-BALANCER {2}# unwanted$/m);
      assert.equal(countChanges(await planned(load({ "proxy-mode": "ipvs" }).config)), 0);
    });

    it("of kube-proxy's iptables mode, only with removeLeftovers", async () => {
      const { iptables } = node.kernel;
      putRules(iptables, iptablesModeRules);
      const leftovers = new Map([["IPv4", ["nat KUBE-SVC-ZNLZPHNJPSNFOWJC"]] as const]);
      iptables.choice = { ...iptables.choice, leftovers };
      assert.equal(countChanges(await planned(load({ "proxy-mode": "ipvs" }).config)), 0);
      const flags = { "proxy-mode": "ipvs", "kube-ipvs-remove-leftovers": "true" };
      const observing = { ...load(flags).config, observeOnly: true };
      assert.match(
        textOf(await planned(observing)),
        /^ {2}- IPv4 nat KUBE-SVC-ZNLZPHNJPSNFOWJC {2}# unwanted$/m,
      );
    });
  });
});
