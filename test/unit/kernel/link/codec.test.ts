import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type BindingRequest,
  bindingRequestKind,
  listLocalRoutesKind,
} from "../../../../src/kernel/link/binding.ts";
import {
  addressAttributes,
  decodeAddress,
  decodeLink,
  linkAttributes,
} from "../../../../src/kernel/link/codec.ts";
import { mainTable, messageTypes } from "../../../../src/kernel/link/constants.ts";
import {
  type LinkRequest,
  linkRequestKind,
  listAddressesKind,
  listRoutesKind,
} from "../../../../src/kernel/link/requests.ts";
import { decodeGateways } from "../../../../src/kernel/link/route-messages.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import { type Message, MessageWriter, messagesOf } from "../../../../src/netlink/message.ts";
import { readReply } from "../../../../src/netlink/reply.ts";
import { encodeRequest, type RequestKind } from "../../../../src/netlink/request.ts";
import { bytesOf, readCapture, readCaptures } from "../../../captures/captures.ts";
import { repliesOf } from "../../../captures/replies.ts";
import { ip } from "../../../contract/contract-kernel.ts";
import fc from "../../../support/fast-check.ts";

const LINK_HEADER_BYTES = 16;
const ADDRESS_HEADER_BYTES = 8;

function encoded<T>(kind: RequestKind<T>, request: T): Uint8Array {
  const writer = new MessageWriter();
  encodeRequest(writer, kind, request, { flags: 0, sequence: 0 });
  return writer.written;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

function link(operation: "find" | "create"): LinkRequest {
  return { operation, name: "kube-ipvs0" };
}

function bind(kind: "add" | "remove", address: string): BindingRequest {
  return { kind, form: "address", address: ip(address), linkName: "kube-ipvs0", linkIndex: 9 };
}

const requests: readonly [name: string, bytes: Uint8Array, expected: string][] = [
  [
    "create the link",
    encoded(linkRequestKind, link("create")),
    "48000000 1000 0106 00000000 00000000 00000000 00000000 00000000 00000000 " +
      "0f000300 6b7562652d697076733000 00 08000d0000000000 10001280 0a000100 64756d6d7900 0000",
  ],
  [
    "find the link",
    encoded(linkRequestKind, link("find")),
    "30000000 1200 0100 00000000 00000000 00000000 00000000 00000000 00000000 0f000300 6b7562652d697076733000 00",
  ],
  [
    "remove the link",
    encoded(linkRequestKind, { operation: "remove", name: "kube-ipvs0", index: 9 }),
    "20000000 1100 0100 00000000 00000000 00000000 09000000 00000000 00000000",
  ],
  [
    "list the routes of the main table",
    encoded(listRoutesKind, "IPv4"),
    "1c000000 1a00 0100 00000000 00000000 02 000000 fe 0000 01 00000000",
  ],
  [
    "add an address",
    encoded(bindingRequestKind, bind("add", "10.96.0.1")),
    "28000000 1400 0106 00000000 00000000 02200000 09000000 080001000a600001 080002000a600001",
  ],
  [
    "add an IPv6 address",
    encoded(bindingRequestKind, bind("add", "fd00:96::1")),
    "40000000 1400 0106 00000000 00000000 0a800000 09000000 " +
      "14000100 fd000096000000000000000000000001 14000200 fd000096000000000000000000000001",
  ],
  [
    "remove an address",
    encoded(bindingRequestKind, bind("remove", "10.96.0.1")),
    "28000000 1500 0100 00000000 00000000 02200000 09000000 080001000a600001 080002000a600001",
  ],
  [
    "add a local route",
    encoded(bindingRequestKind, { ...bind("add", "10.96.0.1"), form: "route" }),
    // Family and length; table local, protocol 75, scope host, type local; destination and link.
    "2c000000 1800 010c 00000000 00000000 0220 0000 ff4bfe02 00000000 080001000a600001 0800040001000000",
  ],
  [
    "remove a local route",
    encoded(bindingRequestKind, { ...bind("remove", "10.96.0.1"), form: "route" }),
    "2c000000 1900 0100 00000000 00000000 0220 0000 ff4bfe02 00000000 080001000a600001 0800040001000000",
  ],
  [
    "list local routes",
    encoded(listLocalRoutesKind, undefined),
    "1c000000 1a00 0100 00000000 00000000 0200 0000 ff4b0002 00000000",
  ],
  [
    "list addresses",
    encoded(listAddressesKind, undefined),
    "18000000 1600 0100 00000000 00000000 00000000 00000000",
  ],
];

/** The last message of a type that the tool sent or received. */
function captured(name: string, direction: "sent" | "received", type: number): Message {
  const bytes = bytesOf(readCapture("link", name), direction);
  const found = [...messagesOf(bytes)].findLast((message) => message.type === type);
  assert.ok(found, `${name}: no message of type ${type}`);
  return found;
}

function linkValues(message: Message): unknown {
  message.body.skip(LINK_HEADER_BYTES, "header");
  return linkAttributes.decode(message.body);
}

function addressValues(message: Message): unknown {
  message.body.skip(ADDRESS_HEADER_BYTES, "header");
  return addressAttributes.decode(message.body);
}

function only(bytes: Uint8Array): Message {
  const [message] = messagesOf(bytes);
  assert.ok(message);
  return message;
}

describe("requests about the link", () => {
  for (const [name, bytes, expected] of requests) {
    it(`equal these bytes: ${name}`, () => assert.equal(hex(bytes), expected.replaceAll(" ", "")));
  }

  it("create the link of 'ip link add kube-ipvs0 txqueuelen 0 type dummy'", () => {
    const ours = linkValues(only(encoded(linkRequestKind, link("create"))));
    assert.deepEqual(ours, linkValues(captured("create", "sent", messageTypes.newLink)));
  });

  it("bind addresses like 'ip address add'", () => {
    for (const [name, address] of [
      ["add-address", "10.96.0.1"],
      ["add-address-ipv6", "fd00:96::1"],
    ] as const) {
      const ours = addressValues(only(encoded(bindingRequestKind, bind("add", address))));
      assert.deepEqual(ours, addressValues(captured(name, "sent", messageTypes.newAddress)));
    }
    const removal = addressValues(only(encoded(bindingRequestKind, bind("remove", "10.96.0.1"))));
    const tools = captured("remove-address", "sent", messageTypes.deleteAddress);
    assert.deepEqual(removal, addressValues(tools));
  });

  it("are distinguished in errors", () => {
    const { operation, subject, meaning } = linkRequestKind.describe(link("create"), 95);
    assert.match(
      `${operation} ${subject}: ${meaning}`,
      /^create link kube-ipvs0: .*modprobe dummy/,
    );
    const add = bindingRequestKind.describe(bind("add", "10.96.0.1"), 19);
    assert.equal(`${add.operation} ${add.subject}`, "add address 10.96.0.1 to kube-ipvs0");
    const remove = bindingRequestKind.describe(bind("remove", "10.96.0.1"), 1);
    assert.equal(
      `${remove.operation} ${remove.subject}`,
      "remove address 10.96.0.1 from kube-ipvs0",
    );
  });
});

describe("replies about links and addresses", () => {
  const kinds: readonly [name: string, link: string, kind: string | undefined][] = [
    ["find", "kube-ipvs0", "dummy"],
    ["find-of-another-kind", "kube-ipvs0", "bridge"],
    ["find-loopback", "lo", undefined],
  ];
  for (const [name, linkName, kind] of kinds) {
    it(`contain a link's kind: ${name}`, () => {
      const found = decodeLink(captured(name, "received", messageTypes.newLink));
      assert.equal(found?.name, linkName);
      assert.equal(found.kind, kind);
      assert.ok(found.index > 0);
    });
  }

  it("contain the MTU, the link below and the bridge of a bridge port", () => {
    // nlmsghdr; ifinfomsg; IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER; IFLA_LINKINFO with IFLA_INFO_KIND.
    const message =
      "54000000 1000 0000 00000000 00000000 0000 0100 05000000 43100000 00000000 0a000300 766574683000 0000 " +
      "08000400 dc050000 08000500 06000000 08000a00 04000000 10001280 09000100 7665746800 000000";
    const bytes = Uint8Array.from(Buffer.from(message.replaceAll(" ", ""), "hex"));
    assert.deepEqual(decodeLink(only(bytes)), {
      ...{ index: 5, name: "veth0", kind: "veth", isUp: true, isLoopback: false },
      ...{ mtuBytes: 1_500, lowerIndex: 6, bridgeIndex: 4 },
    });
  });

  it("contain addresses: the local end of point-to-point links, both families", () => {
    const bytes = bytesOf(readCapture("link", "list-addresses"), "received");
    const addresses = [...messagesOf(bytes)].flatMap((message) => decodeAddress(message) ?? []);
    assert.deepEqual(
      addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`),
      ["127.0.0.1/8", "10.96.0.1/32", "192.0.2.1/32", "::1/128", "fd00:96::1/128"],
    );
  });

  it("contain the gateways of routes, including multiple hops and gateways of the other family", () => {
    const gateways = ["list-routes", "list-routes-ipv6"].flatMap((name) => {
      const datagrams = readCapture("link", name).datagrams.filter(
        ({ direction }) => direction === "received",
      );
      const messages = datagrams.flatMap(({ bytes }) => [...messagesOf(bytes)]);
      return messages.flatMap((message) => decodeGateways(message) ?? []);
    });
    assert.deepEqual(gateways, ["192.0.2.1", "192.0.2.2", "fd00:10::2", "fd00:10::1"]);
  });

  it("contain no gateways from other tables", () => {
    const changed = firstRoutes().slice();
    const tableInHeader = 20;
    const tableAttribute = 32;
    assert.equal(changed[tableInHeader], mainTable);
    assert.equal(changed[tableAttribute], mainTable);
    changed[tableAttribute] = 77;
    const [first] = messagesOf(changed);
    assert.ok(first);
    assert.deepEqual(decodeGateways(first), undefined);
  });

  const refusals: readonly [name: string, errno: number][] = [
    ["create-that-exists", 17],
    ["find-absent", 19],
    ["add-address-that-exists", 17],
    ["remove-address-that-is-absent", 99],
  ];
  for (const [name, errno] of refusals) {
    it(`can be errors: ${name}`, () => {
      const numbers = repliesOf(readCapture("link", name)).map(
        ({ bytes, sequence }) => readReply(bytes, sequence).outcome.errno,
      );
      assert.ok(numbers.includes(errno), `${name}: ${numbers}`);
    });
  }

  it("throw DecodeError for every truncated message", () => {
    for (const { name } of readCaptures("link")) {
      for (const { bytes, sequence } of repliesOf(readCapture("link", name))) {
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
    const whole = repliesOf(readCapture("link", "list-addresses")).at(-1);
    assert.ok(whole);
    fc.assert(
      fc.property(fc.nat(whole.bytes.length - 1), fc.nat(255), (at, value) => {
        const bytes = whole.bytes.slice();
        bytes[at] = value;
        try {
          readReply(bytes, whole.sequence, readWhole);
        } catch (error) {
          assert.ok(error instanceof DecodeError, String(error));
        }
      }),
      { numRuns: 3_000 },
    );
  });
});

function readWhole(message: Message): unknown {
  return decodeLink(message) ?? decodeAddress(message) ?? decodeGateways(message);
}

/** The first datagram of the reply to `ip route show`. */
function firstRoutes(): Uint8Array {
  const { datagrams } = readCapture("link", "list-routes");
  const answer = datagrams.find(({ direction }) => direction === "received");
  assert.ok(answer);
  return answer.bytes;
}
