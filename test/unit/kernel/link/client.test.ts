import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import type { AddressChange, Modules } from "../../../../src/kernel/kernel.ts";
import { DummyLinkClient, LinkKindError } from "../../../../src/kernel/link/client.ts";
import { messageTypes } from "../../../../src/kernel/link/constants.ts";
import { type Message, messagesOf } from "../../../../src/netlink/message.ts";
import { readCapture, withSequence } from "../../../captures/captures.ts";
import { repliesOf } from "../../../captures/replies.ts";
import { ip } from "../../../contract/contract-kernel.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import {
  type Answer,
  acknowledgement,
  answeringSocket,
  messages,
} from "../../netlink/answering-socket.ts";

interface Setup {
  readonly link: DummyLinkClient;
  readonly clock: FakeClock;
  readonly sentTypes: () => readonly number[];
  readonly deliver: (errno: number, datagram: Uint8Array) => void;
  readonly listeners: () => number;
}

const noModules: Pick<Modules, "load"> = {
  load: () => Promise.reject(new Error("no module dummy")),
};

function setUp(
  answer: (received: readonly Message[], count: number) => Answer,
  modules = noModules,
): Setup {
  const clock = new FakeClock();
  const socket = answeringSocket(answer);
  return {
    clock,
    link: new DummyLinkClient({ shim: socket.shim, clock, modules }),
    sentTypes: () => socket.sent.flatMap((bytes) => [...messagesOf(bytes)].map(({ type }) => type)),
    deliver: socket.deliver,
    listeners: socket.listeners,
  };
}

function recorded(name: string, received: readonly Message[]): Answer {
  const reply = repliesOf(readCapture("link", name)).at(-1);
  assert.ok(reply);
  return withSequence(reply.bytes, received.at(-1)?.sequence ?? 0);
}

/** Returns the link from the recording of `ip link show`, followed by an acknowledgment. */
function found(name: string, received: readonly Message[]): Answer {
  const sequence = received.at(-1)?.sequence ?? 0;
  const link = withSequence(linkMessage(name), sequence);
  return new Uint8Array(Buffer.concat([link, messages(acknowledgement(sequence))]));
}

function linkMessage(name: string): Uint8Array {
  const { datagrams } = readCapture("link", name);
  const datagram = datagrams.find(
    ({ direction, bytes }) => direction === "received" && bytes[4] === messageTypes.newLink,
  );
  assert.ok(datagram);
  return datagram.bytes;
}

function answerAll(received: readonly Message[], errno: number): Answer {
  return messages(...received.map(({ sequence }) => acknowledgement(sequence, errno)));
}

function change(kind: "add" | "remove", ...texts: readonly string[]): AddressChange[] {
  return texts.map((text) => ({ kind: `address-${kind}`, address: ip(text) }));
}

describe("the dummy link client", () => {
  it("treats an address as removed if the link disappears during the removal", async () => {
    const { link } = setUp((received, count) =>
      count === 0 ? found("find", received) : answerAll(received, errno.ENODEV),
    );
    assert.deepEqual(await link.apply(change("remove", "10.96.0.1", "fd00:96::1")), []);
  });

  it("fails to bind an address if the link disappears in the meantime", async () => {
    const { link } = setUp((received, count) =>
      count === 0 ? found("find", received) : answerAll(received, errno.ENODEV),
    );
    const failed = await link.apply(change("add", "10.96.0.1"));
    assert.match(failed[0]?.error.message ?? "", /10\.96\.0\.1.*: ENODEV/);
  });

  it("finds no link if the kernel has none", async () => {
    const { link } = setUp((received) => recorded("find-absent", received));
    assert.equal(await link.find(), undefined);
  });

  it("neither uses nor removes a link of a different kind", async () => {
    for (const name of ["find-of-another-kind", "find-loopback"]) {
      const { link, sentTypes } = setUp((received) => found(name, received));
      await assert.rejects(link.find(), LinkKindError);
      await assert.rejects(link.ensure(), LinkKindError);
      await assert.rejects(link.remove(), /Cannot use link kube-ipvs0: it is .*not a dummy link/);
      await assert.rejects(link.apply(change("add", "10.96.0.1")), LinkKindError);
      assert.deepEqual([...new Set(sentTypes())], [messageTypes.getLink]);
    }
  });

  it("loads the driver if the kernel does not know the kind", async () => {
    const loaded: string[] = [];
    const modules = {
      async load(name: string): Promise<void> {
        loaded.push(name);
      },
    };
    const { link } = setUp((received, count) => {
      if (count === 0) return answerAll(received, 19);
      if (count === 1) return answerAll(received, 95);
      return count === 2 ? answerAll(received, 0) : found("find", received);
    }, modules);
    assert.equal((await link.ensure()).wasCreated, true);
    assert.deepEqual(loaded, ["dummy"]);
  });

  it("reports that the driver cannot be loaded", async () => {
    const { link } = setUp((received, count) => answerAll(received, count === 0 ? 19 : 95));
    await assert.rejects(link.ensure(), /no module dummy/);
  });

  it("uses a link that another program created in the meantime", async () => {
    const { link } = setUp((received, count) => {
      if (count === 0) return answerAll(received, 19);
      return count === 1 ? answerAll(received, 17) : found("find", received);
    });
    assert.equal((await link.ensure()).wasCreated, false);
  });

  it("names rejected addresses, and succeeds for existing or removed ones", async () => {
    const errnos = [17, 99, 13, 0];
    const { link } = setUp((received, count) => {
      if (count === 0) return found("find", received);
      // The last request removes the local route of an earlier run, which does not exist.
      if (count === 2) return answerAll(received, 3);
      return messages(...received.map(({ sequence }, at) => acknowledgement(sequence, errnos[at])));
    });
    const failed = await link.apply([
      ...change("add", "10.96.0.1"),
      ...change("remove", "10.96.0.2"),
      ...change("add", "fd00:96::1", "10.96.0.4"),
    ]);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.message]),
      [
        [
          2,
          "Cannot add address fd00:96::1 to kube-ipvs0: EACCES (IPv6 is turned off (sysctl net.ipv6.conf.*.disable_ipv6))",
        ],
      ],
    );
  });

  it("rejects when replies were lost", async () => {
    const lost = { errno: 105, replies: new Uint8Array() } as const;
    const { link } = setUp((received, count) => (count === 0 ? found("find", received) : lost));
    await assert.rejects(link.apply(change("add", "10.96.0.1")), { code: "ENOBUFS" });
  });
});

describe("watching links and addresses", () => {
  function watching(): Setup & { readonly notices: () => number; readonly errors: Error[] } & {
    readonly stop: () => void;
  } {
    const setup = setUp(() => new Uint8Array());
    const errors: Error[] = [];
    let count = 0;
    const stop = setup.link.watch(
      () => {
        count += 1;
      },
      (error) => errors.push(error),
    );
    return { ...setup, notices: () => count, errors, stop };
  }

  it("reports each change", async () => {
    const { deliver, notices } = watching();
    deliver(0, linkMessage("find"));
    assert.equal(notices(), 1);
  });

  it("treats lost messages as a change, not as an error", async () => {
    const { deliver, clock, notices, errors } = watching();
    deliver(105, new Uint8Array());
    await clock.advance(1_000);
    assert.equal(notices(), 1);
    assert.deepEqual(errors, []);
  });

  it("reports messages that it cannot read, and checks again", async () => {
    const { deliver, clock, notices, errors } = watching();
    deliver(0, new Uint8Array([1, 2, 3]));
    await clock.advance(1_000);
    assert.equal(notices(), 1);
    assert.equal(errors.length, 1);
  });

  it("reports nothing after it was stopped", async () => {
    const { deliver, clock, notices, stop } = watching();
    stop();
    deliver(0, linkMessage("find"));
    await clock.advance(1_000);
    assert.equal(notices(), 0);
  });

  it("ignores its own writes of many addresses, and reports once after them", async () => {
    const addresses = Array.from({ length: 200 }, (_, index) => `10.96.1.${index + 1}`);
    const changes = addresses.map(
      (text): AddressChange => ({ kind: "address-add", address: ip(text) }),
    );
    const heard: number[] = [];
    const setup = setUp((received) => {
      const isFind = received.length === 1;
      if (!isFind) assert.equal(setup.listeners(), 0);
      const sequence = received.at(-1)?.sequence ?? 0;
      return isFind ? found("find", received) : messages(acknowledgement(sequence));
    });
    const stop = setup.link.watch(
      () => heard.push(setup.clock.monotonicMs()),
      (error) => assert.fail(error),
    );
    assert.equal(setup.listeners(), 1);
    assert.deepEqual(await setup.link.apply(changes), []);
    assert.equal(setup.listeners(), 1);
    await setup.clock.advance(1_000);
    assert.equal(heard.length, 1);
    setup.deliver(0, linkMessage("find"));
    await setup.clock.advance(1_000);
    assert.equal(heard.length, 2);
    stop();
  });

  it("stays stopped if it is stopped while many addresses are written", async () => {
    const changes = Array.from(
      { length: 200 },
      (_, index): AddressChange => ({ kind: "address-add", address: ip(`10.96.1.${index + 1}`) }),
    );
    let notices = 0;
    const setup = setUp((received) => {
      if (received.length === 1) return found("find", received);
      stop();
      return messages(acknowledgement(received.at(-1)?.sequence ?? 0));
    });
    const stop = setup.link.watch(
      () => {
        notices += 1;
      },
      (error) => assert.fail(error),
    );
    await setup.link.apply(changes);
    setup.deliver(0, linkMessage("find"));
    await setup.clock.advance(1_000);
    assert.equal(notices, 0);
  });
});
