import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { close, open, type SocketHandle, transact, watch } from "../../native-shim/index.ts";
import {
  assertOwnNamespace,
  errnos,
  flipLoopback,
  flipLoopbackOften,
  linkGroup,
  messagesOf,
  noop,
  protocols,
  types,
} from "./messages.ts";

/** Collects a watch's events. */
class Seen {
  readonly errnos: number[] = [];
  readonly datagrams: Uint8Array[] = [];

  readonly onDatagram = (errno: number, datagram: Uint8Array): void => {
    if (errno === 0) this.datagrams.push(datagram);
    else this.errnos.push(errno);
  };
}

/** Timers keep the event loop alive, because a watch does not. */
async function until(isEnough: () => boolean): Promise<void> {
  for (let tries = 0; !isEnough(); tries += 1) {
    assert.ok(tries < 1000, "no event in 5 s");
    await delay(5);
  }
}

describe("watch()", () => {
  let actor: SocketHandle;
  before(() => {
    assertOwnNamespace();
    actor = open(protocols.route, { receiveBufferBytes: 4 * 1024 * 1024 });
  });
  after(() => close(actor));

  it("calls back with each event, and never after close()", async () => {
    const socket = open(protocols.route, { groups: [linkGroup] });
    const seen = new Seen();
    watch(socket, seen.onDatagram);
    for (let count = 0; count < 10; count += 1) await flipLoopback(actor, count);
    await until(() => seen.datagrams.length >= 10);
    const events = seen.datagrams.flatMap((datagram) => messagesOf(datagram));
    assert.ok(
      events.every(({ type, payload }) => type === types.newLink && payload.includes("lo\0")),
    );
    assert.equal(new Set(seen.datagrams.map(({ buffer }) => buffer)).size, seen.datagrams.length);

    // While this thread waits, the event arrives but is not delivered, so the socket is closed before the delivery.
    const flipped = flipLoopback(actor, 10);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    close(socket);
    const count = seen.datagrams.length;
    await flipped;
    await flipLoopback(actor, 11);
    await delay(20);
    assert.equal(seen.datagrams.length, count);
  });

  it("can be closed by its own callback", async () => {
    const socket = open(protocols.route, { groups: [linkGroup] });
    let count = 0;
    watch(socket, () => {
      count += 1;
      close(socket);
    });
    await flipLoopbackOften(actor, 20);
    await delay(50);
    assert.equal(count, 1);
  });

  it("reports lost events and continues", async () => {
    const socket = open(protocols.route, { groups: [linkGroup], receiveBufferBytes: 2048 });
    const seen = new Seen();
    watch(socket, seen.onDatagram);
    await flipLoopbackOften(actor, 600);
    await until(() => seen.errnos.length > 0);
    assert.deepEqual(new Set(seen.errnos), new Set([errnos.ENOBUFS]));
    const count = seen.datagrams.length;
    await flipLoopback(actor, 600);
    await until(() => seen.datagrams.length > count);
    close(socket);
  });

  it("allows no other calls on its socket", async () => {
    const socket = open(protocols.route, { groups: [linkGroup] });
    const pending = transact(socket, noop(1), 1, 5000);
    watch(socket, () => {});
    assert.equal((await pending).errno, 0);
    assert.equal((await transact(socket, noop(2), 2, 1000)).errno, errnos.EBUSY);
    assert.throws(() => watch(socket, () => {}), { errno: errnos.EBUSY });
    close(socket);
  });

  it("keeps alive a socket that nothing else references", async () => {
    assert.ok(globalThis.gc !== undefined, "run it with --expose-gc");
    const seen = new Seen();
    const held = new WeakRef(open(protocols.route, { groups: [linkGroup] }));
    watch(held.deref() as SocketHandle, seen.onDatagram);
    for (let round = 0; round < 5; round += 1) {
      await delay(1);
      globalThis.gc();
    }
    await flipLoopback(actor, 1);
    await flipLoopback(actor, 2);
    await until(() => seen.datagrams.length > 0);
    close(held.deref() as SocketHandle);
  });
});
