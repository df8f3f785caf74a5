import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { subscribe } from "../../../src/netlink/subscription.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type AnsweringSocket, answeringSocket, messages } from "./answering-socket.ts";

interface Heard {
  readonly socket: AnsweringSocket;
  readonly types: number[];
  readonly errors: string[];
  readonly stop: () => void;
}

function listen(): Heard {
  const socket = answeringSocket(() => new Uint8Array());
  const types: number[] = [];
  const errors: string[] = [];
  const stop = subscribe(
    { shim: socket.shim, clock: new FakeClock() },
    {
      protocol: 0,
      groups: [1, 5],
      onMessage: ({ type }) => types.push(type),
      onError: (error) => errors.push(error.message),
    },
  );
  return { socket, types, errors, stop };
}

describe("subscribe", () => {
  it("passes on each message of a datagram", () => {
    const { socket, types } = listen();
    socket.deliver(0, messages({ type: 20, sequence: 0 }, { type: 21, sequence: 0 }));
    assert.deepEqual(types, [20, 21]);
  });

  it("reports lost messages and continues", () => {
    const { socket, types, errors } = listen();
    socket.deliver(105, new Uint8Array());
    socket.deliver(0, messages({ type: 20, sequence: 0 }));
    assert.deepEqual(errors, [
      "Cannot listen to netlink messages of protocol 0, groups 1, 5: ENOBUFS (messages were lost)",
    ]);
    assert.deepEqual(types, [20]);
  });

  it("reports a datagram that cannot be read", () => {
    const { socket, errors } = listen();
    socket.deliver(0, Uint8Array.of(1, 2, 3));
    assert.match(errors[0] ?? "", /^Cannot decode a message from the kernel/);
  });

  it("closes its socket at the end", () => {
    const { socket, stop } = listen();
    stop();
    assert.equal(socket.isClosed(), true);
  });
});
