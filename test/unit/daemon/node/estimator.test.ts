import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setEstimator, watchEstimator } from "../../../../src/daemon/node/estimator.ts";
import type { DaemonView } from "../../../../src/daemon/operator/daemon-view.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const run = "net/ipv4/vs/run_estimation";
const cpus = "net/ipv4/vs/est_cpulist";
const nice = "net/ipv4/vs/est_nice";

function kernelWith(values: Readonly<Record<string, string>>): FakeKernel {
  const kernel = new FakeKernel();
  for (const path of [run, cpus, nice]) kernel.sysctl.values.delete(path);
  for (const [path, value] of Object.entries(values)) kernel.sysctl.values.set(path, value);
  return kernel;
}

const options = { runEstimation: "off", estimatorCpus: "0-3", estimatorNice: "5" } as const;

describe("the estimator's settings", () => {
  it("are set if the kernel has them", () => {
    const kernel = kernelWith({ [run]: "1", [cpus]: "", [nice]: "0" });
    setEstimator(kernel, options, new RecordingLogger());
    const { values } = kernel.sysctl;
    assert.deepEqual([values.get(run), values.get(cpus), values.get(nice)], ["0", "0-3", "5"]);
  });

  it("are skipped and reported if the kernel lacks or rejects them", () => {
    const kernel = kernelWith({ [run]: "1", [nice]: "0" });
    const log = new RecordingLogger();
    kernel.operations.failWhere(({ subject }) => subject.startsWith(nice), 22);
    setEstimator(kernel, options, log);
    assert.equal(kernel.sysctl.values.get(run), "0");
    assert.deepEqual(
      log.lines.map(({ event, keys }) => [event, keys["entry"]]),
      [
        ["Skipping sysctl that the kernel does not have", cpus],
        ["Cannot set IPVS estimator", undefined],
        ["Set sysctl", run],
      ],
    );
  });

  it("are not changed unless they are configured", () => {
    const kernel = kernelWith({ [run]: "1", [cpus]: "7", [nice]: "-1" });
    const unset = { runEstimation: "keep", estimatorCpus: "", estimatorNice: "" } as const;
    setEstimator(kernel, unset, new RecordingLogger());
    assert.deepEqual(kernel.operations.texts(), []);
  });
});

/** The part of the view that is counted. */
function viewOf(servers: number): DaemonView {
  const realServers = Array.from({ length: servers - 1 }, () => ({}));
  return {
    mode: "ipvs",
    plan: {
      tracker: { serviceNames: () => [], serviceCount: 1 },
      desired: { virtualServer: () => ({}) },
    },
    reconciler: {
      cachedServers: new Map([["TCP 10.96.0.1:80", { realServers }]]),
      drainer: { count: 0 },
    },
    history: {
      claimedForeignServers: [],
      rejections: [],
      conflicts: [],
      foreignServers: [],
      possiblyOwned: [],
      reverted: [],
      manualWeights: [],
      weightSignals: { answered: 0, unanswered: 0, ejected: 0 },
      ignoredAnnotations: [],
      driftCount: 0,
    },
  } as unknown as DaemonView;
}

describe("an estimator with a lot of work", () => {
  async function warnings(servers: number, values: Record<string, string>): Promise<string[]> {
    const clock = new FakeClock();
    const log = new RecordingLogger();
    const { sysctl } = kernelWith(values);
    const stop = watchEstimator({ clock, log, sysctl, view: viewOf(servers) });
    await clock.advance(3_600_000);
    stop();
    assert.equal(clock.pendingTimers, 0);
    return log.lines.map(({ keys }) => `${keys["servers"]} ${keys["advice"]}`);
  }

  it("is reported once, with settings that reduce the work", async () => {
    const [newest, ...more] = await warnings(10_000, { [run]: "1", [cpus]: "" });
    assert.match(newest ?? "", /^10000 .*kubeIpvs\.estimatorCpus/);
    assert.equal(more.length, 0);
    assert.match((await warnings(10_000, { [run]: "1" }))[0] ?? "", /runEstimation: off/);
    assert.match((await warnings(10_000, {}))[0] ?? "", /Linux 5\.16/);
  });

  it("is not reported if it is off, or has less work", async () => {
    assert.deepEqual(await warnings(10_000, { [run]: "0" }), []);
    assert.deepEqual(await warnings(9_999, { [run]: "1" }), []);
  });
});
