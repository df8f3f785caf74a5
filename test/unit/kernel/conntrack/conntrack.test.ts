import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ConntrackClient } from "../../../../src/kernel/conntrack/client.ts";
import { decodeFlow } from "../../../../src/kernel/conntrack/codec.ts";
import { ByteReader } from "../../../../src/netlink/byte-reader.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import { type Message, messagesOf } from "../../../../src/netlink/message.ts";
import { type Flow, isSelected } from "../../../../src/state/flow.ts";
import { bytesOf, readCapture, withSequence } from "../../../captures/captures.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { flowMessageText } from "../../../support/netlink-text.ts";
import { ip } from "../../../support/records.ts";
import {
  type Answer,
  acknowledgement,
  answeringSocket,
  done,
  messages,
} from "../../netlink/answering-socket.ts";

const [ENOENT, EINVAL, EPERM] = [2, 22, 1];
const NEW_FLOW = 0x100;
const DELETE = 0x102;

/** The flow that test/captures/record.ts created. The kernel assigns the ID. */
const dnsFlow: Omit<Flow, "id"> = {
  protocol: "UDP",
  source: ip("192.0.2.1"),
  sourcePort: 4000,
  destination: ip("10.96.0.10"),
  destinationPort: 53,
  replySource: ip("10.244.1.5"),
  replySourcePort: 5353,
};
const dnsFlow6: Omit<Flow, "id"> = {
  protocol: "UDP",
  source: ip("fd00::1"),
  sourcePort: 4000,
  destination: ip("fd00:96::a"),
  destinationPort: 53,
  replySource: ip("fd00:244::5"),
  replySourcePort: 5353,
};

function open(answer: (requests: readonly Message[], count: number) => Answer): {
  readonly conntrack: ConntrackClient;
  readonly sent: readonly Uint8Array[];
} {
  const { shim, sent } = answeringSocket(answer);
  return { conntrack: new ConntrackClient({ shim, clock: new FakeClock() }), sent };
}

function captured(facility: string, name: string): (requests: readonly Message[]) => Uint8Array {
  const bytes = bytesOf(readCapture(facility, name), "received");
  return ([request]) => withSequence(bytes, request?.sequence ?? 0);
}

function withoutId({ id, ...flow }: Flow): Omit<Flow, "id"> {
  assert.ok(id !== undefined && id > 0);
  return flow;
}

function textOf(datagram: Uint8Array | undefined): string {
  return [...messagesOf(datagram ?? new Uint8Array())]
    .map(({ type, body }) => `${type.toString(16)} ${flowMessageText(body)}`)
    .join("\n");
}

describe("listUdpFlows", () => {
  it("returns the UDP flow that the kernel listed, without the TCP flow", async () => {
    const { conntrack } = open(captured("conntrack", "list-udp"));
    assert.deepEqual((await conntrack.listUdpFlows("IPv4")).map(withoutId), [dnsFlow]);
  });

  it("reads an IPv6 flow", async () => {
    const { conntrack } = open(captured("conntrack", "list-udp-ipv6"));
    assert.deepEqual((await conntrack.listUdpFlows("IPv6")).map(withoutId), [dnsFlow6]);
  });

  it("returns the zone of a flow that has one", async () => {
    const { conntrack } = open(captured("conntrack-zones", "list-udp-with-zone"));
    const flows = (await conntrack.listUdpFlows("IPv4")).map(withoutId);
    const byZone = flows.sort((a, b) => (a.zone ?? 0) - (b.zone ?? 0));
    assert.deepEqual(byZone, [dnsFlow, { ...dnsFlow, zone: 7 }]);
  });

  it("tells the kernel to omit other protocols", async () => {
    const { conntrack, sent } = open(([request]) => messages(done(request?.sequence ?? 0)));
    await conntrack.listUdpFlows("IPv4");
    assert.equal(
      textOf(sent[0]),
      '101 original={"protocol":{"number":17}} filter={"originalFlags":8}',
    );
  });

  it("requests only flows to a virtual server, to an address, or with replies from one real server", async () => {
    const { conntrack, sent } = open(([request]) => messages(done(request?.sequence ?? 0)));
    const selection = { destination: ip("10.96.0.10"), destinationPort: 53 };
    await conntrack.listUdpFlows("IPv4", selection);
    const answeredBy = { address: ip("10.244.1.5"), port: 5353 };
    await conntrack.listUdpFlows("IPv4", { ...selection, answeredBy });
    await conntrack.listUdpFlows("IPv4", { destination: selection.destination });
    const original =
      'original={"ip":{"ipv4Destination":"0a60000a"},"protocol":{"number":17,"destinationPort":53}}';
    const reply =
      'reply={"ip":{"ipv4Source":"0af40105"},"protocol":{"number":17,"sourcePort":5353}}';
    assert.deepEqual(sent.map(textOf), [
      `101 ${original} filter={"originalFlags":42}`,
      `101 ${original} ${reply} filter={"originalFlags":42,"replyFlags":25}`,
      `101 ${original.replace(',"destinationPort":53', "")} filter={"originalFlags":10}`,
    ]);
  });

  it("selects IPv6 flows by their ports, because kernels compare IPv6 addresses wrongly", async () => {
    const { conntrack, sent } = open(captured("conntrack", "list-udp-ipv6"));
    const selection = { destination: ip("fd00:96::a"), destinationPort: 53 };
    const answeredBy = { address: ip("fd00:244::5"), port: 5353 };
    assert.equal((await conntrack.listUdpFlows("IPv6", { ...selection, answeredBy })).length, 1);
    assert.equal(
      textOf(sent[0]),
      '101 original={"protocol":{"number":17,"destinationPort":53}} reply={"protocol":{"number":17,"sourcePort":5353}} filter={"originalFlags":40,"replyFlags":24}',
    );
    const elsewhere = { ...selection, destination: ip("fd00:96::b") };
    assert.equal((await conntrack.listUdpFlows("IPv6", elsewhere)).length, 0);
  });

  it("selects flows to all of 127.0.0.0/8 by port, because one address represents all of them", async () => {
    const onLoopback = (address: string): Flow => ({ ...dnsFlow, destination: ip(address) });
    const selection = { destination: ip("127.0.0.1"), destinationPort: 53 };
    assert.ok(isSelected(onLoopback("127.0.0.1"), selection));
    assert.ok(isSelected(onLoopback("127.3.2.1"), selection));
    assert.ok(!isSelected(onLoopback("10.96.0.10"), selection));
    const { conntrack, sent } = open(([request]) => messages(done(request?.sequence ?? 0)));
    await conntrack.listUdpFlows("IPv4", selection);
    assert.equal(
      textOf(sent[0]),
      '101 original={"protocol":{"number":17,"destinationPort":53}} filter={"originalFlags":40}',
    );
  });

  it("omits unselected flows if the kernel lists everything", async () => {
    const { conntrack } = open(captured("conntrack", "list-udp"));
    const selection = { destination: ip("10.96.0.10"), destinationPort: 53 };
    assert.equal((await conntrack.listUdpFlows("IPv4", selection)).length, 1);
    const elsewhere = { ...selection, destinationPort: 54 };
    assert.equal((await conntrack.listUdpFlows("IPv4", elsewhere)).length, 0);
    const answeredBy = { address: ip("10.244.1.6"), port: 5353 };
    assert.equal((await conntrack.listUdpFlows("IPv4", { ...selection, answeredBy })).length, 0);
  });

  it("requests everything if the kernel does not support the filter, and remembers this", async () => {
    const { conntrack, sent } = open(([request], count) => {
      const sequence = request?.sequence ?? 0;
      return messages(count === 0 ? acknowledgement(sequence, EINVAL) : done(sequence));
    });
    await conntrack.listUdpFlows("IPv4");
    await conntrack.listUdpFlows("IPv6");
    assert.deepEqual(
      sent.map((datagram) => textOf(datagram).includes("filter")),
      [true, false, false],
    );
  });

  it("requests the filter again if nothing could be listed, because the module was missing", async () => {
    const { conntrack, sent } = open(([request], count) => {
      const sequence = request?.sequence ?? 0;
      return messages(count < 2 ? acknowledgement(sequence, EINVAL) : done(sequence));
    });
    await assert.rejects(conntrack.listUdpFlows("IPv4"), { code: "EINVAL" });
    await conntrack.listUdpFlows("IPv4");
    assert.deepEqual(
      sent.map((datagram) => textOf(datagram).includes("filter")),
      [true, false, true],
    );
  });

  it("throws other errors immediately", async () => {
    const { conntrack, sent } = open(([request]) =>
      messages(acknowledgement(request?.sequence ?? 0, EPERM)),
    );
    await assert.rejects(conntrack.listUdpFlows("IPv4"), {
      message: "Cannot list UDP conntrack entries of IPv4: EPERM (kube-ipvs needs CAP_NET_ADMIN)",
    });
    assert.equal(sent.length, 1);
  });

  it("rejects a list that is truncated anywhere", async () => {
    for (const name of ["list-udp", "list-udp-ipv6"]) {
      const whole = captured("conntrack", name);
      const { length } = bytesOf(readCapture("conntrack", name), "received");
      for (let cut = 0; cut < length; cut += 1) {
        const { conntrack } = open((requests) => whole(requests).subarray(0, cut));
        await assert.rejects(conntrack.listUdpFlows("IPv4"), DecodeError, `${name}: ${cut} bytes`);
      }
    }
  });

  it("returns a flow or throws DecodeError for every truncated message", () => {
    const bytes = bytesOf(readCapture("conntrack", "list-udp"), "received");
    const [message] = [...messagesOf(bytes)].filter(({ type }) => type === NEW_FLOW);
    const body = message?.body.bytes(message.body.remaining, "body").slice() ?? new Uint8Array();
    for (let length = 0; length < body.length; length += 1) {
      try {
        decodeFlow(new ByteReader(body.slice(0, length)));
      } catch (error) {
        assert.ok(error instanceof DecodeError, String(error));
      }
    }
  });
});

describe("remove", () => {
  const flow: Flow = { ...dnsFlow, id: 0x12345678 };

  it("sends the whole tuple and the ID, as conntrack -D does", async () => {
    const theirs = readCapture("conntrack", "delete")
      .datagrams.filter(({ direction }) => direction === "sent")
      .flatMap(({ bytes }) => [...messagesOf(bytes)])
      .filter(({ type }) => type === DELETE)
      .map(({ body }) => flowMessageText(body));
    const { conntrack, sent } = open(([request]) =>
      messages(acknowledgement(request?.sequence ?? 0)),
    );
    assert.equal(await conntrack.remove([flow]), 1);
    const tuple = /original=.*?\}\}/.exec(theirs[0] ?? "")?.[0];
    assert.match(tuple ?? "", /"ipv4Destination":.*"destinationPort":53/);
    assert.equal(textOf(sent[0]), `${DELETE.toString(16)} ${tuple} id=305419896`);
  });

  it("sends the zone of a flow that has one", async () => {
    const { conntrack, sent } = open(([request]) =>
      messages(acknowledgement(request?.sequence ?? 0)),
    );
    await conntrack.remove([{ ...flow, zone: 7 }]);
    assert.match(textOf(sent[0]), / zone=7$/);
  });

  it("sends many deletions in one datagram, and counts the flows that still existed", async () => {
    const { conntrack, sent } = open((requests) =>
      messages(
        acknowledgement(requests[1]?.sequence ?? 0, ENOENT),
        acknowledgement(requests[2]?.sequence ?? 0),
      ),
    );
    const flows = [4000, 4001, 4002].map((sourcePort) => ({ ...flow, sourcePort }));
    assert.equal(await conntrack.remove(flows), 2);
    assert.equal(sent.length, 1);
  });

  it("names a flow whose deletion the kernel rejects", async () => {
    const { conntrack } = open(([request]) =>
      messages(acknowledgement(request?.sequence ?? 0, EPERM)),
    );
    await assert.rejects(conntrack.remove([flow]), {
      message:
        "Cannot delete conntrack entry UDP 192.0.2.1:4000 -> 10.96.0.10:53 (10.244.1.5:5353): EPERM (kube-ipvs needs CAP_NET_ADMIN)",
    });
  });

  it("sends nothing without flows, because an empty deletion would flush the table", async () => {
    const { conntrack, sent } = open(() => assert.fail("nothing to answer"));
    assert.equal(await conntrack.remove([]), 0);
    assert.equal(sent.length, 0);
  });
});
