import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Config } from "../../../../src/config/config.ts";
import { readServedAddresses } from "../../../../src/daemon/node/served-before.ts";
import { reportListQuarantine } from "../../../../src/daemon/report/list-quarantine.ts";
import type { Kernel } from "../../../../src/kernel/kernel.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip } from "../../../support/records.ts";

const guarded: Pick<Config, "objectsFrom" | "listGuardPercent"> = {
  objectsFrom: { kind: "cluster" },
  listGuardPercent: 50,
};

async function servingKernel(): Promise<Kernel> {
  const kernel = new FakeKernel();
  await kernel.link.ensure();
  await kernel.link.apply([{ kind: "add", address: ip("10.96.0.1") }]);
  for (const address of ["10.96.0.1", "203.0.113.9"]) {
    const id = { protocol: "TCP", address: ip(address), port: 80 } as const;
    const own = { scheduler: "rr", persistenceTimeoutSeconds: 0, persistencePrefixLength: 32 };
    const virtualServer = { ...id, ...own, flags: 0 };
    await kernel.ipvs.apply([{ kind: "create-virtual-server", virtualServer }]);
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
      await kernel.ipvs.apply([{ kind: "create-real-server", virtualServer: id, realServer }]);
    }
  }
  return kernel;
}

describe("what a node serves at a start", () => {
  it("is what is on kube-ipvs0, with the real servers that get connections; others' do not count", async () => {
    assert.deepEqual(await readServedAddresses(await servingKernel(), guarded), {
      services: new Set(["10.96.0.1"]),
      endpointslices: new Set(["10.244.0.1"]),
    });
  });

  it("is not looked at where no list is guarded, or without the link", async () => {
    const kernel = await servingKernel();
    const manifests = { kind: "manifests", folder: "/etc/m" } as const;
    assert.equal(await readServedAddresses(kernel, { ...guarded, listGuardPercent: 0 }), undefined);
    assert.equal(
      await readServedAddresses(kernel, { ...guarded, objectsFrom: manifests }),
      undefined,
    );
    assert.equal(await readServedAddresses(new FakeKernel(), guarded), undefined);
  });
});

describe("a quarantined list", () => {
  it("is counted and reported with its figures", () => {
    const log = new RecordingLogger();
    const counted: string[] = [];
    const metrics = {
      listQuarantined: (...labels: readonly string[]) => void counted.push(labels.join(" ")),
    };
    for (const outcome of ["held", "refuted"] as const) {
      reportListQuarantine(
        { kind: "endpointslices", outcome, known: 20, missing: 19 },
        { metrics, log },
      );
    }
    assert.deepEqual(counted, ["endpointslices held", "endpointslices refuted"]);
    assert.deepEqual(
      log.lines.map(({ level, keys }) => [level, keys]),
      [
        ["warn", { resource: "endpointslices", known: 20, missing: 19, reason: "list-held" }],
        ["info", { resource: "endpointslices", known: 20, missing: 19, reason: "list-refuted" }],
      ],
    );
  });
});
