import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { describe, it } from "node:test";
import { keepFairly, sourceOf } from "../../../../src/daemon/http/fair-connections.ts";

class FakeSocket extends EventEmitter {
  readonly remoteAddress: string;
  isOpen = true;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  destroy(): void {
    this.isOpen = false;
    this.emit("close");
  }
}

function opener(most: number): (address: string) => FakeSocket {
  const keep = keepFairly(most);
  return (address) => {
    const socket = new FakeSocket(address);
    keep(socket as unknown as Socket);
    return socket;
  };
}

describe("a server's connections", () => {
  it("leave room for a probe while one source opens connections endlessly", () => {
    const open = opener(200);
    const probe = open("192.168.10.11");
    const flood = Array.from({ length: 10_000 }, () => open("203.0.113.7"));
    assert.equal(probe.isOpen, true);
    assert.equal(flood.filter(({ isOpen }) => isOpen).length, 199);
    assert.equal(flood.at(-1)?.isOpen, true, "its newest stays");
  });

  it("count an IPv6 network as one source", () => {
    const open = opener(10);
    const probe = open("::ffff:192.168.10.11");
    for (let index = 1; index < 1_000; index += 1) open(`2001:db8:0:1::${index.toString(16)}`);
    assert.equal(probe.isOpen, true);
  });

  it("are not counted after they end", () => {
    const open = opener(2);
    const first = open("192.168.10.1");
    open("192.168.10.2").destroy();
    open("192.168.10.3");
    assert.equal(first.isOpen, true);
  });

  it("recognize a source by each form of its address", () => {
    for (const [address, source] of [
      ["10.0.0.1", "10.0.0.1"],
      ["::ffff:10.0.0.1", "10.0.0.1"],
      ["fe80::1%eth0", "fe80::"],
      ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"],
      ["::1", "::"],
      ["", ""],
    ] as const) {
      assert.equal(sourceOf(address), source);
    }
  });
});
