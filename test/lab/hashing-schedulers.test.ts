/**
 * Tests that `explain` predicts the endpoint that the schedulers `sh`, `dh` and `mh` choose: 200 clients send a datagram
 * each, and the kernel's choices are compared with the predictions.
 */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import { systemClock } from "../../src/base/clock.ts";
import { hostPort, type IpAddress, type IpFamily } from "../../src/base/ip.ts";
import { hashedServer } from "../../src/explain/packet/hashed-server.ts";
import { listConnections } from "../../src/kernel/ipvs/connections.ts";
import { openReaders } from "../../src/kernel/open-readers.ts";
import { openIn } from "../support/client-traffic.ts";
import {
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { buildNodeNetwork } from "../support/node-network.ts";

const clientCount = 200;
const port = 53;

/** The addresses of one family. The client sends from any address in its network. */
interface Place {
  readonly virtual: (index: number) => string;
  readonly client: (index: number) => string;
  readonly endpoint: (index: number) => string;
}

const places: Readonly<Record<IpFamily, Place>> = {
  IPv4: {
    virtual: (index) => `10.96.1.${index + 1}`,
    client: (index) => `10.9.${index % 7}.${index + 1}`,
    endpoint: (index) => `10.244.${index}.${10 + index}`,
  },
  IPv6: {
    virtual: (index) => `fd00:96::${(index + 1).toString(16)}`,
    client: (index) => `fd00:9::${1 + (index % 7)}:${(index * 277 + 1).toString(16)}`,
    endpoint: (index) => `fd00:244:${index}::${(10 + index).toString(16)}`,
  },
};

const lists: readonly (readonly number[])[] = [
  [1],
  [1, 1, 1],
  [3, 1, 2, 5, 1],
  // The kernel divides by the greatest common divisor, and shifts large weights.
  [100, 300, 200],
  [997, 1, 500, 64, 63],
  Array.from({ length: 20 }, (_, index) => 1 + (index % 3)),
];

function create(family: IpFamily, scheduler: string, address: string, weights: readonly number[]) {
  const server = `-u ${hostPort(address as IpAddress, port)}`;
  const { endpoint } = places[family];
  shell(
    [
      `ipvsadm -A ${server} -s ${scheduler}`,
      ...weights.map(
        (weight, index) =>
          `ipvsadm -a ${server} -r ${hostPort(endpoint(index) as IpAddress, 5_300)} -m -w ${weight}`,
      ),
    ].join("\n"),
  );
}

async function send(from: string, to: string): Promise<void> {
  const socket = await openIn("client", async () => {
    const opened = createSocket(from.includes(":") ? "udp6" : "udp4");
    opened.bind(0, from);
    await once(opened, "listening");
    return opened;
  });
  socket.on("error", () => {});
  await new Promise((resolve) => socket.send("x", port, to, resolve));
  socket.close();
}

describe("the endpoint that a hashing scheduler chooses", () => {
  const readers = { current: undefined as ReturnType<typeof openReaders> | undefined };

  before(() => {
    buildNodeNetwork([]);
    enterNetworkNamespace("node");
    shell(`
      sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
      ip link add virtual type dummy; ip link set virtual up
      ip link add pods type dummy; ip link set pods up
      ip route add 10.244.0.0/16 dev pods; ip -6 route add fd00:244::/24 dev pods
      ip route add 10.9.0.0/16 via 192.168.10.1
      ip addr add fd00:10::11/64 dev eth0 nodad
      ip -6 route add fd00:9::/64 via fd00:10::1
      ip netns exec client sysctl -qw net.ipv6.ip_nonlocal_bind=1
      ip -n client route add local 10.9.0.0/16 dev lo
      ip -n client addr add fd00:10::1/64 dev eth0 nodad
      ip -n client -6 route add local fd00:9::/64 dev lo
      ip -n client -6 route add fd00:96::/64 via fd00:10::11`);
    readers.current = openReaders(systemClock);
  });

  after(() => {
    readers.current?.close();
    leaveNetworkNamespace();
    for (const name of ["client", "node"]) removeNetworkNamespace(name);
  });

  /** Sends the datagrams, and returns the wrong predictions and the number of endpoints that were chosen. */
  async function compare(family: IpFamily, pairs: readonly (readonly [string, string])[]) {
    const { ipvs } = readers.current ?? assert.fail();
    const servers = await ipvs.listVirtualServers();
    const lists = await ipvs.listRealServers(servers);
    for (const [source, destination] of pairs) await send(source, destination);
    const destinations = new Set(pairs.map(([, destination]) => destination));
    const chosen = new Map(
      listConnections(({ virtualServer }) => destinations.has(virtualServer.address)).map(
        ({ client, virtualServer, realServer }) => [
          `${client} ${virtualServer.address}`,
          hostPort(realServer.address, realServer.port),
        ],
      ),
    );
    assert.equal(chosen.size, pairs.length, "connections");
    const wrong = pairs.flatMap(([source, destination]) => {
      const at = servers.findIndex(({ address }) => address === destination);
      const virtualServer = servers[at] ?? assert.fail();
      const predicted = hashedServer(
        { virtualServer, realServers: lists[at] ?? [] },
        { source: source as IpAddress, destination: destination as IpAddress },
      );
      const text = predicted && hostPort(predicted.address, predicted.port);
      const actual = chosen.get(`${source} ${destination}`);
      return text === actual ? [] : [`${family} ${source}: ${text}, not ${actual}`];
    });
    return { wrong, endpointCount: new Set(chosen.values()).size };
  }

  function bind(addresses: readonly string[]): void {
    shell(
      ["ipvsadm -C", "ip addr flush dev virtual"]
        .concat(
          addresses.map(
            (address) =>
              `ip addr add ${address}/${address.includes(":") ? "128" : "32"} dev virtual`,
          ),
        )
        .join("\n"),
    );
  }

  for (const family of ["IPv4", "IPv6"] as const) {
    const { client, virtual } = places[family];
    let used = 0;
    const indexes = Array.from({ length: clientCount }, (_, index) => index);

    for (const scheduler of ["sh", "mh", "sh -b sh-fallback", "mh -b mh-fallback"]) {
      for (const weights of lists) {
        it(`is predicted for ${scheduler}, ${family} and weights ${weights.join(", ")}`, async () => {
          // Each case has its own address, because connections to the previous cases' addresses remain.
          used += 1;
          const address = virtual(used);
          bind([address]);
          create(family, scheduler, address, weights);
          const pairs = indexes.map((index) => [client(index), address] as const);
          const { wrong, endpointCount } = await compare(family, pairs);
          assert.deepEqual(wrong, []);
          // The table of sh has 256 places, so endpoints behind large weights get none.
          assert.ok(endpointCount >= Math.min(weights.length, 2), `${endpointCount} endpoints`);
        });
      }
    }

    it(`is predicted for dh and ${family}, whatever the weights`, async () => {
      const addresses = indexes.slice(100, 140).map(virtual);
      bind(addresses);
      for (const address of addresses) create(family, "dh", address, lists[2] ?? []);
      const pairs = indexes.map((index) => [client(index), virtual(100 + (index % 40))] as const);
      const { wrong, endpointCount } = await compare(family, pairs);
      assert.deepEqual(wrong, []);
      assert.equal(endpointCount, lists[2]?.length);
    });
  }
});
