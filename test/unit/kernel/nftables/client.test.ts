import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { errno } from "../../../../src/base/errno.ts";
import { NftTablesClient } from "../../../../src/kernel/nftables/client.ts";
import type { Message } from "../../../../src/netlink/message.ts";
import {
  acknowledgement,
  answeringSocket,
  messages,
  type writeRequestHeader,
} from "../../netlink/answering-socket.ts";

/** A client whose kernel answers with this errno, and the messages that the client sent. */
function open(code: number): {
  readonly tables: NftTablesClient;
  readonly sent: Message[][];
} {
  const sent: Message[][] = [];
  const { shim } = answeringSocket((datagram) => {
    sent.push([...datagram]);
    return messages(acknowledgement(datagram[0]?.sequence ?? 0, code));
  });
  return { tables: new NftTablesClient({ shim, clock: systemClock }), sent };
}

function bodyOf({ body }: Message): string {
  const bytes = body.bytes(body.remaining, "body");
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

describe("a table of nftables", () => {
  it("is removed in a transaction, like `nft delete table ip6 kube-proxy`", async () => {
    const { tables, sent } = open(0);
    await tables.remove("IPv6", "kube-proxy");
    const [[begin, remove, end] = []] = sent;
    assert.ok(begin !== undefined && remove !== undefined && end !== undefined);
    // NFNL_MSG_BATCH_BEGIN, NFT_MSG_DELTABLE, NFNL_MSG_BATCH_END.
    assert.deepEqual([begin.type, remove.type, end.type], [0x10, 0xa02, 0x11]);
    // The acknowledged message. If a transaction is rejected as a whole, the kernel answers its first message.
    assert.deepEqual([begin.flags & 4, remove.flags & 4, end.flags & 4], [0, 4, 0]);
    assert.equal(begin.sequence, remove.sequence);
    const boundary = "00 00 00 0a";
    const name = "0f 00 01 00 6b 75 62 65 2d 70 72 6f 78 79 00 00";
    assert.deepEqual([begin, remove, end].map(bodyOf), [boundary, `0a 00 00 00 ${name}`, boundary]);
  });

  it("that does not exist is treated as removed", async () => {
    await open(errno.ENOENT).tables.remove("IPv4", "kube-proxy");
  });

  it("that cannot be removed is named in the error as in nft", async () => {
    await assert.rejects(
      open(errno.EPERM).tables.remove("IPv4", "kube-proxy"),
      /remove nft table ip kube-proxy.*EPERM/,
    );
  });

  for (const code of ["ENOENT", "EINVAL", "EOPNOTSUPP", "EAFNOSUPPORT"] as const) {
    it(`does not exist if the kernel returns ${code}`, async () => {
      assert.equal(await open(errno[code]).tables.has("IPv4", "kube-proxy"), false);
    });
  }

  it("exists if the kernel returns it", async () => {
    const { shim } = answeringSocket(([message]) => {
      const sequence = message?.sequence ?? 0;
      const body = (writer: Parameters<typeof writeRequestHeader>[0]): void => writer.u32(2);
      return messages({ type: 0xa00, sequence, body }, acknowledgement(sequence));
    });
    const tables = new NftTablesClient({ shim, clock: systemClock });
    assert.equal(await tables.has("IPv4", "kube-proxy"), true);
    tables.close();
  });
});
