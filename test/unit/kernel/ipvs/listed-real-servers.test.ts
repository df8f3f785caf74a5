import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import { decodeRealServer } from "../../../../src/kernel/ipvs/codec.ts";
import { ListedRealServers } from "../../../../src/kernel/ipvs/listed-real-servers.ts";
import { ByteReader } from "../../../../src/netlink/byte-reader.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import { MessageWriter, messagesOf } from "../../../../src/netlink/message.ts";
import type { RealServer } from "../../../../src/state/real-server.ts";
import { bytesOf, readCapture } from "../../../captures/captures.ts";
import { real } from "../../../contract/servers.ts";

type Attribute = readonly [type: number, write: (writer: MessageWriter) => void];

const address = [10, 244, 1, 5];
const required: readonly Attribute[] = [
  [1, (writer) => writer.bytes(Uint8Array.of(...address, ...new Array<number>(12).fill(0)))],
  [2, (writer) => writer.u16be(8080)],
  [3, (writer) => writer.u32(0x100)],
  [4, (writer) => writer.u32(7)],
];
const ofIpv4: Attribute = [11, (writer) => writer.u16(2)];

/** Builds a message of a GET_DEST reply. */
function bodyOf(attributes: readonly Attribute[], command = 5): Uint8Array {
  const writer = new MessageWriter();
  writer.u8(command);
  writer.zeros(3);
  const start = writer.beginAttribute(2);
  for (const [type, write] of attributes) {
    const one = writer.beginAttribute(type);
    write(writer);
    writer.endAttribute(one);
  }
  writer.endAttribute(start);
  return writer.written;
}

function read(bodies: readonly Uint8Array[], family: IpFamily = "IPv4"): ListedRealServers {
  const listed = new ListedRealServers();
  listed.read(
    bodies.map((body) => new ByteReader(body)),
    family,
  );
  return listed;
}

function listOf(servers: readonly RealServer[]): ListedRealServers {
  return read(
    servers.map(({ address: text, weight, port }) =>
      bodyOf([
        [
          1,
          (writer) =>
            writer.bytes(
              Uint8Array.of(...text.split(".").map(Number), ...new Array<number>(12).fill(0)),
            ),
        ],
        [2, (writer) => writer.u16be(port)],
        [3, (writer) => writer.u32(0)],
        [4, (writer) => writer.u32(weight)],
        ofIpv4,
      ]),
    ),
  );
}

describe("real servers as listed", () => {
  it("equal those of the other decoder", () => {
    let count = 0;
    for (const message of messagesOf(bytesOf(readCapture("ipvs", "list"), "received"))) {
      const bytes = message.body.bytes(message.body.remaining, "body").slice();
      if (bytes[0] !== 5) continue;
      count += 1;
      const { address, port, weight, forwardingMethod } = decodeRealServer(
        new ByteReader(bytes),
        "IPv4",
      );
      const expected = { address, port, weight, forwardingMethod };
      assert.deepEqual(read([bytes]).toList(), [expected]);
      assert.ok(read([bytes]).areSame([expected]));
    }
    assert.equal(count, 2);
  });

  it("have the virtual server's family if an older kernel sends none", () => {
    const want = { address: "10.244.1.5", port: 8080, weight: 7, forwardingMethod: 0 };
    assert.deepEqual(read([bodyOf(required)]).toList(), [want]);
    const zero: Attribute = [11, (writer) => writer.u16(0)];
    assert.deepEqual(read([bodyOf([...required, zero])]).toList(), [want]);
    const [mixed] = read([bodyOf([...required, ofIpv4])], "IPv6").toList();
    assert.equal(mixed?.address, "10.244.1.5");
  });

  const three = [real("10.244.1.5"), real("10.244.1.6", { weight: 0 }), real("10.244.1.7")];
  const [first, second, third] = three as [RealServer, RealServer, RealServer];

  it("are equal in any order", () => {
    const listed = listOf(three);
    for (const order of [three, three.toReversed(), [second, third, first]]) {
      assert.ok(listed.areSame(order));
    }
    assert.ok(listOf([]).areSame([]));
  });

  const others: readonly (readonly [string, readonly RealServer[]])[] = [
    ["one less", [first, second]],
    ["one more", [...three, real("10.244.1.8")]],
    ["another weight", [first, { ...second, weight: 1 }, third]],
    ["another port", [first, second, { ...third, port: 8081 }]],
    ["another method", [{ ...first, forwardingMethod: 3 }, second, third]],
    ["another address", [first, second, real("10.244.1.8")]],
    ["another family", [first, second, real("fd00::7")]],
  ];
  for (const [what, servers] of others) {
    it(`are not equal with ${what}`, () => assert.equal(listOf(three).areSame(servers), false));
  }

  it("contain nothing from an earlier, longer list", () => {
    const listed = listOf(Array.from({ length: 200 }, (_, index) => real(`10.244.2.${index}`)));
    assert.equal(listed.toList().length, 200);
    listed.read([], "IPv4");
    assert.deepEqual(listed.toList(), []);
  });

  it("are rejected if an attribute is missing, unknown or truncated", () => {
    const whole = bodyOf([...required, ofIpv4]);
    for (let length = 0; length < whole.length - 8; length += 1) {
      assert.throws(() => read([whole.subarray(0, length)]), DecodeError, `${length} bytes`);
    }
    for (let missing = 0; missing < required.length; missing += 1) {
      assert.throws(() => read([bodyOf(required.toSpliced(missing, 1))]), DecodeError);
    }
    const odd: Attribute = [11, (writer) => writer.u16(7)];
    assert.throws(() => read([bodyOf([...required, odd])]), DecodeError);
    assert.throws(() => read([bodyOf(required, 1)]), DecodeError);
  });
});
