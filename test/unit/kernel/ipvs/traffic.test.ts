import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  readRealServerTraffic,
  readVirtualServerTraffic,
  sumConnections,
} from "../../../../src/kernel/ipvs/traffic.ts";
import { ByteReader } from "../../../../src/netlink/byte-reader.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import { MessageWriter, messagesOf } from "../../../../src/netlink/message.ts";
import { noTraffic, trafficSince } from "../../../../src/state/traffic.ts";
import { markServerId } from "../../../../src/state/virtual-server.ts";
import { bytesOf, readCapture } from "../../../captures/captures.ts";

type Attribute = readonly [type: number, write: (writer: MessageWriter) => void];

function nested(writer: MessageWriter, type: number, attributes: readonly Attribute[]): void {
  const start = writer.beginAttribute(type);
  for (const [inner, write] of attributes) {
    const one = writer.beginAttribute(inner);
    write(writer);
    writer.endAttribute(one);
  }
  writer.endAttribute(start);
}

/** Builds a message of a GET_SERVICE (1) or GET_DEST (5) reply. */
function bodyOf(command: 1 | 5, attributes: readonly Attribute[]): ByteReader {
  const writer = new MessageWriter();
  writer.u8(command);
  writer.zeros(3);
  nested(writer, command === 1 ? 1 : 2, attributes);
  return new ByteReader(writer.written);
}

/** In this machine's byte order. */
const u64 = (value: bigint): Uint8Array => new Uint8Array(BigUint64Array.of(value).buffer);

const address = (type: number): Attribute => [
  type,
  (writer) => writer.bytes(Uint8Array.of(10, 96, 0, 1, ...new Array<number>(12).fill(0))),
];
const stats64 = (...counters: readonly bigint[]): Attribute => [
  12,
  (writer) => {
    for (const [index, counter] of counters.entries()) {
      const one = writer.beginAttribute(index + 1);
      writer.bytes(u64(counter));
      writer.endAttribute(one);
    }
  },
];
const stats: Attribute = [
  10,
  (writer) => {
    const counters: readonly Attribute[] = [
      [1, (inner) => inner.u32(1)],
      [2, (inner) => inner.u32(2)],
      [3, (inner) => inner.u32(3)],
      [4, (inner) => inner.bytes(u64(4n))],
      [5, (inner) => inner.bytes(u64(5n))],
      [6, (inner) => inner.u32(99)],
    ];
    for (const [type, write] of counters) {
      const one = writer.beginAttribute(type);
      write(writer);
      writer.endAttribute(one);
    }
  },
];
const service: readonly Attribute[] = [
  [1, (writer) => writer.u16(2)],
  [2, (writer) => writer.u16(6)],
  address(3),
  [4, (writer) => writer.u16be(80)],
];

describe("IPVS counters", () => {
  it("of an IPv6 virtual server at an IPv4-mapped address are omitted, because it would look like an IPv4 one", () => {
    const mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 96, 0, 1];
    const [, protocol, , port] = service as readonly [Attribute, Attribute, Attribute, Attribute];
    const body = bodyOf(1, [
      [1, (writer) => writer.u16(10)],
      protocol,
      [3, (writer) => writer.bytes(Uint8Array.from(mapped))],
      port,
    ]);
    assert.equal(readVirtualServerTraffic(body), undefined);
  });

  it("of a virtual server have 64 bits", () => {
    const wide = stats64(5_000_000_000n, 2n ** 33n, 3n, 2n ** 40n, 1n, 7n);
    for (const order of [
      [stats, wide],
      [wide, stats],
    ]) {
      const read = readVirtualServerTraffic(bodyOf(1, [...service, ...order]));
      assert.deepEqual(read, {
        protocol: "TCP",
        address: "10.96.0.1",
        port: 80,
        traffic: {
          connections: 5_000_000_000,
          packetsIn: 2 ** 33,
          packetsOut: 3,
          bytesIn: 2 ** 40,
          bytesOut: 1,
        },
      });
    }
  });

  it("have 32 bits if the kernel has no others", () => {
    const read = readVirtualServerTraffic(bodyOf(1, [...service, stats]));
    const expected = { connections: 1, packetsIn: 2, packetsOut: 3, bytesIn: 4, bytesOut: 5 };
    assert.deepEqual(read?.traffic, expected);
  });

  it("of a firewall mark belong to the virtual server with the mark", () => {
    const mark: Attribute = [5, (writer) => writer.u32(7)];
    const family: Attribute = [1, (writer) => writer.u16(2)];
    const { traffic: _, ...id } = readVirtualServerTraffic(bodyOf(1, [family, mark, stats])) ?? {};
    assert.deepEqual(id, markServerId("IPv4", 7));
  });

  it("of real servers include their connections, which can be summed", () => {
    const body = (active: number): ByteReader =>
      bodyOf(5, [
        address(1),
        [2, (writer) => writer.u16be(8080)],
        [4, (writer) => writer.u32(3)],
        [7, (writer) => writer.u32(active)],
        [8, (writer) => writer.u32(10)],
        stats64(1n, 2n, 3n, 4n, 5n),
      ]);
    assert.deepEqual(readRealServerTraffic(body(4), "IPv4"), {
      address: "10.96.0.1",
      port: 8080,
      weight: 3,
      activeConnections: 4,
      inactiveConnections: 10,
      traffic: { connections: 1, packetsIn: 2, packetsOut: 3, bytesIn: 4, bytesOut: 5 },
    });
    assert.deepEqual(sumConnections([body(4), body(2)]), {
      activeConnections: 6,
      inactiveConnections: 20,
    });
  });

  it("are read from every recorded reply", () => {
    let count = 0;
    for (const { body } of messagesOf(bytesOf(readCapture("ipvs", "list"), "received"))) {
      const bytes = body.bytes(body.remaining, "body").slice();
      if (bytes[0] === 1) readVirtualServerTraffic(new ByteReader(bytes));
      else if (bytes[0] === 5) readRealServerTraffic(new ByteReader(bytes), "IPv4");
      else continue;
      count += 1;
    }
    assert.ok(count > 2, `${count}`);
  });

  it("are rejected if a message is truncated", () => {
    const writer = new MessageWriter();
    writer.u8(1);
    writer.zeros(7);
    writer.u16(200);
    writer.u16(12);
    assert.throws(() => readVirtualServerTraffic(new ByteReader(writer.written)), DecodeError);
    assert.throws(() => readVirtualServerTraffic(bodyOf(5, [])), DecodeError);
  });
});

describe("traffic between two readings", () => {
  const before = { ...noTraffic, connections: 10, bytesIn: 100 };

  it("is the difference", () => {
    const now = { ...noTraffic, connections: 15, bytesIn: 150 };
    assert.deepEqual(trafficSince(before, now), { ...noTraffic, connections: 5, bytesIn: 50 });
  });

  it("is the whole count if the server is new or was recreated", () => {
    const now = { ...noTraffic, connections: 3, bytesIn: 500 };
    assert.deepEqual(trafficSince(before, now), now);
    assert.deepEqual(trafficSince(undefined, now), now);
  });
});
