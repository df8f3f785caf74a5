import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CommandValues, EntryValues } from "../../../../src/kernel/ipset/attributes.ts";
import {
  type Command,
  maxEntriesPerMessage,
  messageType,
} from "../../../../src/kernel/ipset/constants.ts";
import {
  comparableType,
  entryText,
  entryValues,
  otherEntryText,
} from "../../../../src/kernel/ipset/entry.ts";
import {
  decodeListing,
  rejectedPosition,
  type SetRequest,
  setRequestKind,
} from "../../../../src/kernel/ipset/requests.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import { type Message, MessageWriter, messagesOf } from "../../../../src/netlink/message.ts";
import { readReply } from "../../../../src/netlink/reply.ts";
import { encodeRequest } from "../../../../src/netlink/request.ts";
import type { IpSet, IpSetType } from "../../../../src/state/ip-set.ts";
import type { SetEntry } from "../../../../src/state/set-entry.ts";
import { bytesOf, readCapture, readCaptures } from "../../../captures/captures.ts";
import { entrySamples } from "../../../captures/recordings.ts";
import { repliesOf } from "../../../captures/replies.ts";
import fc from "../../../support/fast-check.ts";
import { ip } from "../../../support/records.ts";

function set(name: string, type: IpSetType, overrides: Partial<IpSet> = {}): IpSet {
  return { name, type, family: "IPv4", maxElements: 65_536, ...overrides };
}

const clusterIps = set("KUBE-CLUSTER-IP", "hash:ip,port");
const small = set("KUBE-SMALL", "hash:ip,port", { maxElements: 64 });

function change(command: "add" | "remove", target: IpSet, ...texts: readonly string[]): SetRequest {
  const entries = texts.map((text) => entryValues(target.type, text as SetEntry));
  return { command, set: target, entries };
}

function encoded(request: SetRequest): Uint8Array {
  const writer = new MessageWriter();
  encodeRequest(writer, setRequestKind, request, { flags: 0, sequence: 0 });
  return writer.written;
}

function only(bytes: Uint8Array): Message {
  const [message] = messagesOf(bytes);
  assert.ok(message);
  return message;
}

/** The message with this command that the tool sent. */
function sentByTool(name: string, command: Command): Message {
  const capture = readCapture("ipset", name);
  const messages = [...messagesOf(bytesOf(capture, "sent"))];
  const found = messages.findLast(({ type }) => type === messageType(command));
  assert.ok(found, `${name}: the tool sent no ${command}`);
  return found;
}

/**
 * Removes values that the tool chooses differently: a newer protocol, the newest revision, and its input line numbers.
 */
function comparable(values: CommandValues): CommandValues {
  const { protocolVersion: _protocol, revision: _revision, lineNumber: _line, ...rest } = values;
  const entries = rest.entries?.map(({ lineNumber: _number, ...entry }) => entry);
  return { ...rest, ...(entries === undefined ? {} : { entries }) };
}

const networks6 = set("KUBE-6-SOURCES", "hash:ip,port,net", { family: "IPv6" });
const nodePorts = set("KUBE-NODE-PORT-TCP", "bitmap:port");

const requests: readonly {
  readonly name: string;
  readonly request: SetRequest;
  readonly bytes: string;
}[] = [
  {
    name: "create-hash",
    request: { command: "create", set: clusterIps, mustBeNew: true },
    bytes:
      "68000000 0206 0106 00000000 00000000 02000000 0500010006000000 14000200 4b5542452d434c55535445522d495000 " +
      "11000300 686173683a69702c706f727400000000 0500040005000000 0500050002000000 " +
      "14000780 0800124000000400 0800134000010000",
  },
  {
    name: "create-hash-ipv6",
    request: { command: "create", set: networks6, mustBeNew: false },
    bytes:
      "6c000000 0206 0104 00000000 00000000 02000000 0500010006000000 13000200 4b5542452d362d534f555243455300 00 " +
      "15000300 686173683a69702c706f72742c6e657400000000 0500040007000000 050005000a000000 " +
      "14000780 0800124000000400 0800134000010000",
  },
  {
    name: "create-bitmap",
    request: { command: "create", set: nodePorts, mustBeNew: true },
    bytes:
      "68000000 0206 0106 00000000 00000000 02000000 0500010006000000 17000200 4b5542452d4e4f44452d504f52542d54435000 00 " +
      "10000300 6269746d61703a706f727400 0500040003000000 0500050000000000 " +
      "14000780 0600044000000000 06000540ffff0000",
  },
  {
    name: "add-many",
    request: change("add", clusterIps, "10.96.0.1,tcp:443", "10.96.0.10,udp:53"),
    bytes:
      "8c000000 0906 0100 00000000 00000000 02000000 0500010006000000 14000200 4b5542452d434c55535445522d495000 " +
      "0800094000000000 54000880 " +
      "28000780 0c000180 080001400a600001 0600044001bb0000 0500070006000000 0800094000000001 " +
      "28000780 0c000180 080001400a60000a 0600044000350000 0500070011000000 0800094000000002",
  },
  {
    name: "destroy",
    request: { command: "destroy", name: "KUBE-CLUSTER-IP" },
    bytes:
      "30000000 0306 0100 00000000 00000000 02000000 0500010006000000 14000200 4b5542452d434c55535445522d495000",
  },
  {
    name: "swap",
    request: { command: "swap", first: "KUBE-CLUSTER-IP", second: "OTHER" },
    bytes:
      "3c000000 0606 0100 00000000 00000000 02000000 0500010006000000 14000200 4b5542452d434c55535445522d495000 " +
      "0a000300 4f5448455200 0000",
  },
  {
    name: "list-empty",
    request: { command: "list", set: clusterIps },
    bytes:
      "30000000 0706 0100 00000000 00000000 02000000 0500010006000000 14000200 4b5542452d434c55535445522d495000",
  },
  {
    name: "list-headers",
    request: { command: "list" },
    bytes: "24000000 0706 0100 00000000 00000000 02000000 0500010006000000 0800060000000004",
  },
];

describe("requests about sets", () => {
  for (const { name, request, bytes } of requests) {
    it(`equal these bytes: ${name}`, () => {
      assert.equal(Buffer.from(encoded(request)).toString("hex"), bytes.replaceAll(" ", ""));
    });

    it(`equal those of the ipset tool: ${name}`, () => {
      const ours = decodeListing(only(encoded(request)));
      const tools = decodeListing(sentByTool(name, request.command));
      assert.deepEqual(comparable(ours), comparable(tools));
    });
  }

  it("remove an entry with the same values that added it", () => {
    const ours = decodeListing(only(encoded(change("remove", clusterIps, "10.96.0.1,tcp:443"))));
    assert.equal(ours.entries?.length, 1);
    assert.deepEqual(ours.entries[0], {
      ...entryValues("hash:ip,port", "10.96.0.1,tcp:443" as SetEntry),
      lineNumber: 1,
    });
  });

  it("fit the largest entries, and reject more", () => {
    const sources = set("KUBE-6-SOURCES", "hash:ip,port,net", { family: "IPv6" });
    const texts = (count: number): readonly string[] =>
      Array.from({ length: count }, () => "2001:db8::5,tcp:443,2001:db8:1::/64");
    const full = encoded(change("add", sources, ...texts(maxEntriesPerMessage)));
    assert.ok(full.length <= 64 * 1024, `${full.length} bytes: more than a datagram`);
    assert.throws(() => encoded(change("add", sources, ...texts(1_000))), RangeError);
  });
});

describe("entries", () => {
  const ipv4 = fc.ipV4();
  const address = fc.oneof(ipv4, fc.constantFrom("fd00:96::a", "2001:db8::1"));
  const two = fc.oneof(fc.tuple(ipv4, ipv4), fc.constant(["fd00:96::a", "2001:db8::1"] as const));
  const protocol = fc.constantFrom("tcp", "udp", "sctp");
  const port = fc.nat(65_535);
  /** A single host is printed without a prefix length, as ipset prints it. */
  const net = fc.constantFrom("10.1.2.3", "10.1.2.0/31", "10.0.0.0/8", "128.0.0.0/1");
  const withNet = fc.oneof(fc.tuple(ipv4, net), fc.constant(["fd00:96::a", "fd00::/8"] as const));
  const kinds: readonly [IpSetType, fc.Arbitrary<string>][] = [
    ["hash:ip", address],
    ["hash:ip,port", fc.tuple(address, protocol, port).map(([a, p, n]) => `${a},${p}:${n}`)],
    [
      "hash:ip,port,ip",
      fc.tuple(two, protocol, port).map(([[a, b], p, n]) => `${a},${p}:${n},${b}`),
    ],
    [
      "hash:ip,port,net",
      fc.tuple(withNet, protocol, port).map(([[a, b], p, n]) => `${a},${p}:${n},${b}`),
    ],
    ["bitmap:port", port.map(String)],
  ];
  it("of another type than the set's are rejected", () => {
    const samples: readonly (readonly [string, readonly IpSetType[]])[] = [
      ["10.0.0.1", ["hash:ip"]],
      ["10.0.0.1,tcp:80", ["hash:ip,port"]],
      ["10.0.0.1,tcp:80,10.0.0.2", ["hash:ip,port,ip", "hash:ip,port,net"]],
      ["80", ["bitmap:port"]],
    ];
    for (const [text, types] of samples) {
      for (const [type] of kinds.filter(([one]) => !types.includes(one))) {
        const write = (): unknown => entryValues(type, text as SetEntry);
        assert.throws(write, /does not fit/, `${text} in ${type}`);
      }
    }
  });

  for (const [type, texts] of kinds) {
    it(`of ${type} are read back as they were sent`, () => {
      const target = set("KUBE-TEST", type);
      fc.assert(
        fc.property(fc.uniqueArray(texts, { minLength: 1, maxLength: 20 }), (list) => {
          const message = only(encoded(change("add", target, ...list)));
          const { entries = [] } = decodeListing(message);
          assert.deepEqual(
            entries.map((entry) => entryText(type, entry)),
            list,
          );
          assert.deepEqual(
            entries.map(({ lineNumber }) => lineNumber),
            list.map((_, index) => index + 1),
          );
        }),
      );
    });
  }
});

describe("replies about sets", () => {
  for (const { name, type, entries } of entrySamples) {
    it(`yield the text that ipset prints: ${name}`, () => {
      const values = readListing(`list-${name}`).flatMap((listing) => listing.entries ?? []);
      const texts = values.map((value) => entryText(type, value)).toSorted();
      const wanted = entries.map((entry) => entry.replace("udplite", "136")).toSorted();
      assert.deepEqual(texts, wanted);
    });

    it(`are encoded as they were read: ${name}`, () => {
      for (const value of readListing(`list-${name}`).flatMap((one) => one.entries ?? [])) {
        assert.deepEqual(entryValues(type, entryText(type, value)), withoutExtras(type, value));
      }
    });
  }

  it("contain parameters and counts", () => {
    const [hash, bitmap] = readListing("list-headers");
    assert.equal(hash?.typeName, "hash:ip,port");
    assert.equal(hash.family, 2);
    assert.deepEqual(pick(hash), { maxElements: 65_536, references: 0, elementCount: 1 });
    assert.equal(hash.entries, undefined);
    assert.equal(bitmap?.name, "KUBE-NODE-PORT-TCP");
    assert.equal(bitmap.parameters?.lastPort, 65_535);
  });

  it("have no entries for an empty set", () => {
    assert.deepEqual(readListing("list-empty")[0]?.entries, []);
  });

  const refusals: readonly [string, Command, SetRequest, number, RegExp][] = [
    [
      "create-with-another-capacity",
      "create",
      { command: "create", set: clusterIps, mustBeNew: false },
      17,
      /^Cannot create set KUBE-CLUSTER-IP \(hash:ip,port\): EEXIST \(a set with this name but a different type/,
    ],
    [
      "destroy-referenced",
      "destroy",
      { command: "destroy", name: "KUBE-CLUSTER-IP" },
      4100,
      /^Cannot destroy set KUBE-CLUSTER-IP: IPSET_ERR_BUSY \(a rule or another set references/,
    ],
    [
      "list-absent",
      "list",
      { command: "list", set: clusterIps },
      2,
      /^Cannot list set KUBE-CLUSTER-IP: ENOENT \(the set does not exist\)$/,
    ],
  ];
  for (const [name, command, request, errno, message] of refusals) {
    it(`can be errors with a meaning: ${name}`, () => {
      const { outcome } = replyTo(name, command);
      assert.equal(outcome.errno, errno);
      const { operation, subject, code, meaning } = setRequestKind.describe(request, errno);
      const text = `Cannot ${operation} ${subject}: ${code ?? { 2: "ENOENT", 17: "EEXIST" }[errno]} (${meaning})`;
      assert.match(text, message);
    });
  }

  it("name the rejected entry", () => {
    const { outcome } = replyTo("add-to-a-full-set", "add");
    assert.equal(outcome.errno, 4352);
    // The tool numbers its input lines as kube-ipvs numbers entries.
    assert.equal(rejectedPosition(outcome.echo), 2);
    const request = change("add", small, "10.96.0.1,tcp:99");
    assert.equal(setRequestKind.describe(request, 4352).code, "IPSET_ERR_HASH_FULL");
  });

  it("name no entry if the message was rejected as a whole", () => {
    assert.equal(rejectedPosition(undefined), undefined);
    const whole = encoded(change("add", small, "10.96.0.1,tcp:99")).subarray(16);
    assert.equal(rejectedPosition(whole), undefined);
  });

  it("throw DecodeError for every truncated message", () => {
    for (const { name } of readCaptures("ipset")) {
      for (const { bytes, sequence } of repliesOf(readCapture("ipset", name))) {
        for (let length = 0; length < bytes.length; length += 1) {
          const cut = bytes.subarray(0, length);
          assert.throws(
            () => readReply(cut, sequence, readWhole),
            DecodeError,
            `${name} ${length}`,
          );
        }
        readReply(bytes, sequence, readWhole);
      }
    }
  });

  it("are decoded or throw DecodeError for all bytes", () => {
    const listing = replyTo("list-networks", "list");
    assert.equal(listing.values.length, 1);
    const [whole] = repliesOf(readCapture("ipset", "list-networks"));
    assert.ok(whole);
    fc.assert(
      fc.property(fc.nat(whole.bytes.length - 1), fc.nat(255), (at, value) => {
        const bytes = whole.bytes.slice();
        bytes[at] = value;
        try {
          for (const { entries = [] } of readReply(bytes, whole.sequence, readWhole).values) {
            for (const entry of entries) entryText("hash:ip,port,net", entry);
          }
        } catch (error) {
          assert.ok(error instanceof DecodeError, String(error));
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it("contain a network without its host bits, and none with an invalid length", () => {
    const address = ip("198.51.100.7");
    const values = { address, port: 443, protocolNumber: 6, secondAddress: address };
    const textOf = (secondPrefixLength: number): string =>
      entryText("hash:ip,port,net", { ...values, secondPrefixLength });
    assert.equal(textOf(24), "198.51.100.7,tcp:443,198.51.100.0/24");
    assert.equal(textOf(32), "198.51.100.7,tcp:443,198.51.100.7");
    assert.throws(() => textOf(33), DecodeError);
  });
});

describe("entries in third-party sets", () => {
  const [address, secondAddress] = [ip("10.1.0.0"), ip("192.0.2.0")];
  const both = { address, prefixLength: 16, secondAddress, secondPrefixLength: 24 };
  const ports = { port: 80, protocolNumber: 6 };
  const cases: readonly (readonly [type: string, values: EntryValues, text: string])[] = [
    ["hash:net", both, "10.1.0.0/16"],
    ["hash:net", { address, prefixLength: 32, flags: 4 }, "10.1.0.0 nomatch"],
    ["hash:net", { address: ip("fd00::"), prefixLength: 8 }, "fd00::/8"],
    ["bitmap:ip", { address }, "10.1.0.0"],
    ["bitmap:port", { port: 80 }, "80"],
    ["hash:net,port", { ...both, ...ports, flags: 5 }, "10.1.0.0/16,tcp:80 nomatch"],
    ["hash:ip,port", { address, port: 7, protocolNumber: 136 }, "10.1.0.0,136:7"],
    ["hash:net,net", both, "10.1.0.0/16,192.0.2.0/24"],
    ["hash:net,port,net", { ...both, ...ports }, "10.1.0.0/16,tcp:80,192.0.2.0/24"],
  ];
  for (const [type, values, text] of cases)
    it(`have the text that ipset prints: ${type} ${text}`, () => {
      assert.ok(comparableType.test(type));
      assert.equal(otherEntryText(type, values), text);
    });

  it("of other types are not compared with packets", () => {
    for (const type of ["hash:mac", "hash:ip,mark", "hash:net,iface", "list:set", "bitmap:ip,mac"])
      assert.ok(!comparableType.test(type), type);
  });
});

function readWhole(message: Message): CommandValues | undefined {
  return message.type >> 8 === 6 ? decodeListing(message) : undefined;
}

function readListing(name: string): readonly CommandValues[] {
  return replyTo(name, "list").values;
}

/** The last reply to a message of this command. */
function replyTo(name: string, command: Command): ReturnType<typeof readReply<CommandValues>> {
  const { sequence } = sentByTool(name, command);
  const reply = repliesOf(readCapture("ipset", name)).find((one) => one.sequence === sequence);
  assert.ok(reply, `${name}: no reply to ${command}`);
  return readReply(reply.bytes, sequence, readWhole);
}

function pick({ parameters = {} }: CommandValues): object {
  const { maxElements, references, elementCount } = parameters;
  return { maxElements, references, elementCount };
}

/** The kernel also sends the prefix length of single hosts, and none for hash:ip,port,ip. */
function withoutExtras(type: IpSetType, value: object): object {
  const { lineNumber: _line, ...rest } = value as Record<string, unknown>;
  return type === "hash:ip,port,net" ? { secondPrefixLength: 32, ...rest } : rest;
}
