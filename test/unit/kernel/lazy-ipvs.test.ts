import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { OpenIpvs } from "../../../src/kernel/ipvs/client.ts";
import { lazyIpvs } from "../../../src/kernel/lazy-ipvs.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";

/** An IPVS that counts how often it was opened and closed, and fails to open at first. */
function openings(failures: number): {
  readonly open: () => Promise<OpenIpvs>;
  readonly opened: () => number;
  readonly closed: () => number;
} {
  let opened = 0;
  let closed = 0;
  const ipvs = Object.assign(new FakeKernel().ipvs, {
    close() {
      closed += 1;
    },
  });
  const open = async (): Promise<OpenIpvs> => {
    opened += 1;
    if (opened <= failures) throw new Error("no IPVS");
    return ipvs;
  };
  return { open, opened: () => opened, closed: () => closed };
}

describe("IPVS that is looked for when needed", () => {
  it("is not looked for before, and once for all requests", async () => {
    const { open, opened, closed } = openings(0);
    const ipvs = lazyIpvs(open);
    assert.equal(opened(), 0);
    await Promise.all([ipvs.listVirtualServers(), ipvs.readTimeouts(), ipvs.apply([])]);
    assert.equal(opened(), 1);
    ipvs.close();
    await Promise.resolve();
    assert.equal(closed(), 1);
  });

  it("is looked for again after it was missing", async () => {
    const { open, opened } = openings(1);
    const ipvs = lazyIpvs(open);
    await assert.rejects(ipvs.listVirtualServers(), /no IPVS/);
    await ipvs.checkScheduler("rr", "IPv4");
    assert.equal(opened(), 2);
  });

  it("is closed without being opened", () => {
    const { open, opened } = openings(0);
    lazyIpvs(open).close();
    assert.equal(opened(), 0);
  });
});
