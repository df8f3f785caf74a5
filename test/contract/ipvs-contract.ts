import assert from "node:assert/strict";
import { describe } from "node:test";
import type { Ipvs, IpvsChange } from "../../src/kernel/kernel.ts";
import type { RealServer } from "../../src/state/real-server.ts";
import { noTraffic } from "../../src/state/traffic.ts";
import {
  type VirtualServer,
  virtualServerFlags,
  virtualServerKey,
} from "../../src/state/virtual-server.ts";
import { observeIpvs } from "../support/observe-ipvs.ts";
import { contractCase, ip, type OpenContractKernel } from "./contract-kernel.ts";
import { create, real, virtual } from "./servers.ts";

/** The state without counts, sorted. */
async function state(ipvs: Ipvs): Promise<readonly string[]> {
  const virtualServers = await observeIpvs(ipvs);
  return virtualServers
    .flatMap(({ virtualServer, realServers }) => {
      const { protocol, address, port, ...rest } = virtualServer;
      const place = `${protocol} ${address} ${port}`;
      return [
        `${place} ${JSON.stringify(rest, Object.keys(rest).sort())}`,
        ...realServers.map(
          (one) =>
            `${place} -> ${one.address} ${one.port} weight ${one.weight} ` +
            `method ${one.forwardingMethod}`,
        ),
      ];
    })
    .sort();
}

async function applyAll(ipvs: Ipvs, changes: readonly IpvsChange[]): Promise<void> {
  assert.deepEqual(await ipvs.apply(changes), []);
}

const shapes: readonly { readonly name: string; readonly virtualServer: VirtualServer }[] = [
  { name: "TCP over IPv4", virtualServer: virtual() },
  { name: "UDP", virtualServer: virtual({ protocol: "UDP", port: 53 }) },
  { name: "SCTP", virtualServer: virtual({ protocol: "SCTP", port: 36412 }) },
  { name: "IPv6", virtualServer: virtual({ address: ip("fd00:96::1") }) },
  { name: "with persistence", virtualServer: virtual({ persistenceTimeoutSeconds: 10800 }) },
  {
    name: "with persistence over IPv6",
    virtualServer: virtual({ address: ip("fd00:96::1"), persistenceTimeoutSeconds: 300 }),
  },
  {
    name: "with clients grouped by network",
    virtualServer: virtual({ persistenceTimeoutSeconds: 60, persistencePrefixLength: 24 }),
  },
  {
    name: "with the mh flags",
    virtualServer: virtual({ scheduler: "mh", flags: virtualServerFlags.schedulerPort }),
  },
  {
    name: "with one-packet scheduling",
    virtualServer: virtual({ protocol: "UDP", flags: virtualServerFlags.onePacket }),
  },
];

export function describeIpvsContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: ipvs`, () => {
    contractCase(open, "is empty initially", async ({ ipvs }) => {
      assert.deepEqual(await ipvs.listVirtualServers(), []);
      assert.deepEqual(await ipvs.readRealServers([]), []);
      assert.deepEqual(await observeIpvs(ipvs), []);
      assert.deepEqual(await ipvs.apply([]), []);
    });

    for (const shape of shapes) {
      contractCase(
        open,
        `reports a virtual server ${shape.name} as it was created`,
        async (kernel) => {
          await applyAll(kernel.ipvs, create(shape.virtualServer));
          const virtualServers = await observeIpvs(kernel.ipvs);
          assert.deepEqual(virtualServers, [
            { virtualServer: shape.virtualServer, realServers: [] },
          ]);
        },
      );
    }

    contractCase(open, "reports real servers with weights and no connections", async ({ ipvs }) => {
      const drained = real("10.244.1.6", { weight: 0 });
      await applyAll(ipvs, create(virtual(), real(), drained));
      const counts = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };
      const [listed = []] = await ipvs.listRealServers([virtual()]);
      const byAddress = listed.toSorted((one, other) => (one.address < other.address ? -1 : 1));
      assert.deepEqual(byAddress, [
        { ...real(), ...counts },
        { ...drained, ...counts },
      ]);
    });

    contractCase(open, "sets connection thresholds and removes them", async ({ ipvs }) => {
      const limited = real("10.244.1.6", { limit: { upper: 100, lower: 80 } });
      await applyAll(ipvs, create(virtual(), real(), limited));
      const read = async (): Promise<readonly RealServer[]> => {
        const [servers = []] = await ipvs.readRealServers([virtual()]);
        return servers.toSorted((one, other) => (one.address < other.address ? -1 : 1));
      };
      assert.deepEqual(await read(), [real(), limited]);
      const cached = [real(), limited];
      assert.equal((await ipvs.readRealServers([virtual()], () => cached))[0], cached);
      const kind = "real-server-update";
      const realServer = real("10.244.1.6");
      await applyAll(ipvs, [{ kind, virtualServer: virtual(), after: realServer }]);
      assert.deepEqual(await read(), [real(), realServer]);
      assert.notEqual((await ipvs.readRealServers([virtual()], () => cached))[0], cached);
    });

    contractCase(open, "reports no traffic if there was none", async ({ ipvs }) => {
      const six = virtual({ address: ip("fd00:96::1"), protocol: "UDP", port: 53 });
      await applyAll(ipvs, [...create(virtual(), real()), ...create(six)]);
      const listed = await ipvs.listTraffic();
      const texts = listed.map((one) => virtualServerKey(one)).toSorted();
      assert.deepEqual(texts, [virtualServerKey(virtual()), virtualServerKey(six)].toSorted());
      for (const { traffic } of listed) assert.deepEqual(traffic, noTraffic);
      const counts = { activeConnections: 0, inactiveConnections: 0 };
      assert.deepEqual(await ipvs.sumConnections([virtual(), six]), [counts, counts]);
      assert.equal(await ipvs.hasEstablished([virtual(), six]), false);
      const { address, port, weight } = real();
      assert.deepEqual(await ipvs.listRealServerTraffic([virtual(), six]), [
        [{ address, port, weight, ...counts, traffic: noTraffic }],
        [],
      ]);
    });

    contractCase(
      open,
      "does not change existing servers that are created again",
      async ({ ipvs }) => {
        await applyAll(ipvs, create(virtual(), real()));
        const failed = await ipvs.apply(
          create(virtual({ scheduler: "lc" }), real("10.244.1.5", { weight: 0 })),
        );
        assert.deepEqual(
          failed.map(({ index }) => index),
          [0, 1],
        );
        for (const { error } of failed) assert.match(error.message, /: EEXIST/);
        assert.deepEqual(await state(ipvs), [
          "TCP 10.96.0.1 80 -> 10.244.1.5 8080 weight 1 method 0",
          `TCP 10.96.0.1 80 {"flags":0,"persistencePrefixLength":32,"persistenceTimeoutSeconds":0,"scheduler":"rr"}`,
        ]);
      },
    );

    contractCase(open, "disables persistence again", async ({ ipvs }) => {
      await applyAll(ipvs, create(virtual({ persistenceTimeoutSeconds: 60 })));
      const virtualServer = virtual();
      await applyAll(ipvs, [{ kind: "virtual-server-update", after: virtualServer }]);
      assert.deepEqual((await observeIpvs(ipvs))[0]?.virtualServer, virtualServer);
    });

    contractCase(
      open,
      "removes real servers together with their virtual server",
      async ({ ipvs }) => {
        await applyAll(ipvs, create(virtual(), real()));
        await applyAll(ipvs, [{ kind: "virtual-server-remove", before: virtual() }]);
        assert.deepEqual(await state(ipvs), []);
        await applyAll(ipvs, create(virtual()));
        assert.deepEqual(await ipvs.listRealServers([virtual()]), [[]]);
      },
    );

    contractCase(open, "accepts the removal of absent objects", async ({ ipvs }) => {
      const other = virtual({ port: 81 });
      await applyAll(ipvs, create(virtual()));
      await applyAll(ipvs, [
        { kind: "real-server-remove", virtualServer: virtual(), before: real() },
        { kind: "real-server-remove", virtualServer: other, before: real() },
        { kind: "virtual-server-remove", before: other },
      ]);
    });

    contractCase(
      open,
      "executes the rest of a list and names rejected changes",
      async ({ ipvs }) => {
        const unknown = virtual({ port: 81 });
        const failed = await ipvs.apply([
          { kind: "real-server-create", virtualServer: unknown, after: real() },
          ...create(virtual(), real()),
          { kind: "virtual-server-update", after: unknown },
          { kind: "real-server-update", virtualServer: virtual(), after: real("10.244.1.6") },
          ...create(virtual({ port: 82, scheduler: "nosuch" })),
          ...create(virtual({ port: 83 })),
        ]);
        assert.deepEqual(
          failed.map(({ index }) => index),
          [0, 3, 4, 5],
        );
        assert.match(failed[0]?.error.message ?? "", /TCP 10\.96\.0\.1:81.*: ESRCH/);
        assert.match(failed[3]?.error.message ?? "", /: ENOENT/);
        const virtualServers = await observeIpvs(ipvs);
        assert.deepEqual(
          virtualServers.map(({ virtualServer }) => virtualServer.port).sort(),
          [80, 83],
        );
      },
    );

    contractCase(open, "rejects a real server of the other family", async ({ ipvs }) => {
      const failed = await ipvs.apply(create(virtual(), real("fd00:244::5")));
      assert.deepEqual(
        failed.map(({ index }) => index),
        [1],
      );
    });

    contractCase(open, "distinguishes servers by protocol, address and port", async ({ ipvs }) => {
      const four = [
        virtual(),
        virtual({ protocol: "UDP" }),
        virtual({ port: 81 }),
        virtual({ address: ip("10.96.0.2") }),
      ];
      await applyAll(
        ipvs,
        four.flatMap((one, index) => create(one, real(`10.244.1.${index}`))),
      );
      const listed = await ipvs.listRealServers([...four, virtual({ port: 99 })]);
      assert.deepEqual(
        listed.map((realServers) => realServers.map(({ address }) => address)),
        [["10.244.1.0"], ["10.244.1.1"], ["10.244.1.2"], ["10.244.1.3"], []],
      );
    });

    contractCase(
      open,
      "lists virtual servers, and reads real servers without counts",
      async (kernel) => {
        const { ipvs } = kernel;
        const second = virtual({ address: ip("fd00:96::1") });
        await applyAll(ipvs, [
          ...create(virtual(), real()),
          ...create(second, real("fd00:244::5")),
        ]);
        const listed = await ipvs.listVirtualServers();
        assert.deepEqual(new Set(listed), new Set([virtual(), second]));
        const unknown = virtual({ port: 81 });
        assert.deepEqual(await ipvs.readRealServers([second, unknown, virtual()]), [
          [real("fd00:244::5")],
          [],
          [real()],
        ]);
      },
    );

    contractCase(open, "finds which of some virtual servers exist", async ({ ipvs }) => {
      const persistent = virtual({ port: 81, persistenceTimeoutSeconds: 60 });
      const ofIpv6 = virtual({ address: ip("fd00:96::1"), protocol: "UDP" });
      const asked = [virtual({ port: 82 }), ofIpv6, persistent, virtual({ protocol: "SCTP" })];
      assert.deepEqual(await ipvs.findVirtualServers([]), []);
      assert.deepEqual(await ipvs.findVirtualServers(asked), []);
      await applyAll(
        ipvs,
        [virtual(), persistent, ofIpv6].flatMap((one) => create(one)),
      );
      assert.deepEqual(await ipvs.findVirtualServers(asked), [ofIpv6, persistent]);
      assert.deepEqual(await ipvs.findVirtualServers([virtual()]), [virtual()]);
    });

    contractCase(
      open,
      "finds 3,000 existing servers among 4,500, in several datagrams",
      async ({ ipvs }) => {
        const all = Array.from({ length: 4_500 }, (_, index) => virtual({ port: 10_000 + index }));
        const present = all.filter((_, index) => index % 3 !== 0);
        await applyAll(
          ipvs,
          present.flatMap((one) => create(one)),
        );
        assert.deepEqual(await ipvs.findVirtualServers(all), present);
      },
    );

    contractCase(open, "returns the cached list of real servers if it is equal", async (kernel) => {
      const { ipvs } = kernel;
      const other = virtual({ port: 81 });
      const empty = virtual({ port: 82 });
      const both = [real("10.244.1.5"), real("10.244.1.6", { weight: 0 }), real("10.244.1.7")];
      await applyAll(
        ipvs,
        [virtual(), other].flatMap((one) => create(one, ...both)),
      );
      await applyAll(ipvs, create(empty));
      const shuffled = [both[1], both[2], both[0]].map((one) => ({ ...one }) as RealServer);
      const outdated = both.map((one) => ({ ...one, weight: 1 }));
      const none: readonly RealServer[] = [];
      const cached = new Map<string, readonly RealServer[]>([
        [virtualServerKey(virtual()), shuffled],
        [virtualServerKey(other), outdated],
        [virtualServerKey(empty), none],
      ]);
      const [first, second, third] = await ipvs.readRealServers([virtual(), other, empty], (key) =>
        cached.get(key),
      );
      assert.equal(first, shuffled);
      assert.notEqual(second, outdated);
      assert.deepEqual(new Set(second), new Set(both));
      assert.equal(third, none);
    });

    contractCase(open, "changes timeouts and keeps those that are 0", async ({ ipvs }) => {
      await ipvs.writeTimeouts({ tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 });
      await ipvs.writeTimeouts({ tcpSeconds: 0, tcpFinSeconds: 60, udpSeconds: 0 });
      const expected = { tcpSeconds: 900, tcpFinSeconds: 60, udpSeconds: 300 };
      assert.deepEqual(await ipvs.readTimeouts(), expected);
    });

    contractCase(
      open,
      "reports which schedulers exist without changing anything",
      async ({ ipvs }) => {
        await applyAll(ipvs, create(virtual(), real()));
        const before = await state(ipvs);
        await ipvs.checkScheduler("rr", "IPv4");
        await ipvs.checkScheduler("mh", "IPv6");
        await assert.rejects(ipvs.checkScheduler("nosuch", "IPv4"), /nosuch/);
        await assert.rejects(ipvs.checkScheduler("nosuch", "IPv6"), /nosuch/);
        assert.deepEqual(await state(ipvs), before);
      },
    );
  });
}
