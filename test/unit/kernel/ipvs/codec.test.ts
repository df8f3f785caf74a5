import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type IpAddress, parseIpAddress } from "../../../../src/base/ip.ts";
import type { Protocol } from "../../../../src/base/protocol.ts";
import {
  decodeRealServer,
  decodeService,
  decodeTimeouts,
  encodeChange,
  encodeListRealServers,
  encodeTimeouts,
} from "../../../../src/kernel/ipvs/codec.ts";
import type { IpvsChange } from "../../../../src/kernel/kernel.ts";
import { ByteReader } from "../../../../src/netlink/byte-reader.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import { MessageWriter, messagesOf } from "../../../../src/netlink/message.ts";
import { markServerId, type VirtualServer } from "../../../../src/state/virtual-server.ts";
import { bytesOf, readCapture } from "../../../captures/captures.ts";
import fc from "../../../support/fast-check.ts";
import { ipvsMessageText } from "../../../support/netlink-text.ts";
import { ip } from "../../../support/records.ts";

const HEADER_BYTES = 16;

const web: VirtualServer = {
  protocol: "TCP",
  address: ip("10.96.0.1"),
  port: 443,
  scheduler: "rr",
  persistenceTimeoutSeconds: 0,
  persistencePrefixLength: 32,
  flags: 0,
};
const dns6: VirtualServer = {
  protocol: "UDP",
  address: ip("fd00:96::a"),
  port: 53,
  scheduler: "rr",
  persistenceTimeoutSeconds: 10800,
  persistencePrefixLength: 128,
  flags: 0,
};
const hash: VirtualServer = {
  ...web,
  address: ip("10.96.0.2"),
  port: 80,
  scheduler: "mh",
  flags: 0x8 | 0x10,
};
const webTarget = { address: ip("10.244.1.5"), port: 6443, weight: 1, forwardingMethod: 0 };
const dnsTarget = { address: ip("fd00:244::5"), port: 5353, weight: 1, forwardingMethod: 0 };

function encoded(write: (writer: MessageWriter) => void): Uint8Array {
  const writer = new MessageWriter();
  write(writer);
  return writer.written;
}

function sentBody(name: string): Uint8Array {
  return bytesOf(readCapture("ipvs", name), "sent").slice(HEADER_BYTES);
}

/** Attributes by name, with nested attributes as objects. Unknown attributes are omitted. */
function attributesOf(body: Uint8Array): Record<string, unknown> {
  const entries = ipvsMessageText(new ByteReader(body)).matchAll(/(\w+)=(\{.*?\}|\d+)/g);
  return Object.fromEntries([...entries].map((entry) => [entry[1], JSON.parse(entry[2] ?? "")]));
}

describe("requests that are identical to ipvsadm's", () => {
  const cases: readonly { name: string; write: (writer: MessageWriter) => void }[] = [
    {
      name: "create-virtual-server",
      write: (writer) => encodeChange(writer, { kind: "virtual-server-create", after: web }),
    },
    {
      name: "create-virtual-server-persistent-ipv6",
      write: (writer) => encodeChange(writer, { kind: "virtual-server-create", after: dns6 }),
    },
    {
      name: "create-virtual-server-with-scheduler-flags",
      write: (writer) => encodeChange(writer, { kind: "virtual-server-create", after: hash }),
    },
    {
      name: "update-virtual-server",
      write: (writer) =>
        encodeChange(writer, {
          kind: "virtual-server-update",
          after: { ...web, scheduler: "lc" },
        }),
    },
    {
      name: "write-timeouts",
      write: (writer) =>
        encodeTimeouts(writer, { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 }),
    },
  ];
  for (const { name, write } of cases) {
    it(name, () => assert.deepEqual(encoded(write), sentBody(name)));
  }
});

describe("requests with the same meaning as ipvsadm's, which adds tunnel attributes", () => {
  const cases: readonly { name: string; change: IpvsChange }[] = [
    {
      name: "create-real-server",
      change: { kind: "real-server-create", virtualServer: web, after: webTarget },
    },
    {
      name: "create-real-server-ipv6",
      change: { kind: "real-server-create", virtualServer: dns6, after: dnsTarget },
    },
    {
      name: "update-real-server",
      change: {
        kind: "real-server-update",
        virtualServer: web,
        after: { ...webTarget, weight: 0 },
      },
    },
  ];
  for (const { name, change } of cases) {
    it(name, () => {
      const ours = attributesOf(encoded((writer) => encodeChange(writer, change)));
      const theirs = attributesOf(sentBody(name));
      assert.equal(ours["command"], theirs["command"]);
      assert.deepEqual(keyOf(ours), keyOf(theirs));
      assert.deepEqual(ours["destination"], theirs["destination"]);
    });
  }
});

describe("removals, for which ipvsadm sends more than the key", () => {
  const cases: readonly { name: string; change: IpvsChange }[] = [
    {
      name: "remove-virtual-server",
      change: { kind: "virtual-server-remove", before: web },
    },
    {
      name: "remove-real-server",
      change: { kind: "real-server-remove", virtualServer: web, before: webTarget },
    },
  ];
  for (const { name, change } of cases) {
    it(name, () => {
      const ours = attributesOf(encoded((writer) => encodeChange(writer, change)));
      const theirs = attributesOf(sentBody(name));
      assert.equal(ours["command"], theirs["command"]);
      assert.deepEqual(keyOf(ours), keyOf(theirs));
      const { address, port } = (theirs["destination"] ?? {}) as {
        address?: string;
        port?: number;
      };
      const destination = (ours["destination"] ?? {}) as { address?: string; port?: number };
      assert.deepEqual([destination.address, destination.port], [address, port]);
    });
  }
});

/** The key of a service. The kernel ignores other attributes of a request that needs only a key. */
function keyOf(attributes: Record<string, unknown>): readonly unknown[] {
  const service = attributes["service"] as Record<string, unknown>;
  return ["addressFamily", "protocol", "address", "port"].map((name) => service[name]);
}

describe("recorded replies", () => {
  const list = readCapture("ipvs", "list").datagrams;
  const services = list
    .filter(({ direction }) => direction === "received")
    .flatMap(({ bytes }) => [...messagesOf(bytes)])
    .filter(({ type, body }) => type === 0x1c && body.remaining > 0);
  const bodies = services.map(({ body }) => body.bytes(body.remaining, "body").slice());
  const ofCommand = (command: number): Uint8Array[] => bodies.filter((body) => body[0] === command);

  it("contain the virtual servers that ipvsadm created", () => {
    const decoded = ofCommand(1).map((body) => decodeService(new ByteReader(body)));
    const virtualServers = decoded.flatMap((service) =>
      service.kind === "virtual-server" ? [service.virtualServer] : [],
    );
    assert.deepEqual(
      virtualServers.sort((a, b) => a.port - b.port),
      [{ ...web, ...markServerId("IPv4", 7) }, dns6, hash, web],
    );
  });

  it("contain the real servers, with counts", () => {
    const counts = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };
    const decoded = ofCommand(5).map((body) => decodeRealServer(new ByteReader(body), "IPv6"));
    assert.deepEqual(
      decoded.sort((a, b) => a.port - b.port),
      [
        { ...dnsTarget, ...counts },
        { ...webTarget, ...counts },
      ],
    );
  });

  it("contain the timeouts", () => {
    const reply = bytesOf(readCapture("ipvs", "read-timeouts"), "received");
    const [message] = [...messagesOf(reply)];
    assert.ok(message);
    assert.deepEqual(decodeTimeouts(message.body), {
      tcpSeconds: 900,
      tcpFinSeconds: 120,
      udpSeconds: 300,
    });
  });

  it("yield a value or DecodeError when they are truncated anywhere", () => {
    for (const body of bodies) {
      for (let length = 0; length < body.length; length += 1) {
        const cut = (): ByteReader => new ByteReader(body.slice(0, length));
        for (const decode of [decodeService, decodeTimeouts]) assertDecodes(() => decode(cut()));
        assertDecodes(() => decodeRealServer(cut(), "IPv4"));
      }
    }
  });

  it("yield a value or DecodeError when any byte changes", () => {
    for (const body of bodies.slice(0, 3)) {
      for (const [index, value] of body.entries()) {
        for (const wrong of [0, 255, value ^ 1, value ^ 0x80]) {
          const changed = body.slice();
          changed[index] = wrong;
          assertDecodes(() => decodeService(new ByteReader(changed)));
          assertDecodes(() => decodeRealServer(new ByteReader(changed), "IPv4"));
        }
      }
    }
  });
});

function assertDecodes(decode: () => unknown): void {
  try {
    decode();
  } catch (error) {
    assert.ok(error instanceof DecodeError, String(error));
  }
}

const anyPort = fc.integer({ min: 0, max: 0xffff });
const anyAddress: fc.Arbitrary<IpAddress> = fc
  .oneof(fc.ipV4(), fc.ipV6())
  .map((text) => parseIpAddress(text))
  .filter((address): address is IpAddress => address !== undefined);
const anyServer: fc.Arbitrary<VirtualServer> = fc
  .record({
    protocol: fc.constantFrom<Protocol>("TCP", "UDP", "SCTP"),
    address: anyAddress,
    port: anyPort,
    scheduler: fc.stringMatching(/^[a-z_]{1,15}$/),
    persistenceTimeoutSeconds: fc.integer({ min: 0, max: 86_400 }),
    flags: fc.constantFrom(0, 0x4, 0x8, 0x10, 0x18, 0x20),
    prefix: fc.integer({ min: 1, max: 32 }),
  })
  .map(({ prefix, ...server }) => ({
    ...server,
    persistencePrefixLength: server.address.includes(":") ? prefix * 4 : prefix,
  }));

/** The kernel's reply has the same command and format as NEW_SERVICE. */
describe("encoding and decoding are inverse", () => {
  it("for every virtual server", () => {
    fc.assert(
      fc.property(anyServer, (virtualServer) => {
        const change = { kind: "virtual-server-create", after: virtualServer } as const;
        const body = encoded((writer) => encodeChange(writer, change));
        assert.deepEqual(decodeService(new ByteReader(body)), {
          kind: "virtual-server",
          virtualServer,
        });
      }),
    );
  });

  it("for every real server", () => {
    const anyTarget = fc.record(
      {
        address: anyAddress,
        port: anyPort,
        weight: fc.integer({ min: 0, max: 0x7fffffff }),
        forwardingMethod: fc.integer({ min: 0, max: 4 }),
      },
      { noNullPrototype: true },
    );
    fc.assert(
      fc.property(anyServer, anyTarget, (virtualServer, realServer) => {
        const change = { kind: "real-server-create", virtualServer, after: realServer } as const;
        const body = encoded((writer) => encodeChange(writer, change));
        const { activeConnections, inactiveConnections, persistentConnections, ...decoded } =
          decodeRealServer(new ByteReader(body), "IPv4");
        assert.deepEqual(decoded, realServer);
        assert.equal(activeConnections + inactiveConnections + persistentConnections, 0);
      }),
    );
  });
});

describe("decodeService", () => {
  it("returns the persistence flag without a timeout, which kube-ipvs never sets", () => {
    const virtualServer = { ...web, flags: 0x1 };
    const change = { kind: "virtual-server-create", after: virtualServer } as const;
    const body = encoded((writer) => encodeChange(writer, change));
    assert.deepEqual(decodeService(new ByteReader(body)), {
      kind: "virtual-server",
      virtualServer,
    });
  });

  it("omits an IPv4-mapped address, whose text would equal that of an IPv4 server", () => {
    const change = { kind: "virtual-server-create", after: dns6 } as const;
    const whole = encoded((writer) => encodeChange(writer, change));
    const at = Buffer.from(whole).indexOf(Buffer.from("fd000096", "hex"));
    whole.set(Buffer.from("00000000000000000000ffff0a600001", "hex"), at);
    assert.deepEqual(decodeService(new ByteReader(whole)), { kind: "foreign" });
  });

  it("rejects an invalid address family", () => {
    const change = { kind: "virtual-server-create", after: web } as const;
    const body = encoded((writer) => encodeChange(writer, change));
    body[12] = 3;
    assert.throws(() => decodeService(new ByteReader(body)), /address family 3/);
  });

  it("rejects the reply to another request", () => {
    const body = encoded((writer) => encodeListRealServers(writer, web));
    assert.throws(() => decodeService(new ByteReader(body)), /IPVS command 8 instead of 1/);
  });
});
