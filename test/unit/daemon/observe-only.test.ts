/** Tests that `--kube-ipvs-observe-only` reports everything and writes nothing. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { loadConfig } from "../../../src/config/load-config.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { type Daemon, startDaemon } from "../../../src/daemon/start.ts";
import type { Kernel } from "../../../src/kernel/kernel.ts";
import {
  type PrometheusMetrics,
  prometheusMetrics,
} from "../../../src/metrics/prometheus-metrics.ts";
import { noRampStartTimes } from "../../../src/model/slow-starts.ts";
import { noHolderRecord } from "../../../src/plan/claims/holder-record.ts";
import { noOwnershipRecord } from "../../../src/reconcile/ownership/ownership.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { type ApiObject, endpointSlice, node, service } from "../../support/objects.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { ip } from "../../support/records.ts";

const objects: readonly ApiObject[] = [
  node(),
  service({ spec: { healthCheckNodePort: 30_999 } }),
  endpointSlice({ endpoints: ["10.244.2.11", "10.244.2.12"] }),
];
const server = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const taken = {
  ...server,
  scheduler: "wlc",
  persistenceTimeoutSeconds: 0,
  persistencePrefixLength: 32,
  flags: 0,
};

describe("observeOnly", () => {
  let kernel: FakeKernel;
  let clock: FakeClock;
  let log: RecordingLogger;
  let metrics: PrometheusMetrics;
  let source: MemorySource;
  let running: Daemon | undefined;
  let health: ProxyHealth;

  beforeEach(() => {
    kernel = new FakeKernel();
    clock = new FakeClock();
    log = new RecordingLogger();
    metrics = prometheusMetrics({ version: "0.0.0" });
    source = new MemorySource();
    source.apply(...(objects as readonly unknown[] as readonly NamedObject[]));
  });

  afterEach(async () => {
    await running?.stop();
    running = undefined;
  });

  /** The records that were written for the next run. */
  const recorded: string[] = [];

  async function start(...flags: readonly (readonly [string, string])[]): Promise<void> {
    const given = new Map(
      [["hostname-override", "node-1"] as const, ...flags].map(([name, value]) => [name, [value]]),
    );
    const { config } = loadConfig(given, { readFile: () => "", hostname: () => "other" });
    health = new ProxyHealth(clock, 60_000);
    running = await startDaemon({
      config,
      kernel: kernel as Kernel,
      source,
      metrics,
      health,
      clock,
      log,
      ownershipRecord: { ...noOwnershipRecord, keep: () => recorded.push("ownership") },
      holderRecord: { ...noHolderRecord, keepHolders: () => recorded.push("holders") },
      rampStartTimes: { ...noRampStartTimes, keep: () => recorded.push("ramps") },
    });
    await settle();
  }

  async function settle(): Promise<void> {
    await clock.advance(31_000);
    await running?.settled();
  }

  const observing = ["kube-ipvs-observe-only", "true"] as const;

  async function figures(name: string): Promise<readonly string[]> {
    const text = await metrics.exposition();
    return text.split("\n").filter((line) => line.startsWith(`${name}{`));
  }

  it("is ready after its first plan, which its rollout waits for", async () => {
    await start(observing);
    assert.equal(health.notReadyReason, undefined);
  });

  it("reports by kind what would be changed on an empty node, and changes nothing", async () => {
    await start(observing);
    assert.deepEqual(kernel.operations.texts(), []);
    const pending = await figures("kube_ipvs_pending_changes");
    for (const line of [
      'kube_ipvs_pending_changes{kind="link-create"} 1',
      'kube_ipvs_pending_changes{kind="set-create"} 34',
      'kube_ipvs_pending_changes{kind="virtual-server-create"} 1',
      'kube_ipvs_pending_changes{kind="real-server-create"} 2',
      'kube_ipvs_pending_changes{kind="address-add"} 1',
      'kube_ipvs_pending_changes{kind="sysctl-write"} 4',
    ]) {
      assert.ok(pending.includes(line), pending.join("\n"));
    }
    assert.deepEqual(await figures("kube_ipvs_kernel_changes_total"), []);
    const told = log.lines.filter(({ event }) => event.startsWith("Observing only"));
    assert.equal(told.length, 1, "once, not with each sync");
    const lines = log.lines.filter(({ event }) => event === "Would change");
    assert.deepEqual(
      lines
        .filter(({ keys }) => String(keys["change"]).includes("10.244.2.11"))
        .map((one) => one.keys),
      [
        {
          change: "+ TCP 10.96.0.10:80 -> 10.244.2.11:8080 (weight 1)",
          reason: "missing",
          services: ["default/web"],
        },
      ],
    );
  });

  it("reports no changes if the kernel state is correct", async () => {
    await start();
    await running?.stop();
    kernel.operations.clear();
    await start(observing);
    assert.deepEqual(kernel.operations.texts(), []);
    assert.deepEqual(await figures("kube_ipvs_pending_changes"), []);
  });

  it("plans the same as a starting daemon if a Service requests a scheduler that the kernel lacks", async () => {
    const annotations = { "kube-ipvs.io/scheduler": "twos" };
    source.apply(service({ metadata: { annotations } }) as unknown as NamedObject);
    await start();
    await running?.stop();
    assert.equal(kernel.ipvs.peek()[0]?.virtualServer.scheduler, "rr");
    await start(observing);
    assert.deepEqual(await figures("kube_ipvs_pending_changes"), []);
  });

  it("does not start with a default scheduler that the kernel lacks", async () => {
    await assert.rejects(start(observing, ["ipvs-scheduler", "twos"]), /no module ip_vs_twos/);
  });

  it("reports each third-party change once, with the change that would repair it", async () => {
    await start();
    await running?.stop();
    await start(observing);
    await kernel.ipvs.apply([{ kind: "virtual-server-remove", before: server }]);
    kernel.operations.clear();
    await settle();
    await settle();
    assert.deepEqual(kernel.operations.texts(), []);
    assert.deepEqual(await figures("kube_ipvs_drift_total"), [
      'kube_ipvs_drift_total{kind="virtual-server",action="report"} 1',
    ]);
    const [line] = log.lines.filter(
      ({ event }) => event === "Kernel state changed by a third party",
    );
    assert.deepEqual(line?.keys, {
      kind: "virtual-server",
      subject: "TCP 10.96.0.10:80",
      before: "rr, 2 real servers",
      after: "absent",
      action: "report",
      reason: "drift-virtual-server",
    });
    const pending = await figures("kube_ipvs_pending_changes");
    assert.deepEqual(pending, [
      'kube_ipvs_pending_changes{kind="virtual-server-create"} 1',
      'kube_ipvs_pending_changes{kind="real-server-create"} 2',
    ]);
  });

  it("records nothing for later programs", async () => {
    const slow = service({ metadata: { annotations: { "kube-ipvs.io/slow-start": "1h" } } });
    const [few, more] = [["10.244.2.11"], ["10.244.2.11", "10.244.2.12"]].map((endpoints) =>
      endpointSlice({ endpoints }),
    );
    const apply = (...given: readonly unknown[]): void =>
      source.apply(...(given as readonly NamedObject[]));
    for (const [flags, expected] of [
      [[observing], []],
      [[], ["holders", "ownership", "ramps"]],
    ] as const) {
      // A third-party virtual server that the Service claims.
      await kernel.ipvs.apply([{ kind: "virtual-server-create", after: taken }]);
      apply(slow, few);
      recorded.length = 0;
      await start(["ipvs-scheduler", "wrr"], ...flags);
      apply(more);
      await settle();
      assert.deepEqual([...new Set(recorded)].toSorted(), expected);
      await running?.stop();
    }
  });

  it("neither loads modules nor probes the scheduler", async () => {
    kernel.modules.available.delete("ip_vs");
    await start(observing);
    assert.deepEqual(kernel.operations.texts(), []);
    const [warning] = log.lines.filter(({ event }) => event === "Cannot load kernel module");
    assert.deepEqual(warning?.keys, {
      module: "ip_vs",
      err: "observe-only mode changes nothing; run modprobe ip_vs on the node",
    });
  });
});
