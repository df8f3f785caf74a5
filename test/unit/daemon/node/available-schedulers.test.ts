import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { isAllowedScheduler, knownSchedulers } from "../../../../src/base/scheduler.ts";
import { AvailableSchedulers } from "../../../../src/daemon/node/available-schedulers.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { serviceRecord } from "../../../support/records.ts";

function asking(scheduler: string): ServiceRecord {
  return serviceRecord({ annotations: { "kube-ipvs.io/scheduler": scheduler } });
}

function openSchedulers(present: readonly string[], extra: readonly string[] = []) {
  const asked: string[] = [];
  const clock = new FakeClock();
  const schedulers = new AvailableSchedulers({
    ipvs: {
      checkScheduler: async (name) => {
        asked.push(name);
        if (!present.includes(name)) throw new Error(`no ${name}`);
      },
    },
    clock,
    families: ["IPv4"],
    isAllowed: (name) => isAllowedScheduler(name, extra),
  });
  return { schedulers, asked, clock };
}

describe("schedulers that Services name", () => {
  it("are never sent to the kernel unless Linux has them or the administrator allows them, so no Service loads a module", async () => {
    const { schedulers, asked } = openSchedulers(["ftp"]);
    for (let number = 0; number < 1_240; number++) {
      schedulers.noteService(undefined, asking(`none${number}`));
    }
    schedulers.noteService(undefined, asking("ftp"));
    assert.equal((await schedulers.refresh()).size, 0);
    assert.deepEqual(asked, []);
    assert.equal(schedulers.nextCheckMs, undefined);
  });

  it("are used if the administrator allows them", async () => {
    const { schedulers, asked } = openSchedulers(["ours"], ["ours"]);
    schedulers.noteService(undefined, asking("ours"));
    assert.deepEqual([...(await schedulers.refresh())], []);
    assert.deepEqual(asked, ["ours"]);
  });

  it("are looked up at most once every five minutes if the kernel lacks them, however often a Service is edited", async () => {
    const { schedulers, asked, clock } = openSchedulers([]);
    for (let edit = 0; edit < 100; edit++) {
      for (const name of knownSchedulers) {
        schedulers.noteService(undefined, asking(name));
        await schedulers.refresh();
        schedulers.noteService(asking(name), undefined);
        await schedulers.refresh();
      }
      await clock.advance(2_000);
    }
    assert.deepEqual(asked, knownSchedulers);
    schedulers.noteService(undefined, asking("mh"));
    await schedulers.refresh();
    assert.equal(schedulers.nextCheckMs, 300_000);
    await clock.advance(100_000);
    await schedulers.refresh();
    assert.deepEqual(asked, [...knownSchedulers, "mh"]);
  });
});
