import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { AvailableSchedulers } from "../../../../src/daemon/node/available-schedulers.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { serviceRecord } from "../../../support/records.ts";

function asking(scheduler: string): ServiceRecord {
  return serviceRecord({ annotations: { "kube-ipvs.io/scheduler": scheduler } });
}

describe("schedulers that Services ask for", () => {
  it("are asked for once each, 64 at most: no writer of Services makes the kernel look for modules without end", async () => {
    const asked: string[] = [];
    const schedulers = new AvailableSchedulers({
      ipvs: {
        checkScheduler: async (name) => {
          asked.push(name);
          throw new Error(`no ${name}`);
        },
      },
      clock: new FakeClock(),
      families: ["IPv4"],
    });
    for (let number = 0; number < 100; number++) {
      schedulers.noteService(undefined, asking(`none${number}`));
    }
    const missing = await schedulers.refresh();
    assert.equal(missing.size, 100);
    assert.equal(asked.length, 64);
    await schedulers.refresh();
    assert.equal(asked.length, 64);
  });

  it("are found behind any number of made-up ones", async () => {
    const schedulers = new AvailableSchedulers({
      ipvs: {
        checkScheduler: async (name) => {
          if (name !== "mh") throw new Error(`no ${name}`);
        },
      },
      clock: new FakeClock(),
      families: ["IPv4"],
    });
    for (let number = 0; number < 100; number++) {
      schedulers.noteService(undefined, asking(`none${number}`));
    }
    schedulers.noteService(undefined, asking("mh"));
    assert.ok(!(await schedulers.refresh()).has("mh"));
    assert.ok(!(await schedulers.refresh()).has("mh"));
  });
});
