import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { errno } from "../../../../src/base/errno.ts";
import { NftRulesClient } from "../../../../src/kernel/nftables/rules-client.ts";
import { acknowledgement, answeringSocket, messages } from "../../netlink/answering-socket.ts";

/** Probes a kernel that answers a transaction with this error number. */
async function isSupported(code: number): Promise<boolean> {
  const { shim } = answeringSocket((datagram) =>
    messages(acknowledgement(datagram.at(-2)?.sequence ?? 0, code)),
  );
  const rules = new NftRulesClient({ shim, clock: systemClock }, "the test says so");
  return (await rules.probe("IPv4")).isSupported;
}

describe("a family", () => {
  it("is not supported if the kernel lacks nf_tables or an expression, or denies permission", async () => {
    for (const code of [errno.EOPNOTSUPP, errno.ENOENT, errno.EPERM]) {
      assert.equal(await isSupported(code), false, String(code));
    }
  });

  it("is treated as supported if the kernel answers too late or is busy, so that its Services are still served", async () => {
    for (const code of [errno.ETIMEDOUT, errno.ENOBUFS, errno.EBUSY]) {
      assert.equal(await isSupported(code), true, String(code));
    }
  });
});
