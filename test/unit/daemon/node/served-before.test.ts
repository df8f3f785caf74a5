import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpAddress } from "../../../../src/base/ip.ts";
import type { Config } from "../../../../src/config/config.ts";
import { servedBefore } from "../../../../src/daemon/node/served-before.ts";
import { reportListQuarantine } from "../../../../src/daemon/sync/source-listener.ts";
import type { Kernel } from "../../../../src/kernel/kernel.ts";
import { prometheusMetrics } from "../../../../src/metrics/prometheus-metrics.ts";
import { readAddresses } from "../../../../src/reconcile/observed/read-addresses.ts";
import { ServersAhead } from "../../../../src/reconcile/observed/servers-ahead.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip } from "../../../support/records.ts";

const guarded: Pick<Config, "objectsFrom" | "relistGuardPercent"> = {
  objectsFrom: { kind: "cluster" },
  relistGuardPercent: 50,
};

function served(
  kernel: Kernel,
  config: typeof guarded,
  fail: (error: Error) => void = assert.fail,
): ReturnType<typeof servedBefore> {
  const ahead = new ServersAhead(kernel.ipvs, new FakeClock());
  const readBound = async (): Promise<readonly IpAddress[] | undefined> =>
    (await readAddresses(kernel)).bound;
  return servedBefore({ readBound, readServers: () => ahead.read(), fail }, config);
}

async function servingKernel(): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  await kernel.link.ensure();
  await kernel.link.apply([{ kind: "address-add", address: ip("10.96.0.1") }]);
  for (const address of ["10.96.0.1", "203.0.113.9"]) {
    const id = { protocol: "TCP", address: ip(address), port: 80 } as const;
    const own = { scheduler: "rr", persistenceTimeoutSeconds: 0, persistencePrefixLength: 32 };
    const virtualServer = { ...id, ...own, flags: 0 };
    await kernel.ipvs.apply([{ kind: "virtual-server-create", after: virtualServer }]);
    for (const [last, weight] of [
      [1, 1],
      [2, 0],
    ] as const) {
      const pod = ip(address === "10.96.0.1" ? `10.244.0.${last}` : `10.244.9.${last}`);
      const realServer = {
        address: pod,
        port: 8080,
        weight,
        forwardingMethod: 0,
      } as const;
      await kernel.ipvs.apply([
        { kind: "real-server-create", virtualServer: id, after: realServer },
      ]);
    }
  }
  return kernel;
}

describe("the addresses that a node serves at startup", () => {
  it("are those on kube-ipvs0 with real servers that get connections, except foreign ones", async () => {
    const before = served(await servingKernel(), guarded);
    assert.deepEqual(await before?.services(), new Set(["10.96.0.1"]));
    assert.deepEqual(await before?.endpointslices(), new Set(["10.244.0.1"]));
  });

  it("stop the program if they cannot be read, because lists could not be compared with them", async () => {
    const kernel = await servingKernel();
    kernel.operations.failWhere(({ facility }) => facility === "ipvs", new Error("EPERM"), 1);
    const failures: Error[] = [];
    const before = served(kernel, guarded, (error) => failures.push(error));
    await assert.rejects(async () => before?.endpointslices(), /EPERM/);
    assert.deepEqual(failures, [new Error("EPERM")]);
  });

  it("are empty without the link, and are not read if the relist guard is disabled", async () => {
    const kernel = await servingKernel();
    await kernel.link.remove();
    kernel.operations.failWhere(({ facility }) => facility === "ipvs", new Error("no IPVS"));
    assert.deepEqual(await served(kernel, guarded)?.endpointslices(), new Set());
    const manifests = { kind: "manifests", folder: "/etc/m" } as const;
    assert.equal(served(kernel, { ...guarded, relistGuardPercent: 0 }), undefined);
    assert.equal(served(kernel, { ...guarded, objectsFrom: manifests }), undefined);
  });
});

describe("a quarantined list", () => {
  it("is counted and reported with its numbers", async () => {
    const log = new RecordingLogger();
    const metrics = prometheusMetrics({ version: "0.0.0" });
    for (const outcome of ["held", "refuted"] as const) {
      reportListQuarantine(
        { kind: "endpointslices", outcome, known: 20, missing: 19 },
        { metrics, log },
      );
    }
    const counted = (await metrics.exposition()).match(/^kube_ipvs_(?:relist|quarant).*/gm);
    assert.deepEqual(counted, [
      'kube_ipvs_relist_guard_outcomes_total{resource="endpointslices",outcome="held"} 1',
      'kube_ipvs_relist_guard_outcomes_total{resource="endpointslices",outcome="refuted"} 1',
      'kube_ipvs_quarantined_lists{resource="endpointslices"} 0',
    ]);
    assert.deepEqual(
      log.lines.map(({ level, keys }) => [level, keys]),
      [
        ["warn", { resource: "endpointslices", known: 20, missing: 19, reason: "list-held" }],
        ["info", { resource: "endpointslices", known: 20, missing: 19, reason: "list-refuted" }],
      ],
    );
  });
});
