import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { openGenerations } from "../../../../src/kernel/iptables/generations.ts";
import type { Message, MessageWriter } from "../../../../src/netlink/message.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import {
  type Answer,
  acknowledgement,
  answeringSocket,
  messages,
} from "../../netlink/answering-socket.ts";

/** NFT_MSG_NEWGEN as sent by Linux 6.18: the ID and the process ID, followed by the acknowledgment. */
function generation(id: number, { sequence }: Message): Uint8Array {
  const body = (writer: MessageWriter): void => {
    writer.u32(0);
    for (const [type, value] of [
      [1, id],
      [2, 4711],
    ] as const) {
      const start = writer.beginAttribute(type);
      writer.u32be(value);
      writer.endAttribute(start);
    }
  };
  return messages({ type: 0xa0f, sequence, body }, acknowledgement(sequence));
}

function open(answer: (message: Message) => Answer): {
  readonly generations: ReturnType<typeof openGenerations>;
  readonly socket: ReturnType<typeof answeringSocket>;
  readonly log: RecordingLogger;
} {
  const socket = answeringSocket(([message]) => answer(message as Message));
  const log = new RecordingLogger();
  const parts = { shim: socket.shim, clock: systemClock, log };
  return { generations: openGenerations("nft", parts), socket, log };
}

describe("the generation of nft rules", () => {
  it("is the number of the last commit, for both families", async () => {
    const { generations, socket } = open((message) => {
      assert.equal(message.type, 0xa10);
      return generation(70_000, message);
    });
    assert.equal(await generations.read("IPv4"), 70_000);
    assert.equal(await generations.read("IPv6"), 70_000);
    generations.close();
    assert.ok(socket.isClosed());
  });

  const unreadable: readonly (readonly [string, (message: Message) => Answer])[] = [
    ["refuses", ({ sequence }) => messages(acknowledgement(sequence, 1))],
    ["says nothing", ({ sequence }) => messages(acknowledgement(sequence))],
    ["sends half of it", (message) => generation(1, message).subarray(0, 22)],
    ["fails", () => ({ errno: 105, replies: new Uint8Array(0) })],
  ];
  for (const [what, answer] of unreadable) {
    it(`is unknown if the kernel ${what}`, async () => {
      const { generations, log } = open(answer);
      for (const family of ["IPv4", "IPv6", "IPv4"] as const) {
        assert.equal(await generations.read(family), undefined);
      }
      const told = log.lines.map(({ keys }) => keys["ipFamily"]);
      assert.deepEqual(told, what === "says nothing" ? [] : ["IPv4", "IPv6"]);
    });
  }
});
