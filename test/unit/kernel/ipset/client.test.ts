import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { IpSetsClient } from "../../../../src/kernel/ipset/client.ts";
import { commands } from "../../../../src/kernel/ipset/constants.ts";
import type { EntryChange, IpSets } from "../../../../src/kernel/kernel.ts";
import type { Message } from "../../../../src/netlink/message.ts";
import type { IpSet } from "../../../../src/state/ip-set.ts";
import type { SetEntry } from "../../../../src/state/set-entry.ts";
import { bytesOf, readCapture, withSequence } from "../../../captures/captures.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import {
  type Answer,
  acknowledgement,
  answeringSocket,
  messages,
} from "../../netlink/answering-socket.ts";

const clusterIps: IpSet = {
  name: "KUBE-CLUSTER-IP",
  type: "hash:ip,port",
  family: "IPv4",
  maxElements: 65_536,
};

function add(...texts: readonly string[]): EntryChange[] {
  return texts.map((text) => ({ kind: "entry-add", set: clusterIps, entry: text as SetEntry }));
}

/** A client with a simulated kernel. `sent` lists the commands of each datagram so far. */
function clientOf(answer: (messages: readonly Message[], count: number) => Answer): {
  readonly client: IpSets & { close(): void };
  readonly sent: readonly (readonly string[])[];
} {
  const sent: string[][] = [];
  const { shim } = answeringSocket((received, count) => {
    sent.push(received.map(({ type }) => commandName(type)));
    return answer(received, count);
  });
  return { client: new IpSetsClient({ shim, clock: new FakeClock() }), sent };
}

function commandName(type: number): string {
  const found = Object.entries(commands).find(([, number]) => number === (type & 0xff));
  return found?.[0] ?? String(type);
}

/** Returns the same errno for every message of a datagram. 0 is returned only for the last one, as requested. */
function answerAll(received: readonly Message[], errno: number): Answer {
  const parts = received
    .filter((_, index) => errno !== 0 || index === received.length - 1)
    .map(({ sequence }) => acknowledgement(sequence, errno));
  return messages(...parts);
}

/** Returns a recorded reply for the last message of the datagram. */
function recorded(name: string, received: readonly Message[], skipBytes = 0): Answer {
  const bytes = bytesOf(readCapture("ipset", name), "received").subarray(skipBytes);
  return withSequence(bytes, received.at(-1)?.sequence ?? 0);
}

/** Number of reply bytes before the listing, because the tool first requests the protocol and the type. */
function preambleBytes(name: string): number {
  const { datagrams } = readCapture("ipset", name);
  const received = datagrams.filter(({ direction }) => direction === "received");
  const listing = received.findIndex(({ bytes }) => bytes[4] === commands.list && bytes[5] === 6);
  return received.slice(0, listing).reduce((sum, { bytes }) => sum + bytes.length, 0);
}

describe("the ipset client", () => {
  it("creates a set with one request", async () => {
    const { client, sent } = clientOf((received) => answerAll(received, 0));
    await client.create(clusterIps);
    assert.deepEqual(sent, [["create"]]);
  });

  it("compares an existing set with the desired one", async () => {
    const { client, sent } = clientOf((received, count) => {
      if (count === 0) return answerAll(received, 17);
      return count === 1
        ? answerAll(received, 0)
        : recorded("list-headers", received, preambleBytes("list-headers"));
    });
    await client.create(clusterIps);
    assert.deepEqual(sent, [["create"], ["create"], ["list"]]);
  });

  it("rejects an existing set of the other family, which the kernel accepts", async () => {
    const { client } = clientOf((received, count) => {
      if (count % 3 === 0) return answerAll(received, 17);
      return count % 3 === 1
        ? answerAll(received, 0)
        : recorded("list-headers", received, preambleBytes("list-headers"));
    });
    await assert.rejects(client.create({ ...clusterIps, family: "IPv6" }), /EEXIST/);
  });

  it("destroys a set, and succeeds if the set does not exist", async () => {
    const [ENOENT, EBUSY] = [2, 16];
    for (const errno of [0, ENOENT]) {
      const { client, sent } = clientOf((received) => answerAll(received, errno));
      await client.destroy("KUBE-CLUSTER-IP");
      assert.deepEqual(sent, [["destroy"]]);
    }
    const { client } = clientOf((received) => answerAll(received, EBUSY));
    await assert.rejects(client.destroy("KUBE-CLUSTER-IP"), { code: "EBUSY" });
  });

  it("swaps two sets, or names the one that failed", async () => {
    const { client, sent } = clientOf((received, count) =>
      answerAll(received, count === 0 ? 0 : 2),
    );
    await client.swap("KUBE-CLUSTER-IP", "KTMP-CLUSTER-IP");
    assert.deepEqual(sent, [["swap"]]);
    const message = /KUBE-CLUSTER-IP and KTMP-CLUSTER-IP: ENOENT/;
    await assert.rejects(client.swap("KUBE-CLUSTER-IP", "KTMP-CLUSTER-IP"), { message });
  });

  it("finds no entries in an absent set", async () => {
    const { client } = clientOf((received) => answerAll(received, 2));
    assert.deepEqual(await client.listEntries(clusterIps), []);
  });

  it("combines thousands of entries into few messages", async () => {
    const { client, sent } = clientOf((received) => answerAll(received, 0));
    const texts = Array.from({ length: 2_000 }, (_, port) => `10.96.0.1,tcp:${port + 1}`);
    assert.deepEqual(await client.apply(add(...texts)), []);
    assert.deepEqual(sent.flat(), ["add", "add", "add"]);
  });

  it("sends nothing without changes", async () => {
    const { client, sent } = clientOf((received) => answerAll(received, 0));
    assert.deepEqual(await client.apply([]), []);
    assert.deepEqual(sent, []);
  });

  it("continues after a rejected entry and names each rejected one", async () => {
    const { client, sent } = clientOf((received, count) =>
      count === 0
        ? recorded("add-to-a-full-set", received, errorStart("add-to-a-full-set"))
        : answerAll(received, 4352),
    );
    const failed = await client.apply(
      add("10.96.0.1,tcp:1", "10.96.0.1,tcp:99", "10.96.0.1,tcp:98"),
    );
    assert.deepEqual(sent, [["add"], ["add", "add"]]);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.message]),
      [
        [
          1,
          "Cannot add to set KUBE-CLUSTER-IP: 10.96.0.1,tcp:99: IPSET_ERR_HASH_FULL (the set is full (maxelem))",
        ],
        [
          2,
          "Cannot add to set KUBE-CLUSTER-IP: 10.96.0.1,tcp:98: IPSET_ERR_HASH_FULL (the set is full (maxelem))",
        ],
      ],
    );
  });

  it("treats removal from a missing set as done, and adding to it as a failure", async () => {
    const { client } = clientOf((received) => answerAll(received, 2));
    const [addition] = add("10.96.0.1,tcp:1");
    assert.ok(addition);
    const failed = await client.apply([{ ...addition, kind: "entry-remove" }, addition]);
    assert.deepEqual(
      failed.map(({ index }) => index),
      [1],
    );
  });

  it("rejects if replies were lost, because the kernel may have executed everything", async () => {
    const lost = { errno: 105, replies: new Uint8Array() } as const;
    const { client } = clientOf(() => lost);
    await assert.rejects(client.apply(add("10.96.0.1,tcp:1")), { code: "ENOBUFS" });
  });

  it("reads a list that arrives in pieces", async () => {
    const { client } = clientOf((received) => {
      const name = "list-ports-of-addresses";
      const whole = recorded(name, received, preambleBytes(name)) as Uint8Array;
      const first = whole.subarray(0, new DataView(whole.buffer).getUint32(0, true));
      return new Uint8Array(Buffer.concat([first, whole]));
    });
    assert.equal((await client.listEntries(clusterIps)).length, 6);
  });
});

/** Offset of the reply to the addition, which follows the replies to the tool's other requests. */
function errorStart(name: string): number {
  const { datagrams } = readCapture("ipset", name);
  const received = datagrams.filter(({ direction }) => direction === "received");
  return received.slice(0, -1).reduce((sum, { bytes }) => sum + bytes.length, 0);
}
