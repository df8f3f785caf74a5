import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import type { IpFamily } from "../../../../src/base/ip.ts";
import { linkAttributes } from "../../../../src/kernel/link/codec.ts";
import { messageTypes } from "../../../../src/kernel/link/constants.ts";
import { TunnelLinksClient } from "../../../../src/kernel/link/tunnel-links.ts";
import { messagesOf } from "../../../../src/netlink/message.ts";
import { tunnelLinks } from "../../../../src/state/tunnel-link.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import {
  acknowledgement,
  answeringSocket,
  type MessageFields,
  messages,
} from "../../netlink/answering-socket.ts";

const names = new Map<number, string>(
  Object.entries(messageTypes).map(([name, type]) => [type, name]),
);

/** The requests that make sure of a link that is up. Everything that they create exists. */
async function requestsFor(family: IpFamily, rpFilter: string | undefined): Promise<string[]> {
  const { name, kind } = tunnelLinks[family];
  const socket = answeringSocket(([request]) => {
    const { sequence = 0, type } = request ?? {};
    if (type === messageTypes.setLink) return messages(acknowledgement(sequence));
    if (type !== messageTypes.getLink) return messages(acknowledgement(sequence, errno.EEXIST));
    const link: MessageFields = {
      ...{ type: messageTypes.newLink, sequence },
      body(writer) {
        writer.zeros(4);
        writer.u32(7);
        writer.u32(1);
        writer.zeros(4);
        linkAttributes.encode(writer, { name, info: { kind } });
      },
    };
    return messages(link, acknowledgement(sequence));
  });
  const links = new TunnelLinksClient({
    ...{ shim: socket.shim, clock: new FakeClock() },
    modules: { load: () => assert.fail("no module is missing") },
    sysctl: {
      read(path) {
        assert.equal(path, "net/ipv4/conf/kube-ipvs-ipip/rp_filter");
        return rpFilter;
      },
    },
  });
  await links.ensure(family);
  return socket.sent.flatMap((sent) =>
    [...messagesOf(sent)].map(({ type }) => names.get(type) ?? ""),
  );
}

describe("a tunnel link that is up", () => {
  it("is not changed if its reverse path filter is loose", async () => {
    assert.deepEqual(await requestsFor("IPv4", "2"), ["getLink", "newRoute", "newRule"]);
    assert.deepEqual(await requestsFor("IPv6", "1"), ["getLink", "newRoute", "newRule"]);
  });

  it("gets a loose reverse path filter again if udev or another program changed it", async () => {
    for (const rpFilter of ["1", "0", undefined]) {
      assert.deepEqual(await requestsFor("IPv4", rpFilter), [
        ...["getLink", "newAddress", "setLink"],
        ...["newRoute", "newRule"],
      ]);
    }
  });
});
