import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DecodeError, NetlinkError } from "../../../src/netlink/errors.ts";
import type { RequestKind } from "../../../src/netlink/request.ts";
import { NetlinkTransport } from "../../../src/netlink/transport.ts";
import { bytesOf, type Capture, readCaptures, withSequence } from "../../captures/captures.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import fc from "../../support/fast-check.ts";
import { answeringSocket } from "./answering-socket.ts";

const kind: RequestKind<number> = {
  type: () => 0x1c,
  flags: () => 0,
  encode: (writer, number) => writer.u32(number),
  describe: () => ({ operation: "do", subject: "" }),
};

/** Passes a reply to each kind of call. Dumps that fail with EBUSY are not retried here. */
async function callsWith(reply: Uint8Array): Promise<void> {
  const calls = [
    (transport: ReturnType<typeof open>) => transport.request(kind, 1, ({ type }) => type),
    (transport: ReturnType<typeof open>) => transport.batch(kind, [1]),
  ];
  for (const call of calls) await call(open(reply)).catch(assertOurs);
}

function open(reply: Uint8Array): NetlinkTransport {
  const { shim } = answeringSocket(() => reply);
  return new NetlinkTransport({ shim, clock: new FakeClock() }, { protocol: 16 });
}

function assertOurs(error: unknown): void {
  assert.ok(error instanceof DecodeError || error instanceof NetlinkError, String(error));
}

const captures: readonly Capture[] = ["ipvs", "conntrack", "conntrack-zones"].flatMap(readCaptures);

describe("a call ends with a value, NetlinkError or DecodeError", () => {
  it("for all bytes", async () => {
    await fc.assert(fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), callsWith));
  });

  it("for every recorded reply with any byte changed", async () => {
    const replies = captures
      .map((capture) => bytesOf(capture, "received"))
      .filter(({ length }) => length > 0);
    const changed = fc
      .tuple(fc.constantFrom(...replies), fc.nat(), fc.nat(255))
      .map(([reply, place, value]) => {
        const bytes = withSequence(reply, 1);
        bytes[place % bytes.length] = value;
        return bytes;
      });
    await fc.assert(fc.asyncProperty(changed, callsWith), { numRuns: 2000 });
  });

  it("for every recorded reply that is truncated anywhere", async () => {
    for (const capture of captures) {
      const whole = withSequence(bytesOf(capture, "received"), 1);
      for (let length = 0; length < whole.length; length += 1) {
        await callsWith(whole.subarray(0, length));
      }
    }
  });
});
