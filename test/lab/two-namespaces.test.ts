/**
 * Tests that one network namespace reads correct data while another one has hundreds of virtual servers. On such a
 * kernel, dumps are correct, but /proc/net/ip_vs is not.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../src/base/clock.ts";
import { IpvsClient } from "../../src/kernel/ipvs/client.ts";
import { nativeSocket } from "../../src/netlink/native-socket.ts";
import type { RealServer } from "../../src/state/real-server.ts";
import { type VirtualServer, virtualServerKey } from "../../src/state/virtual-server.ts";
import { create, real, virtual } from "../contract/servers.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
} from "../support/netns/network-namespace.ts";
import { ip } from "../support/records.ts";

const serverCount = 300;

interface Held {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

/**
 * IPv4 and IPv6 virtual servers with up to six real servers of different weights, which differ between the namespaces.
 */
function serversOf(namespace: number): readonly Held[] {
  return Array.from({ length: serverCount }, (_, index): Held => {
    const isIpv6 = index % 3 === 0;
    const place = `${index >> 8}${isIpv6 ? ":" : "."}${index & 255}`;
    const address = isIpv6 ? `fd00:${namespace}::${place}` : `10.${96 + namespace}.${place}`;
    const realServers = Array.from({ length: index % 7 }, (_each, number) =>
      real(isIpv6 ? `fd00:244::${number + 1}` : `10.244.${namespace}.${number + 1}`, {
        weight: number % 2,
      }),
    );
    return { virtualServer: virtual({ address: ip(address) }), realServers };
  });
}

async function openIn(namespace: string): Promise<IpvsClient> {
  createNetworkNamespace(namespace);
  enterNetworkNamespace(namespace);
  try {
    const ipvs = new IpvsClient({ shim: nativeSocket, clock: systemClock });
    // The first request also opens the socket.
    await ipvs.readTimeouts();
    return ipvs;
  } finally {
    leaveNetworkNamespace();
  }
}

/** Text that is independent of order. */
function textOf(held: readonly Held[]): readonly string[] {
  return held
    .map(({ virtualServer, realServers }) => {
      const servers = realServers.map(
        ({ address, port, weight, forwardingMethod }) =>
          `${address} ${port} ${weight} ${forwardingMethod}`,
      );
      return `${virtualServerKey(virtualServer)}: ${servers.sort().join(", ")}`;
    })
    .sort();
}

async function readAll(ipvs: IpvsClient): Promise<readonly string[]> {
  const servers = await ipvs.listVirtualServers();
  const realServers = await ipvs.readRealServers(servers);
  return textOf(
    servers.map((virtualServer, index) => ({
      virtualServer,
      realServers: realServers[index] ?? [],
    })),
  );
}

describe("two network namespaces with 300 virtual servers each", () => {
  it("are each read correctly, both completely and after changes", async () => {
    const kernels = [await openIn("first"), await openIn("second")] as const;
    try {
      const wanted = kernels.map((_, index) => serversOf(index + 1));
      for (const [index, ipvs] of kernels.entries()) {
        const changes = (wanted[index] ?? []).flatMap(({ virtualServer, realServers }) =>
          create(virtualServer, ...realServers),
        );
        assert.deepEqual(await ipvs.apply(changes), []);
      }
      for (const [index, ipvs] of kernels.entries()) {
        assert.deepEqual(await readAll(ipvs), textOf(wanted[index] ?? []));
      }
      const [, six] = wanted[0]?.filter(({ realServers }) => realServers.length === 6) ?? [];
      assert.ok(six !== undefined);
      const { virtualServer, realServers } = six;
      const [gone] = realServers as [RealServer];
      await kernels[0].apply([{ kind: "real-server-remove", virtualServer, before: gone }]);
      const [left] = await kernels[0].readRealServers([virtualServer], () => realServers);
      assert.notEqual(left, realServers);
      assert.equal(left?.length, 5);
      assert.deepEqual(await readAll(kernels[1]), textOf(wanted[1] ?? []));
    } finally {
      for (const ipvs of kernels) ipvs.close();
      removeNetworkNamespace("first");
      removeNetworkNamespace("second");
    }
  });

  it("are read completely while virtual servers disappear", async () => {
    const ipvs = await openIn("first");
    const others = await openIn("second");
    try {
      const held = serversOf(1);
      const changes = held.flatMap(({ virtualServer, realServers }) =>
        create(virtualServer, ...realServers),
      );
      await ipvs.apply(changes);
      const servers = await ipvs.listVirtualServers();
      const reading = ipvs.readRealServers(servers);
      enterNetworkNamespace("first");
      const remover = new IpvsClient({ shim: nativeSocket, clock: systemClock });
      const removed = remover.apply(
        servers.map((virtualServer) => ({ kind: "virtual-server-remove", before: virtualServer })),
      );
      leaveNetworkNamespace();
      await removed;
      remover.close();
      assert.equal((await reading).length, serverCount);
      const gone = await ipvs.readRealServers(servers);
      assert.ok(gone.every((realServers) => realServers.length === 0));
    } finally {
      ipvs.close();
      others.close();
      removeNetworkNamespace("first");
      removeNetworkNamespace("second");
    }
  });
});
