/** Compares the IPVS client on a kernel with ipvsadm. The contract suite contains the common cases. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { describe, it } from "node:test";
import { systemClock } from "../../src/base/clock.ts";
import { IpvsClient } from "../../src/kernel/ipvs/client.ts";
import type { IpvsChange } from "../../src/kernel/kernel.ts";
import { messagesOf } from "../../src/netlink/message.ts";
import { nativeSocket } from "../../src/netlink/native-socket.ts";
import type { NetlinkShim } from "../../src/netlink/transport.ts";
import type { RealServer } from "../../src/state/real-server.ts";
import { type VirtualServer, virtualServerFlags } from "../../src/state/virtual-server.ts";
import { ipvsMessageText } from "../support/netlink-text.ts";
import {
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
  withNetworkNamespace,
} from "../support/netns/network-namespace.ts";
import { observeIpvs } from "../support/observe-ipvs.ts";
import { ip } from "../support/records.ts";

type Lines = readonly string[];

/** GENL_ID_CTRL: the family that resolves the names of other families. */
const controlFamily = 0x10;

function virtual(address: string, overrides: Partial<VirtualServer> = {}): VirtualServer {
  return {
    protocol: "TCP",
    address: ip(address),
    port: 80,
    scheduler: "rr",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: address.includes(":") ? 128 : 32,
    flags: 0,
    ...overrides,
  };
}

function real(address: string, overrides: Partial<RealServer> = {}): RealServer {
  return { address: ip(address), port: 8080, weight: 1, forwardingMethod: 0, ...overrides };
}

function creations(virtualServer: VirtualServer, ...realServers: RealServer[]): IpvsChange[] {
  return [
    { kind: "virtual-server-create", after: virtualServer },
    ...realServers.map(
      (realServer): IpvsChange => ({
        kind: "real-server-create",
        virtualServer,
        after: realServer,
      }),
    ),
  ];
}

/** The state in the format of `ipvsadm -S -n`. */
function saved(): string[] {
  return shell("ipvsadm -S -n")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.trim());
}

/** Runs `body` with a client in its own namespace. `setUp` contains shell lines. */
function inNamespace(
  setUp: Lines,
  body: (ipvs: IpvsClient) => Promise<void>,
  shim: NetlinkShim = nativeSocket,
): () => Promise<void> {
  return () =>
    withNetworkNamespace("ipvs", setUp, async () => {
      const ipvs = new IpvsClient({ shim, clock: systemClock });
      try {
        await body(ipvs);
      } finally {
        ipvs.close();
      }
    });
}

/** Like {@link inNamespace}, but `body` also gets a line for each message that modifies state. */
function withMessages(
  setUp: Lines,
  body: (ipvs: IpvsClient, sent: Lines) => Promise<void>,
): () => Promise<void> {
  const sent: string[] = [];
  const shim: NetlinkShim = {
    ...nativeSocket,
    transact(socket, request, ...rest) {
      for (const { type, body } of messagesOf(request.slice()))
        if (type > controlFamily) sent.push(ipvsMessageText(body));
      return nativeSocket.transact(socket, request, ...rest);
    },
  };
  return inNamespace(setUp, (ipvs) => body(ipvs, sent), shim);
}

describe("ipvsadm lists what kube-ipvs created", () => {
  const cases: readonly { name: string; changes: readonly IpvsChange[]; want: Lines }[] = [
    {
      name: "a virtual server with real servers",
      changes: creations(
        virtual("10.96.0.1"),
        real("10.244.1.5"),
        real("10.244.1.6", { weight: 0 }),
      ),
      want: [
        "-A -t 10.96.0.1:80 -s rr",
        "-a -t 10.96.0.1:80 -r 10.244.1.5:8080 -m -w 1",
        "-a -t 10.96.0.1:80 -r 10.244.1.6:8080 -m -w 0",
      ],
    },
    {
      name: "IPv6",
      changes: creations(virtual("fd00:96::a", { protocol: "UDP", port: 53 }), real("fd00:244::5")),
      want: ["-A -u [fd00:96::a]:53 -s rr", "-a -u [fd00:96::a]:53 -r [fd00:244::5]:8080 -m -w 1"],
    },
    {
      name: "persistence per client in both families",
      changes: [
        ...creations(virtual("10.96.0.1", { persistenceTimeoutSeconds: 10800 })),
        ...creations(virtual("fd00:96::a", { persistenceTimeoutSeconds: 300 })),
      ],
      want: ["-A -t 10.96.0.1:80 -s rr -p 10800", "-A -t [fd00:96::a]:80 -s rr -p 300"],
    },
    {
      name: "persistence by network",
      changes: creations(
        virtual("10.96.0.1", { persistenceTimeoutSeconds: 60, persistencePrefixLength: 24 }),
      ),
      want: ["-A -t 10.96.0.1:80 -s rr -p 60 -M 255.255.255.0"],
    },
    {
      name: "the mh flags",
      changes: creations(
        virtual("10.96.0.1", {
          scheduler: "mh",
          flags: virtualServerFlags.schedulerFallback | virtualServerFlags.schedulerPort,
        }),
      ),
      want: ["-A -t 10.96.0.1:80 -s mh -b mh-fallback,mh-port"],
    },
    {
      name: "an update of scheduler and persistence, with the real servers kept",
      changes: [
        ...creations(virtual("10.96.0.1", { persistenceTimeoutSeconds: 60 }), real("10.244.1.5")),
        { kind: "virtual-server-update", after: virtual("10.96.0.1", { scheduler: "lc" }) },
      ],
      want: ["-A -t 10.96.0.1:80 -s lc", "-a -t 10.96.0.1:80 -r 10.244.1.5:8080 -m -w 1"],
    },
    {
      name: "removals",
      changes: [
        ...creations(virtual("10.96.0.1"), real("10.244.1.5"), real("10.244.1.6")),
        ...creations(virtual("10.96.0.2"), real("10.244.1.5")),
        { kind: "virtual-server-remove", before: virtual("10.96.0.2") },
        {
          kind: "real-server-remove",
          virtualServer: virtual("10.96.0.1"),
          before: real("10.244.1.5"),
        },
      ],
      want: ["-A -t 10.96.0.1:80 -s rr", "-a -t 10.96.0.1:80 -r 10.244.1.6:8080 -m -w 1"],
    },
  ];
  for (const { name, changes, want } of cases) {
    it(
      name,
      inNamespace([], async (ipvs) => {
        assert.deepEqual(await ipvs.apply(changes), []);
        assert.deepEqual(saved().sort(), [...want].sort());
      }),
    );
  }
});

describe("kube-ipvs lists what ipvsadm created", () => {
  it(
    "with weights, methods and flags, but without firewall marks",
    inNamespace(
      [
        "ipvsadm -A -t 10.96.0.1:80 -s wrr",
        "ipvsadm -a -t 10.96.0.1:80 -r 10.244.1.5:8080 -m -w 100000",
        "ipvsadm -a -t 10.96.0.1:80 -r 10.244.1.6:80 -g -w 2",
        "ipvsadm -A -u [fd00:96::a]:53 -s sh -b sh-port -p 77 -M 64 -o",
        "ipvsadm -A -f 7 -s rr",
        "ipvsadm -a -f 7 -r 10.244.1.9:80 -g",
      ],
      async (ipvs) => {
        const virtualServers = await observeIpvs(ipvs);
        const [dns, web] = virtualServers.toSorted(
          (a, b) => a.virtualServer.port - b.virtualServer.port,
        );
        assert.deepEqual(
          web?.realServers
            .map((one) => [one.address, one.port, one.weight, one.forwardingMethod])
            .sort(),
          [
            ["10.244.1.5", 8080, 100_000, 0],
            ["10.244.1.6", 80, 2, 3],
          ],
        );
        assert.deepEqual(dns, {
          virtualServer: virtual("fd00:96::a", {
            protocol: "UDP",
            port: 53,
            scheduler: "sh",
            persistenceTimeoutSeconds: 77,
            persistencePrefixLength: 64,
            flags: virtualServerFlags.onePacket | virtualServerFlags.schedulerPort,
          }),
          realServers: [],
        });
      },
    ),
  );
});

describe("messages", () => {
  it(
    "create one real server with a single message",
    withMessages(["ipvsadm -A -t 10.96.0.1:80 -s rr"], async (ipvs, sent) => {
      const realServer = real("10.244.1.5");
      await ipvs.apply([
        { kind: "real-server-create", virtualServer: virtual("10.96.0.1"), after: realServer },
      ]);
      assert.equal(sent.length, 1);
    }),
  );
});

describe("the kernel rejects", () => {
  it("a real server if no link has ever been up, with a hint", async () => {
    shell("ip netns add bare");
    enterNetworkNamespace("bare");
    const ipvs = new IpvsClient({ shim: nativeSocket, clock: systemClock });
    try {
      const failed = await ipvs.apply(creations(virtual("10.96.0.1"), real("10.244.1.5")));
      assert.deepEqual(
        failed.map(({ error }) => error.message),
        [
          "Cannot create real server 10.244.1.5:8080 of TCP 10.96.0.1:80: EINVAL (it is not a unicast address, or no link in this network namespace has ever been up. In the second case, run ip link set lo up)",
        ],
      );
    } finally {
      ipvs.close();
      leaveNetworkNamespace();
      removeNetworkNamespace("bare");
    }
  });

  it(
    "an unknown scheduler in both families, and leaves nothing behind",
    inNamespace(["ipvsadm -A -f 7 -s rr"], async (ipvs) => {
      for (const family of ["IPv4", "IPv6"] as const) {
        await ipvs.checkScheduler("rr", family);
        await assert.rejects(ipvs.checkScheduler("fastest", family), /Linux has no such scheduler/);
        await assert.rejects(ipvs.checkScheduler("much-too-long-a-name", family), {
          code: "ENOENT",
        });
      }
      assert.deepEqual(saved(), ["-A -f 7 -s rr"]);
    }),
  );

  it(
    "every change by a process without CAP_NET_ADMIN",
    inNamespace([], async () => {
      const script = `
        import { IpvsClient } from "./src/kernel/ipvs/client.ts";
        import { nativeSocket } from "./src/netlink/native-socket.ts";
        import { systemClock } from "./src/base/clock.ts";
        const ipvs = new IpvsClient({ shim: nativeSocket, clock: systemClock });
        try { await ipvs.listVirtualServers(); } catch (error) { console.log(error.message); }
        ipvs.close();`;
      const output = shell(
        `setpriv --bounding-set=-net_admin --inh-caps=-net_admin node --input-type=module -e '${script}'`,
      );
      assert.equal(
        output.trim(),
        "Cannot list virtual servers: EPERM (kube-ipvs needs CAP_NET_ADMIN)",
      );
    }),
  );
});

describe("5,000 virtual servers with 4 real servers each", () => {
  const servers = Array.from({ length: 5000 }, (_, index) =>
    virtual(
      index % 2 === 0 ? `10.96.${index >> 8}.${index & 255}` : `fd00:96::${index.toString(16)}`,
    ),
  );
  const targetsOf = (server: VirtualServer): RealServer[] =>
    [1, 2, 3, 4].map((number) =>
      real(server.address.includes(":") ? `fd00:244::${number}` : `10.244.1.${number}`),
    );
  const changes = servers.flatMap((server) => creations(server, ...targetsOf(server)));

  it(
    "are created, listed, recreated and removed",
    inNamespace([], async (ipvs) => {
      const timed = stopwatch();
      assert.deepEqual(await timed("create", () => ipvs.apply(changes)), []);
      const observed = await timed("observe", () => observeIpvs(ipvs));
      const lists = await timed("list with dumps", () => ipvs.listRealServers(servers));
      const byAddress = new Map(observed.map((one) => [one.virtualServer.address, one]));
      for (const [index, server] of servers.entries()) {
        const one = byAddress.get(server.address);
        assert.deepEqual(one?.virtualServer, server);
        assert.deepEqual(byText(one.realServers), byText(lists[index] ?? []));
        assert.equal(one.realServers.length, 4);
      }
      const failed = await timed("create again", () => ipvs.apply(changes));
      assert.equal(failed.length, changes.length);
      const removals = servers.map(
        (virtualServer): IpvsChange => ({ kind: "virtual-server-remove", before: virtualServer }),
      );
      assert.deepEqual(await timed("remove", () => ipvs.apply(removals)), []);
      assert.deepEqual(await observeIpvs(ipvs), []);
    }),
  );
});

describe("a scheduler", () => {
  const network = [
    "ip link set lo up",
    "ip link add eth0 type dummy",
    "ip address add 192.168.10.11/24 dev eth0",
    "ip link set eth0 up",
    "ip route add default via 192.168.10.1",
    "ip address add 10.96.0.1/32 dev lo",
  ];
  const pods = ["10.244.1.5", "10.244.1.6", "10.244.1.7", "10.244.1.8"];

  for (const scheduler of ["rr", "wrr"]) {
    it(
      `${scheduler} starts with the newest real server, and continues with older ones`,
      inNamespace(network, async (ipvs) => {
        const server = virtual("10.96.0.1", { protocol: "UDP", port: 53, scheduler });
        const made = pods.map((pod) => real(pod, { port: 53 }));
        assert.deepEqual(await ipvs.apply(creations(server, ...made)), []);
        const taken: string[] = [];
        for (const _ of [...pods, pods[0]]) {
          const before = await flowsOf(ipvs, server);
          await sendDatagram(server.address);
          const after = await flowsOf(ipvs, server);
          taken.push(...pods.filter((pod) => (after.get(pod) ?? 0) > (before.get(pod) ?? 0)));
        }
        assert.deepEqual(taken, [...pods.toReversed(), pods.at(-1)]);
      }),
    );
  }
});

async function flowsOf(
  ipvs: IpvsClient,
  server: VirtualServer,
): Promise<ReadonlyMap<string, number>> {
  const [realServers = []] = await ipvs.listRealServers([server]);
  return new Map(realServers.map((one) => [one.address, one.inactiveConnections]));
}

/** Each datagram has its own source port and is therefore a new connection. */
async function sendDatagram(address: string): Promise<void> {
  const socket = createSocket("udp4");
  try {
    await new Promise<void>((resolve, reject) => {
      socket.send("?", 53, address, (error) => (error ? reject(error) : resolve()));
    });
  } finally {
    socket.close();
  }
}

/** Formats real servers without counts, which only one of the two sources has. */
function byText(realServers: readonly RealServer[]): string[] {
  const fields = ["address", "port", "weight", "forwardingMethod"];
  return realServers.map((one) => JSON.stringify(one, fields)).sort();
}

/** Prints each step's duration, and the longest time that other work had to wait. */
function stopwatch(): <T>(step: string, run: () => Promise<T>) => Promise<T> {
  return async (step, run) => {
    let longestMs = 0;
    let lastMs = performance.now();
    const timer = setInterval(() => {
      longestMs = Math.max(longestMs, performance.now() - lastMs);
      lastMs = performance.now();
    }, 1);
    const startMs = performance.now();
    try {
      return await run();
    } finally {
      clearInterval(timer);
      const totalMs = Math.round(performance.now() - startMs);
      console.log(`# ${step}: ${totalMs} ms, others waited at most ${Math.round(longestMs)} ms`);
    }
  };
}
