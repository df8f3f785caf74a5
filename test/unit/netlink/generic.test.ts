import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DecodeError } from "../../../src/netlink/errors.ts";
import { resolveFamily } from "../../../src/netlink/generic.ts";
import type { Message } from "../../../src/netlink/message.ts";
import { NetlinkTransport } from "../../../src/netlink/transport.ts";
import { bytesOf, readCapture, withSequence } from "../../captures/captures.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type Answer, acknowledgement, answeringSocket, messages } from "./answering-socket.ts";

/** The first request of `ipvsadm -L -n`, and the reply. */
const capture = readCapture("ipvs", "resolve-family");
const IPVS_IN_CAPTURE = 0x1c;

function transportAnswering(answer: (requests: readonly Message[]) => Answer): {
  readonly transport: NetlinkTransport;
  readonly sent: Uint8Array[];
} {
  const { shim, sent } = answeringSocket(answer);
  return {
    transport: new NetlinkTransport({ shim, clock: new FakeClock() }, { protocol: 16 }),
    sent,
  };
}

function captured(requests: readonly Message[]): Uint8Array {
  return withSequence(bytesOf(capture, "received"), requests[0]?.sequence ?? 0);
}

describe("resolveFamily", () => {
  it("sends the same request as ipvsadm", async () => {
    const { transport, sent } = transportAnswering(captured);
    await resolveFamily(transport, "IPVS", "");
    const wanted = withSequence(bytesOf(capture, "sent"), 1);
    // The last four bytes of the header are the port ID, which the kernel fills in for the sender.
    wanted.fill(0, 12, 16);
    assert.deepEqual(sent, [wanted]);
  });

  it("returns the number in the recorded answer", async () => {
    const { transport } = transportAnswering(captured);
    assert.equal(await resolveFamily(transport, "IPVS", ""), IPVS_IN_CAPTURE);
  });

  it("says what to do if the kernel has no such family", async () => {
    const { transport } = transportAnswering(([request]) =>
      messages(acknowledgement(request?.sequence ?? 0, 2)),
    );
    await assert.rejects(resolveFamily(transport, "IPVS", "load ip_vs"), {
      message: "Cannot find generic netlink family IPVS: ENOENT (load ip_vs)",
    });
  });

  it("rejects an answer without an id", async () => {
    const { transport } = transportAnswering(([request]) => {
      const sequence = request?.sequence ?? 0;
      const empty = {
        type: 0x10,
        sequence,
        body: (writer: { u32(n: number): void }) => writer.u32(1),
      };
      return messages(empty, acknowledgement(sequence));
    });
    await assert.rejects(resolveFamily(transport, "IPVS", ""), DecodeError);
  });

  it("rejects a truncated answer", async () => {
    const { length } = bytesOf(capture, "received");
    for (let cut = 0; cut < length; cut += 1) {
      const { transport } = transportAnswering((requests) => captured(requests).subarray(0, cut));
      await assert.rejects(resolveFamily(transport, "IPVS", ""), DecodeError, `${cut} bytes`);
    }
  });

  it("rejects an answer with truncated attributes", async () => {
    for (let cut = 16; cut < 36; cut += 1) {
      const { transport } = transportAnswering(([request]) => {
        const sequence = request?.sequence ?? 0;
        const message = withSequence(bytesOf(capture, "received"), sequence).slice(0, cut);
        new DataView(message.buffer).setUint32(0, cut, true);
        const padding = new Uint8Array(-cut & 3);
        return new Uint8Array([...message, ...padding, ...messages(acknowledgement(sequence))]);
      });
      await assert.rejects(resolveFamily(transport, "IPVS", ""), DecodeError, `${cut} bytes`);
    }
  });
});
