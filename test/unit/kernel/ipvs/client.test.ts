import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { IpvsClient } from "../../../../src/kernel/ipvs/client.ts";
import type { IpvsChange } from "../../../../src/kernel/kernel.ts";
import type { Message } from "../../../../src/netlink/message.ts";
import { messagesOf } from "../../../../src/netlink/message.ts";
import { type VirtualServer, virtualServerKey } from "../../../../src/state/virtual-server.ts";
import { bytesOf, readCapture, withSequence } from "../../../captures/captures.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { ipvsMessageText } from "../../../support/netlink-text.ts";
import { observeIpvs } from "../../../support/observe-ipvs.ts";
import { ip } from "../../../support/records.ts";
import {
  type Answer,
  type AnsweringSocket,
  acknowledgement,
  answeringSocket,
  done,
  messages,
} from "../../netlink/answering-socket.ts";

const [ENOENT, ESRCH, EEXIST, EINVAL, EAFNOSUPPORT, ENOBUFS] = [2, 3, 17, 22, 97, 105];

const web: VirtualServer = {
  protocol: "TCP",
  address: ip("10.96.0.1"),
  port: 443,
  scheduler: "rr",
  persistenceTimeoutSeconds: 0,
  persistencePrefixLength: 32,
  flags: 0,
};
const target = { address: ip("10.244.1.5"), port: 6443, weight: 1, forwardingMethod: 0 };
const createWeb: IpvsChange = { kind: "virtual-server-create", after: web };
const createTarget: IpvsChange = {
  kind: "real-server-create",
  virtualServer: web,
  after: target,
};

interface Opened {
  readonly ipvs: IpvsClient;
  /** Datagrams sent since the family lookup. */
  readonly sent: () => readonly Uint8Array[];
}

/** A client whose requests are answered by `answer`. A recording answers the family lookup. */
async function open(
  answer: (requests: readonly Message[], count: number) => Answer,
): Promise<Opened> {
  const family = bytesOf(readCapture("ipvs", "resolve-family"), "received");
  const socket = answeringSocket((requests, count) =>
    count === 0 ? withSequence(family, 1) : answer(requests, count - 1),
  );
  const ipvs = new IpvsClient({ shim: socket.shim, clock: new FakeClock() });
  return { ipvs, sent: () => socket.sent.slice(1) };
}

/** Rejects the i-th message of each datagram with the i-th errno. 0 accepts it. */
function refusing(...errnos: readonly number[]): (requests: readonly Message[]) => Answer {
  return (requests) =>
    messages(
      ...requests.flatMap(({ sequence }, index) => {
        const errno = errnos[index] ?? 0;
        const isLast = index === requests.length - 1;
        return errno !== 0 || isLast ? [acknowledgement(sequence, errno)] : [];
      }),
    );
}

/** The first message of a datagram as text. */
function keyOfRequest(datagram: Uint8Array): string {
  const [message] = messagesOf(datagram);
  return message === undefined ? "" : ipvsMessageText(message.body);
}

/** Commands and the values of their main attributes, as text. */
function commandsIn(datagram: Uint8Array | undefined): string[] {
  return [...messagesOf(datagram ?? new Uint8Array())].map(({ body }) => ipvsMessageText(body));
}

describe("apply", () => {
  it("adds one real server with exactly one message", async () => {
    const { ipvs, sent } = await open(refusing());
    assert.deepEqual(await ipvs.apply([createTarget]), []);
    assert.equal(sent().length, 1);
    assert.match(commandsIn(sent()[0]).join("\n"), /^command=5 service=\{.*\} destination=\{.*\}$/);
  });

  it("sends many changes as one datagram", async () => {
    const { ipvs, sent } = await open(refusing());
    await ipvs.apply([createWeb, createTarget]);
    assert.equal(sent().length, 1);
    assert.equal(commandsIn(sent()[0]).length, 2);
  });

  it("succeeds if the object to remove does not exist", async () => {
    const { ipvs } = await open(refusing(ENOENT, ESRCH, ESRCH));
    const failed = await ipvs.apply([
      { kind: "real-server-remove", virtualServer: web, before: target },
      { kind: "real-server-remove", virtualServer: web, before: target },
      { kind: "virtual-server-remove", before: web },
    ]);
    assert.deepEqual(failed, []);
  });

  it("names every rejected change by its index", async () => {
    const { ipvs } = await open(refusing(ENOENT, 0, EEXIST, EINVAL));
    const other = { ...web, port: 444, scheduler: "nope" };
    const failed = await ipvs.apply([
      { kind: "virtual-server-create", after: other },
      createWeb,
      createTarget,
      { ...createTarget, after: { ...target, port: 6444 } },
    ]);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.message]),
      [
        [
          0,
          "Cannot create virtual server TCP 10.96.0.1:444: ENOENT (the kernel has no scheduler nope: run modprobe ip_vs_nope)",
        ],
        [
          2,
          "Cannot create real server 10.244.1.5:6443 of TCP 10.96.0.1:443: EEXIST (it already exists)",
        ],
        [
          3,
          "Cannot create real server 10.244.1.5:6444 of TCP 10.96.0.1:443: EINVAL (it is not a unicast address, or no link in this network namespace has ever been up. In the second case, run ip link set lo up)",
        ],
      ],
    );
  });

  it("fails to update a missing server", async () => {
    const { ipvs } = await open(refusing(ESRCH));
    const failed = await ipvs.apply([{ kind: "virtual-server-update", after: web }]);
    assert.equal(
      failed[0]?.error.message,
      "Cannot update virtual server TCP 10.96.0.1:443: ESRCH (no such virtual server)",
    );
  });

  it("rejects when replies were lost", async () => {
    const { ipvs } = await open(() => ({
      errno: ENOBUFS,
      replies: new Uint8Array(),
    }));
    await assert.rejects(ipvs.apply([createWeb]), { code: "ENOBUFS" });
  });

  it("reads recorded rejections of the kernel", async () => {
    const cases = [
      { name: "create-virtual-server-of-unknown-scheduler", code: "ENOENT" },
      { name: "update-virtual-server-that-is-absent", code: "ESRCH" },
    ];
    for (const { name, code } of cases) {
      const reply = bytesOf(readCapture("ipvs", name), "received");
      const { ipvs } = await open((requests) => withSequence(reply, requests[0]?.sequence ?? 0));
      const [failed] = await ipvs.apply([{ kind: "virtual-server-update", after: web }]);
      assert.match(failed?.error.message ?? "", new RegExp(`: ${code} `), name);
    }
  });
});

describe("finding single virtual servers", () => {
  const asked = [web, { ...web, port: 80 }, { ...web, port: 81 }];

  it("requests each with one message of one datagram, and omits missing ones", async () => {
    for (const absent of [ESRCH, EAFNOSUPPORT]) {
      const { ipvs, sent } = await open(refusing(absent, absent, absent));
      assert.deepEqual(await ipvs.findVirtualServers(asked), []);
      assert.equal(sent().length, 1);
      assert.equal(commandsIn(sent()[0]).length, 3);
      assert.match(keyOfRequest(sent()[0] as Uint8Array), /^command=4 service=/);
    }
  });

  it("rejects with the kernel's error otherwise", async () => {
    const { ipvs } = await open(refusing(ESRCH, EINVAL, ESRCH));
    await assert.rejects(
      ipvs.findVirtualServers(asked),
      /read virtual server TCP 10\.96\.0\.1:80.*: EINVAL/,
    );
  });
});

describe("reading", () => {
  const list = readCapture("ipvs", "list").datagrams;
  /** The replies to the requests of `ipvsadm -L -n`: the services, then each service's real servers. */
  const replies: Uint8Array[] = [];
  const requests: string[] = [];
  for (const { direction, bytes } of list) {
    if (direction === "sent") {
      requests.push(keyOfRequest(bytes));
      replies.push(new Uint8Array());
    } else replies.push(new Uint8Array(Buffer.concat([replies.pop() ?? bytes, bytes])));
  }
  const serviceReply = replies[0] ?? new Uint8Array();

  /** Returns the recorded reply to the same request, in any order of requests. */
  const recorded = ([request]: readonly Message[]): Answer => {
    const sequence = request?.sequence ?? 0;
    const text = request === undefined ? "" : ipvsMessageText(request.body);
    const reply = replies[requests.indexOf(text)];
    return reply === undefined ? messages(done(sequence)) : withSequence(reply, sequence);
  };

  it("reads the services, then the real servers of each service with an address", async () => {
    const { ipvs, sent } = await open(recorded);
    const virtualServers = await observeIpvs(ipvs);
    const text = virtualServers.map(
      ({ virtualServer, realServers }) =>
        `${virtualServer.address} ${realServers.map((real) => `${real.address}/${real.weight}`)}`,
    );
    assert.deepEqual(text.sort(), [
      "10.96.0.1 10.244.1.5/1",
      "10.96.0.2 ",
      "fd00:96::a fd00:244::5/1",
    ]);
    assert.equal(sent().length, 1 + 3);
  });

  it("returns the cached list of real servers if nothing differs", async () => {
    const { ipvs } = await open(recorded);
    const ids = (await observeIpvs(ipvs)).map(({ virtualServer }) => virtualServer);
    const lists = await ipvs.readRealServers(ids);
    const cached = new Map(ids.map((id, index) => [virtualServerKey(id), lists[index]]));
    const again = await ipvs.readRealServers(ids, (key) => cached.get(key));
    for (const [index, list] of again.entries()) assert.equal(list, lists[index]);
    assert.deepEqual(await ipvs.readRealServers(ids, () => [target]), lists);
  });

  it("rejects a list that is truncated anywhere", async () => {
    for (let length = 0; length < serviceReply.length; length += 7) {
      const { ipvs } = await open((requests) =>
        withSequence(serviceReply, requests[0]?.sequence ?? 0).subarray(0, length),
      );
      await assert.rejects(observeIpvs(ipvs), { name: "DecodeError" }, `${length} bytes`);
      ipvs.close();
    }
  });
});

describe("timeouts", () => {
  it("are read", async () => {
    const reply = bytesOf(readCapture("ipvs", "read-timeouts"), "received");
    const { ipvs } = await open((requests) => {
      const sequence = requests[0]?.sequence ?? 0;
      return new Uint8Array([
        ...withSequence(reply, sequence),
        ...messages(acknowledgement(sequence)),
      ]);
    });
    assert.deepEqual(await ipvs.readTimeouts(), {
      tcpSeconds: 900,
      tcpFinSeconds: 120,
      udpSeconds: 300,
    });
  });

  it("cause an error if the reply has none", async () => {
    const { ipvs } = await open(refusing());
    await assert.rejects(ipvs.readTimeouts(), {
      name: "DecodeError",
      message: /reply without IPVS timeouts/,
    });
  });

  it("are written, with 0 for unchanged values", async () => {
    const { ipvs, sent } = await open(refusing());
    await ipvs.writeTimeouts({ tcpSeconds: 900, tcpFinSeconds: 0, udpSeconds: 300 });
    assert.deepEqual(commandsIn(sent()[0]), [
      "command=12 tcpTimeoutSeconds=900 tcpFinTimeoutSeconds=0 udpTimeoutSeconds=300",
    ]);
  });
});

describe("checkScheduler", () => {
  it("concludes from a rejected netmask that the scheduler exists, and creates nothing", async () => {
    const { ipvs, sent } = await open(refusing(EINVAL));
    await ipvs.checkScheduler("rr", "IPv4");
    await ipvs.checkScheduler("rr", "IPv6");
    assert.equal(sent().length, 2);
    assert.match(commandsIn(sent()[0]).join(""), /"addressFamily":10,"firewallMark":\d+/);
  });

  const refused: readonly { name: string; scheduler: string; errno: number; says: RegExp }[] = [
    {
      name: "a scheduler that Linux does not have",
      scheduler: "fastest",
      errno: ENOENT,
      says: /Linux has no such scheduler; it has rr, wrr, /,
    },
    {
      name: "a scheduler whose module is missing",
      scheduler: "mh",
      errno: ENOENT,
      says: /module ip_vs_mh is neither loaded nor built in.*modprobe ip_vs_mh/,
    },
    {
      name: "IPVS without IPv6",
      scheduler: "rr",
      errno: EAFNOSUPPORT,
      says: /for IPv6: EAFNOSUPPORT \(the kernel's IPVS is built without IPv6\)/,
    },
    {
      name: "missing rights",
      scheduler: "rr",
      errno: 1,
      says: /EPERM \(kube-ipvs needs CAP_NET_ADMIN\)/,
    },
  ];
  for (const { name, scheduler, errno, says } of refused) {
    it(`reports ${name}`, async () => {
      const { ipvs } = await open(refusing(errno));
      await assert.rejects(ipvs.checkScheduler(scheduler, "IPv6"), { message: says });
    });
  }

  it("does not send a name that is too long, because the kernel's answer would look like success", async () => {
    const { ipvs, sent } = await open(refusing(EINVAL));
    await assert.rejects(ipvs.checkScheduler("a-name-of-16-byte", "IPv4"), { code: "ENOENT" });
    assert.equal(sent().length, 0);
  });

  it("creates and removes a service for IPv4 if IPVS has no IPv6", async () => {
    const { ipvs, sent } = await open((requests, count) =>
      (count === 0 ? refusing(EAFNOSUPPORT) : refusing())(requests),
    );
    await ipvs.checkScheduler("rr", "IPv4");
    const texts = sent().flatMap(commandsIn);
    assert.deepEqual(
      texts.map((text) => /^command=(\d+).*"addressFamily":(\d+)/.exec(text)?.slice(1, 3)),
      [
        ["1", "10"],
        ["1", "2"],
        ["3", "2"],
      ],
    );
  });

  it("uses another mark if one is in use", async () => {
    const { ipvs, sent } = await open((requests, count) =>
      (count === 0 ? refusing(EEXIST) : refusing(EINVAL))(requests),
    );
    await ipvs.checkScheduler("rr", "IPv6");
    const marks = sent()
      .flatMap(commandsIn)
      .map((text) => /"firewallMark":(\d+)/.exec(text)?.[1]);
    assert.equal(new Set(marks).size, 2);
  });
});

describe("IPVS that is looked up on demand", () => {
  const family = bytesOf(readCapture("ipvs", "resolve-family"), "received");

  /** A client whose first `failures` family lookups find no IPVS. */
  function lookedFor(failures: number): { ipvs: IpvsClient; socket: AnsweringSocket } {
    const socket = answeringSocket(([request], count) =>
      count < failures
        ? messages(acknowledgement(request?.sequence ?? 0, ENOENT))
        : count === failures
          ? withSequence(family, request?.sequence ?? 0)
          : messages(acknowledgement(request?.sequence ?? 0, 0)),
    );
    return { ipvs: new IpvsClient({ shim: socket.shim, clock: new FakeClock() }), socket };
  }

  it("is not looked up before the first request, and only once for all requests", async () => {
    const { ipvs, socket } = lookedFor(0);
    assert.equal(socket.sent.length, 0);
    await Promise.all([ipvs.apply([createWeb]), ipvs.apply([createWeb])]);
    assert.equal(socket.sent.length, 3);
    ipvs.close();
    await Promise.resolve();
    assert.equal(socket.isClosed(), true);
  });

  it("closes its socket if the kernel lacks IPVS, says what to do, and retries at the next request", async () => {
    const { ipvs, socket } = lookedFor(1);
    await assert.rejects(ipvs.apply([createWeb]), {
      message:
        "Cannot find generic netlink family IPVS: ENOENT (IPVS is not loaded or not supported: run modprobe ip_vs, or use a kernel built with CONFIG_IP_VS)",
    });
    assert.equal(socket.isClosed(), true);
    assert.deepEqual(await ipvs.apply([createWeb]), []);
  });

  it("is looked up again if its module was reloaded, because the family then has another number", async () => {
    const reload = ([request]: readonly Message[], count: number): Answer => {
      const sequence = request?.sequence ?? 0;
      if (request?.type === 0x10) return withSequence(family, sequence);
      return messages(count === 1 ? acknowledgement(sequence, ENOENT) : done(sequence));
    };
    for (const read of [
      (ipvs: IpvsClient) => ipvs.listVirtualServers(),
      (ipvs: IpvsClient) => ipvs.listTraffic(),
      (ipvs: IpvsClient) => ipvs.findVirtualServers([web]),
    ]) {
      const socket = answeringSocket(reload);
      const ipvs = new IpvsClient({ shim: socket.shim, clock: new FakeClock() });
      assert.deepEqual(await read(ipvs), []);
      assert.equal(socket.sent.length, 4);
      assert.deepEqual(await read(ipvs), []);
      assert.equal(socket.sent.length, 5);
    }
  });

  it("is looked up only once more if the kernel rejects its list", async () => {
    const socket = answeringSocket(([request]) => {
      const sequence = request?.sequence ?? 0;
      return request?.type === 0x10
        ? withSequence(family, sequence)
        : messages(acknowledgement(sequence, ENOENT));
    });
    const ipvs = new IpvsClient({ shim: socket.shim, clock: new FakeClock() });
    await assert.rejects(ipvs.listVirtualServers(), { code: "ENOENT" });
    assert.equal(socket.sent.length, 4);
  });

  it("is closed immediately if it is requested after close", async () => {
    const { ipvs, socket } = lookedFor(0);
    ipvs.close();
    await ipvs.apply([createWeb]);
    assert.equal(socket.isClosed(), true);
  });

  it("is closed without being opened", () => {
    const { ipvs, socket } = lookedFor(0);
    ipvs.close();
    assert.deepEqual([socket.sent.length, socket.isClosed()], [0, false]);
  });

  it("is closed as soon as it is open", async () => {
    const { ipvs, socket } = lookedFor(0);
    const applied = ipvs.apply([createWeb]);
    ipvs.close();
    await applied;
    assert.equal(socket.isClosed(), true);
  });
});
