/** When the loop of mode userspace syncs, on a clock that the test moves. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { SyncHistory } from "../../../../src/daemon/report/sync-history.ts";
import { UserspaceLoop } from "../../../../src/daemon/userspace/userspace-loop.ts";
import { noHolderRecord } from "../../../../src/plan/claims/holder-record.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

describe("the loop of mode userspace", () => {
  it("tries less and less often to write rules that the kernel refuses, at least each sync period", async () => {
    const clock = new FakeClock();
    const log = new RecordingLogger();
    let isRefused = true;
    const triedAtMs: number[] = [];
    const loop = new UserspaceLoop(
      {
        ...{ clock, log, health: new ProxyHealth(clock, 60_000), history: new SyncHistory(clock) },
        proxier: {
          openCount: 0,
          open: () => [],
          isOpen: () => false,
          replaceServices: async () => {},
          retryFailed: async () => {},
          stop: async () => {},
        },
        portals: {
          forget() {},
          async sync() {
            triedAtMs.push(clock.monotonicMs());
            if (isRefused) throw new Error("refused");
            return false;
          },
        },
        families: ["IPv4"],
        conflicts: { report() {} },
        holderRecord: noHolderRecord,
        nodeAddresses: () => [],
        onSynced() {},
      },
      { nodeName: "node-1", syncPeriodMs: 30_000, minSyncPeriodMs: 0 },
    );
    loop.start();
    const beganMs = clock.monotonicMs();
    for (const kind of ["nodes", "services", "endpointslices"] as const) loop.noteSynced(kind);
    await clock.advance(300_000);
    const seconds = triedAtMs.map((atMs) => Math.round((atMs - beganMs) / 1_000));
    assert.deepEqual(seconds.slice(0, 5), [0, 1, 3, 7, 15]);
    assert.ok(triedAtMs.length >= 10 && triedAtMs.length <= 25, seconds.join());
    isRefused = false;
    await clock.advance(31_000);
    assert.equal(log.lines.at(-1)?.event, "SyncProxyRules complete");
    await loop.stop();
  });
});
