import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { errno } from "../../../../src/base/errno.ts";
import type { EntryChange } from "../../../../src/kernel/kernel.ts";
import { NftSetsClient } from "../../../../src/kernel/nftables/sets-client.ts";
import type { Message, MessageWriter } from "../../../../src/netlink/message.ts";
import type { IpSet } from "../../../../src/state/ip-set.ts";
import { portEntry, type SetEntry } from "../../../../src/state/set-entry.ts";
import {
  acknowledgement,
  answeringSocket,
  done,
  messages,
} from "../../netlink/answering-socket.ts";

const commands = { begin: 0x10, end: 0x11, newElements: 0xa0c, deleteElements: 0xa0e };
const getGeneration = 0xa10;
const ports: IpSet = { name: "PORTS", type: "bitmap:port", family: "IPv4", maxElements: 65_536 };

function changes(kind: EntryChange["kind"], ...values: readonly number[]): EntryChange[] {
  return values.map((port) => ({ kind, set: ports, entry: portEntry(port) }));
}

/** A client whose kernel rejects messages that contain one of these ports, each with its errno. */
function open(rejected: ReadonlyMap<number, number>): {
  readonly sets: NftSetsClient;
  readonly sent: string[];
} {
  const sent: string[] = [];
  const { shim } = answeringSocket((datagram) => {
    const inside = datagram.slice(1, -1);
    sent.push(inside.map(textOf).join(" "));
    const last = inside.at(-1)?.sequence ?? 0;
    const errors = inside.flatMap((message) => {
      const found = portsOf(message).find((port) => rejected.has(port));
      return found === undefined ? [] : [acknowledgement(message.sequence, rejected.get(found))];
    });
    const isAnswered = errors.some(({ sequence }) => sequence === last);
    return messages(...errors, ...(isAnswered ? [] : [acknowledgement(last)]));
  });
  return { sets: new NftSetsClient({ shim, clock: systemClock }), sent };
}

const seen = new WeakMap<Message, readonly number[]>();

/** Each key is an attribute of 4 + 4 + 4 + 2 bytes, padded. */
function portsOf(message: Message): readonly number[] {
  const known = seen.get(message);
  if (known !== undefined) return known;
  const { body } = message;
  const bytes = body.bytes(body.remaining, "body");
  const found: number[] = [];
  for (let at = 0; at + 12 <= bytes.length; at += 4) {
    const view = new DataView(bytes.buffer, bytes.byteOffset + at);
    // NFTA_SET_ELEM_KEY with NFTA_DATA_VALUE of two bytes.
    if (view.getUint32(0, true) === 0x8001_000c && view.getUint32(4, true) === 0x0001_0006) {
      found.push(view.getUint16(8));
    }
  }
  seen.set(message, found);
  return found;
}

function textOf(message: Message): string {
  return `${message.type === commands.newElements ? "+" : "-"}${portsOf(message).join(",")}`;
}

describe("set element changes", () => {
  it("are one transaction, with one message for consecutive changes of a kind", async () => {
    const { sets, sent } = open(new Map());
    const list = [
      ...changes("entry-add", 1, 2),
      ...changes("entry-remove", 3),
      ...changes("entry-add", 3),
    ];
    assert.deepEqual(await sets.apply(list), []);
    assert.deepEqual(sent, ["+1,2 -3 +3"]);
  });

  it("fill several messages if there are many", async () => {
    const { sets, sent } = open(new Map());
    const many = Array.from({ length: 1500 }, (_, port) => port + 1);
    assert.deepEqual(await sets.apply(changes("entry-add", ...many)), []);
    assert.deepEqual(
      sent.map((text) => text.split(" ").map((message) => message.split(",").length)),
      [[190, 190, 190, 190, 190, 190, 190, 170]],
    );
  });

  it("are resent without the rejected one, which is reported by its index", async () => {
    const { sets, sent } = open(new Map([[2, errno.EINVAL]]));
    const list = [
      ...changes("entry-add", 9),
      ...changes("entry-remove", 8),
      ...changes("entry-add", 1, 2, 3),
    ];
    const failed = await sets.apply(list);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.message]),
      [[3, "Cannot add to set ip PORTS: 2: EINVAL"]],
    );
    assert.deepEqual(sent, ["+9 -8 +1,2,3", "+9 -8 +1 +2 +3", "+9 -8 +1 +3"]);
  });

  it("succeed if the removed element does not exist", async () => {
    const { sets, sent } = open(new Map([[2, errno.ENOENT]]));
    assert.deepEqual(await sets.apply(changes("entry-remove", 1, 2)), []);
    assert.deepEqual(sent, ["-1,2", "-1 -2", "-1"]);
  });

  it("end when all of them were rejected", async () => {
    const { sets, sent } = open(new Map([1, 2].map((port) => [port, errno.EINVAL])));
    const failed = await sets.apply(changes("entry-add", 1, 2));
    assert.deepEqual(
      failed.map(({ index }) => index),
      [0, 1],
    );
    assert.deepEqual(sent, ["+1,2", "+1 +2"]);
  });

  it("with an invalid entry are sent without it", async () => {
    const { sets, sent } = open(new Map());
    const invalid: EntryChange = { kind: "entry-add", set: ports, entry: "10.0.0.1" as SetEntry };
    const failed = await sets.apply([invalid, ...changes("entry-add", 5)]);
    assert.match(failed[0]?.error.message ?? "", /add to set ip PORTS: 10\.0\.0\.1: EINVAL/);
    assert.deepEqual([failed.length, sent], [1, ["+5"]]);
  });
});

describe("sets of nf_tables", () => {
  it("are read once per generation", async () => {
    let generation = 7;
    const types: number[] = [];
    const { shim } = answeringSocket(([message]) => {
      const { type, sequence } = message as Message;
      types.push(type);
      if (type !== getGeneration) return messages(done(sequence));
      const body = (writer: MessageWriter): void => {
        writer.u32(0);
        const start = writer.beginAttribute(1);
        writer.u32be(generation);
        writer.endAttribute(start);
      };
      return messages({ type: 0xa0f, sequence, body }, acknowledgement(sequence));
    });
    const sets = new NftSetsClient({ shim, clock: systemClock });
    for (const expected of [3, 1, 1]) {
      types.length = 0;
      assert.deepEqual(await sets.listSets(), []);
      assert.equal(types.length, expected);
    }
    generation = 8;
    types.length = 0;
    await sets.listSets();
    assert.equal(types.length, 3);
  });
});
