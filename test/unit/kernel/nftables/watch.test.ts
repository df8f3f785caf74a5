import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import type { TablesChange } from "../../../../src/kernel/kernel.ts";
import { watchTables } from "../../../../src/kernel/nftables/watch.ts";
import type { MessageWriter } from "../../../../src/netlink/message.ts";
import { answeringSocket, type MessageFields, messages } from "../../netlink/answering-socket.ts";

/** Port IDs of kube-ipvs's socket and of another program's. */
const [ours, theirs] = [77, 88];

type Attribute = readonly [type: number, value: string | number];

function notification(type: number, ...attributes: readonly Attribute[]): MessageFields {
  const body = (writer: MessageWriter): void => {
    writer.u32(2);
    for (const [attribute, value] of attributes) {
      const start = writer.beginAttribute(attribute);
      if (typeof value === "number") writer.u32be(value);
      else writer.text(value);
      writer.endAttribute(start);
    }
  };
  return { type, sequence: 0, body };
}

const rule = (table: string): MessageFields => notification(0xa06, [1, table], [2, "nat-OUTPUT"]);
const element = (set: string): MessageFields => notification(0xa0e, [1, "kube-ipvs"], [2, set]);
const commit = (process: string): MessageFields =>
  notification(0xa0f, [1, 9], [2, 4711], [3, process]);

interface Heard {
  readonly changes: TablesChange[];
  readonly errors: string[];
  /** Delivers a datagram from the socket with this port ID. */
  readonly deliver: (portId: number, ...parts: readonly MessageFields[]) => void;
  readonly fail: (errno: number) => void;
}

async function listen(): Promise<Heard> {
  const socket = answeringSocket(() => new Uint8Array());
  const changes: TablesChange[] = [];
  const errors: string[] = [];
  watchTables({ shim: socket.shim, clock: systemClock }, async () => [ours], {
    onChange: (change) => changes.push(change),
    onError: ({ message }) => errors.push(message),
  });
  await Promise.resolve();
  return {
    changes,
    errors,
    deliver(portId, ...parts) {
      const datagram = Uint8Array.from(messages(...parts));
      const view = new DataView(datagram.buffer);
      for (let at = 0; at < datagram.length; at += view.getUint32(at, true)) {
        view.setUint32(at + 12, portId, true);
      }
      socket.deliver(0, datagram);
    },
    fail: (errno) => socket.deliver(errno, new Uint8Array()),
  };
}

describe("the watch of kube-ipvs's tables", () => {
  it("names the program and the sets of a transaction, once", async () => {
    const { changes, deliver } = await listen();
    deliver(theirs, rule("kube-proxy"), rule("kube-ipvs"));
    deliver(theirs, element("KUBE-CLUSTER-IP"), element("KUBE-LOAD-BALANCER-SOURCE-CIDR"));
    assert.deepEqual(changes, []);
    deliver(theirs, commit("nft\u001b"));
    deliver(theirs, commit("nft"));
    const setNames = new Set(["KUBE-CLUSTER-IP", "KUBE-LOAD-BALANCER-SOURCE-CIDR"]);
    assert.deepEqual(changes, [{ by: "nft\\u001b (PID 4711)", setNames }]);
  });

  it("ignores transactions in tables with other names", async () => {
    const { changes, deliver } = await listen();
    for (const table of ["kube-proxy", "kube-ipvs-probe", "my-kube-ipvs", "kube"]) {
      deliver(theirs, rule(table));
      deliver(theirs, commit("firewalld"));
    }
    assert.deepEqual(changes, []);
  });

  it("ignores kube-ipvs's own transactions, but not a third-party one after them", async () => {
    const { changes, deliver } = await listen();
    deliver(ours, rule("kube-ipvs"));
    deliver(ours, commit("kube-ipvs"));
    assert.deepEqual(changes, []);
    deliver(theirs, rule("kube-ipvs"));
    deliver(theirs, commit("nft"));
    assert.deepEqual(changes, [{ by: "nft (PID 4711)", setNames: new Set() }]);
  });

  it("reports lost messages as a change by an unknown program, and other failures as errors", async () => {
    const { changes, errors, deliver, fail } = await listen();
    deliver(theirs, rule("kube-ipvs"));
    fail(105);
    deliver(theirs, commit("nft"));
    assert.deepEqual([changes, errors], [[{}], []]);
    fail(9);
    assert.deepEqual([changes.length, errors.length], [1, 1]);
  });
});
