import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeRecord } from "../../../../src/api/objects.ts";
import { NodeWait } from "../../../../src/daemon/node/node-wait.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { cidr, ip } from "../../../support/records.ts";
import { type FlagInput, load } from "../../config/loading.ts";

const nodeRecord = (overrides: Partial<NodeRecord> = {}): NodeRecord => ({
  name: "node-1",
  addresses: [ip("192.168.10.11")],
  podCidrs: [],
  isEligible: true,
  ...overrides,
});

class Waiting {
  readonly clock = new FakeClock();
  readonly log = new RecordingLogger();
  readonly failures: string[] = [];
  readonly wait: NodeWait;
  readyCount = 0;

  constructor(flags: FlagInput) {
    const live = { current: load({ "hostname-override": "node-1", ...flags }).config };
    this.wait = new NodeWait({
      clock: this.clock,
      log: this.log,
      live,
      onReady: () => {
        this.readyCount += 1;
      },
      fail: ({ message }) => this.failures.push(message),
    });
    this.wait.start();
  }
}

const nodeCidr: FlagInput = { "detect-local-mode": "NodeCIDR" };
const primary: FlagInput = { "nodeport-addresses": "primary" };

describe("waiting for the node", () => {
  it("ends when Nodes are listed if no setting depends on the Node object", () => {
    const waiting = new Waiting({});
    assert.equal(waiting.wait.isReady, false);
    waiting.wait.noteListed();
    assert.deepEqual([waiting.wait.isReady, waiting.readyCount], [true, 1]);
    assert.equal(waiting.clock.pendingTimers, 0);
  });

  for (const { name, flags, record } of [
    { name: "an address, for nodePortAddresses primary", flags: primary, record: nodeRecord() },
    {
      name: "pod CIDRs, in mode NodeCIDR",
      flags: nodeCidr,
      record: nodeRecord({ podCidrs: [cidr("10.244.1.0/24")] }),
    },
  ]) {
    it(`continues until the object has ${name}`, async () => {
      const waiting = new Waiting(flags);
      waiting.wait.noteListed();
      waiting.wait.noteRecord(nodeRecord({ addresses: [] }));
      await waiting.clock.advance(29_000);
      assert.equal(waiting.wait.isReady, false);
      waiting.wait.noteRecord(record);
      assert.deepEqual([waiting.wait.isReady, waiting.readyCount], [true, 1]);
    });
  }

  it("needs no address if bindAddress is set", () => {
    const waiting = new Waiting({ ...primary, "bind-address": "192.168.10.11" });
    waiting.wait.noteListed();
    assert.equal(waiting.wait.isReady, true);
  });

  for (const { name, record, event } of [
    {
      name: "object",
      record: undefined,
      event: "Timed out waiting for the Node object, continuing without it",
    },
    {
      name: "address",
      record: nodeRecord({ addresses: [] }),
      event: "Node object has no addresses, continuing without them",
    },
  ]) {
    it(`ends without an ${name} after 30 s, and logs this`, async () => {
      const waiting = new Waiting(primary);
      if (record !== undefined) waiting.wait.noteRecord(record);
      await waiting.clock.advance(30_000);
      assert.equal(waiting.wait.isReady, true);
      assert.deepEqual(
        waiting.log.lines.map((line) => line.event),
        [event],
      );
    });
  }

  it("stops the program after 5 min and 30 s without pod CIDRs in mode NodeCIDR", async () => {
    const waiting = new Waiting(nodeCidr);
    waiting.wait.noteListed();
    await waiting.clock.advance(329_000);
    assert.deepEqual(waiting.failures, []);
    await waiting.clock.advance(1_000);
    assert.match(
      waiting.failures[0] ?? "",
      /NodeCIDR: timed out waiting for node node-1: the node does not exist/,
    );
    assert.equal(waiting.wait.isReady, false);
  });

  it("is skipped without a cluster", () => {
    const waiting = new Waiting({ ...nodeCidr, manifests: "/m" });
    waiting.wait.noteListed();
    assert.equal(waiting.wait.isReady, true);
  });
});

describe("a change of the node", () => {
  it("is reported only for new addresses and for a deletion", () => {
    const waiting = new Waiting({});
    waiting.wait.noteRecord(nodeRecord());
    waiting.wait.noteListed();
    waiting.wait.noteRecord(nodeRecord({ zone: "z" }));
    waiting.wait.noteRecord(nodeRecord({ addresses: [ip("192.168.10.12"), ip("fd00::1")] }));
    waiting.wait.noteRecord(undefined);
    assert.deepEqual(
      waiting.log.lines.map(({ event, keys }) => [event, keys]),
      [
        [
          "Node addresses changed",
          { node: "node-1", before: ["192.168.10.11"], after: ["192.168.10.12", "fd00::1"] },
        ],
        ["Node object deleted; using its last known state", { node: "node-1" }],
      ],
    );
  });
});

describe("a pod CIDR change", () => {
  function started(flags: FlagInput): Waiting {
    const waiting = new Waiting(flags);
    waiting.wait.noteRecord(nodeRecord({ podCidrs: [cidr("10.244.1.0/24")] }));
    waiting.wait.noteListed();
    return waiting;
  }

  it("stops the program in mode NodeCIDR", () => {
    const waiting = started(nodeCidr);
    waiting.wait.noteRecord(nodeRecord({ podCidrs: [cidr("10.244.1.0/24")], zone: "z" }));
    assert.deepEqual(waiting.failures, []);
    waiting.wait.noteRecord(nodeRecord({ podCidrs: [cidr("10.244.2.0/24")] }));
    assert.deepEqual(waiting.failures, [
      "The pod CIDRs of node node-1 changed from 10.244.1.0/24 to 10.244.2.0/24; exiting to restart with the new ones",
    ]);
  });

  it("does nothing in other modes or when a Node is deleted", () => {
    const other = started({});
    other.wait.noteRecord(nodeRecord({ podCidrs: [] }));
    const deleted = started(nodeCidr);
    deleted.wait.noteRecord(undefined);
    assert.deepEqual([...other.failures, ...deleted.failures], []);
  });
});
