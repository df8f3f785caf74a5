import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { debugSinkOf, printDatagram } from "../../../src/netlink/debug.ts";
import type { RequestKind } from "../../../src/netlink/request.ts";
import { NetlinkTransport } from "../../../src/netlink/transport.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { acknowledgement, answeringSocket, messages } from "./answering-socket.ts";

const kind: RequestKind<number> = {
  type: () => 0x1c,
  flags: () => 0,
  encode: (writer, number) => writer.u32(number),
  describe: () => ({ operation: "do", subject: "" }),
};

function lines(bytes: Uint8Array, printBody?: Parameters<typeof printDatagram>[3]): string[] {
  const printed: string[] = [];
  printDatagram((line) => printed.push(line), "sent", bytes, printBody);
  return printed;
}

describe("printDatagram", () => {
  it("prints a line per message", () => {
    const bytes = messages(
      { type: 0x1c, flags: 5, sequence: 1, body: (writer) => writer.u32(0x01020304) },
      { type: 0x1d, sequence: 2 },
    );
    assert.deepEqual(lines(bytes), [
      "netlink sent type=28 flags=0x5 sequence=1 bytes=4 04 03 02 01",
      "netlink sent type=29 flags=0x0 sequence=2 bytes=0 ",
    ]);
  });

  it("prints the body with its codec", () => {
    const bytes = messages({ type: 0x1c, sequence: 1, body: (writer) => writer.u32(7) });
    const printed = lines(bytes, (type, body) => `number ${body.u32("number")} of type ${type}`);
    assert.match(printed[0] ?? "", /bytes=4 number 7 of type 28$/);
  });

  it("prints unreadable parts as bytes", () => {
    assert.match(
      lines(Uint8Array.of(1, 2, 3))[0] ?? "",
      /^netlink sent unreadable \(.*\): 01 02 03$/,
    );
  });
});

describe("a transport", () => {
  const shim = (): ConstructorParameters<typeof NetlinkTransport>[0]["shim"] =>
    answeringSocket(([request]) => messages(acknowledgement(request?.sequence ?? 0))).shim;

  it("prints sent and received messages if requested", async () => {
    const printed: string[] = [];
    const parts = {
      shim: shim(),
      clock: new FakeClock(),
      debug: (line: string) => printed.push(line),
    };
    await new NetlinkTransport(parts, { protocol: 16 }).request(kind, 1);
    assert.deepEqual(
      printed.map((line) => line.split(" ").slice(0, 3).join(" ")),
      ["netlink sent type=28", "netlink received type=2"],
    );
  });

  it("formats nothing otherwise", async () => {
    const printBody = (): string => assert.fail("printed");
    const transport = new NetlinkTransport(
      { shim: shim(), clock: new FakeClock() },
      { protocol: 16, printBody },
    );
    await transport.request(kind, 1);
  });
});

describe("debugSinkOf", () => {
  it("is off unless KUBE_IPVS_DEBUG_NETLINK=1", () => {
    assert.equal(debugSinkOf({}), undefined);
    assert.equal(debugSinkOf({ KUBE_IPVS_DEBUG_NETLINK: "0" }), undefined);
    assert.equal(typeof debugSinkOf({ KUBE_IPVS_DEBUG_NETLINK: "1" }), "function");
  });
});
