import assert from "node:assert/strict";
import { describe } from "node:test";
import type {
  ExpectedEntries,
  ExpectedServers,
  Ipvs,
  IpvsChange,
  SetChange,
} from "../../src/kernel/kernel.ts";
import type { IpSet } from "../../src/state/ip-set.ts";
import { type RealServer, realServerKey } from "../../src/state/real-server.ts";
import type { SetEntry } from "../../src/state/set-entry.ts";
import {
  sameVirtualServer,
  type VirtualServer,
  virtualServerKey,
} from "../../src/state/virtual-server.ts";
import { contractCase, ip, type OpenContractKernel } from "./contract-kernel.ts";
import { create, real, virtual } from "./servers.ts";

type Held = readonly (readonly [VirtualServer, ...(readonly RealServer[])])[];

const [web, dns] = [virtual(), virtual({ address: ip("fd00:96::1"), protocol: "UDP" })];
const [first, second, third] = [
  real("10.244.1.5"),
  real("10.244.1.6", { weight: 0 }),
  real("fd00:244::5"),
];
const held: Held = [
  [web, first, second],
  [dns, third],
];

function creations(servers: Held): IpvsChange[] {
  return servers.flatMap(([virtualServer, ...realServers]) =>
    create(virtualServer, ...realServers),
  );
}

/** In the words of the reconciler, which keeps a map. */
function expecting(servers: Held): ExpectedServers {
  const byKey = new Map(
    servers.map(([server, ...list]) => [virtualServerKey(server), { server, list }]),
  );
  const textOf = (list: readonly RealServer[]): string =>
    list
      .map((one) => `${realServerKey(one)} ${one.weight} ${one.forwardingMethod}`)
      .sort()
      .join();
  return {
    count: servers.length,
    ids: () => servers.map(([server]) => server),
    hasVirtualServer(found) {
      const known = byKey.get(virtualServerKey(found))?.server;
      return known !== undefined && sameVirtualServer(known, found);
    },
    hasRealServers(key, found) {
      const list = byKey.get(key)?.list;
      return list !== undefined && textOf(list) === textOf(found);
    },
  };
}

async function apply(ipvs: Ipvs, changes: readonly IpvsChange[]): Promise<void> {
  assert.deepEqual(await ipvs.apply(changes), []);
}

/** What another program does, and the state that comes of it. */
const edits: readonly { name: string; changes: readonly IpvsChange[]; after: Held }[] = [
  {
    name: "a weight",
    changes: [
      {
        kind: "update-real-server",
        virtualServer: web,
        realServer: real("10.244.1.5", { weight: 5 }),
      },
    ],
    after: [
      [web, real("10.244.1.5", { weight: 5 }), second],
      [dns, third],
    ],
  },
  {
    name: "a scheduler",
    changes: [{ kind: "update-virtual-server", virtualServer: virtual({ scheduler: "wrr" }) }],
    after: [
      [virtual({ scheduler: "wrr" }), first, second],
      [dns, third],
    ],
  },
  {
    name: "a real server less",
    changes: [{ kind: "remove-real-server", virtualServer: web, realServer: second }],
    after: [
      [web, first],
      [dns, third],
    ],
  },
  {
    name: "a real server more",
    changes: [{ kind: "create-real-server", virtualServer: web, realServer: real("10.244.1.9") }],
    after: [
      [web, first, second, real("10.244.1.9")],
      [dns, third],
    ],
  },
  {
    name: "a virtual server less",
    changes: [{ kind: "remove-virtual-server", virtualServer: dns }],
    after: [[web, first, second]],
  },
  {
    name: "a virtual server more",
    changes: creations([[virtual({ address: ip("10.96.0.9") })]]),
    after: [[web, first, second], [dns, third], [virtual({ address: ip("10.96.0.9") })]],
  },
  {
    name: "one virtual server for another",
    changes: [
      { kind: "remove-virtual-server", virtualServer: dns },
      ...creations([[virtual({ address: ip("fd00:96::2"), protocol: "UDP" }), third]]),
    ],
    after: [
      [web, first, second],
      [virtual({ address: ip("fd00:96::2"), protocol: "UDP" }), third],
    ],
  },
];

const set: IpSet = {
  name: "KUBE-TEST",
  type: "hash:ip,port",
  family: "IPv4",
  maxElements: 65_536,
};

function setChange(kind: "add" | "remove", ...entries: readonly string[]): SetChange[] {
  return entries.map((entry) => ({ kind, set, entry: entry as SetEntry }));
}

function expectingEntries(...entries: readonly string[]): ExpectedEntries {
  const all = new Set(entries);
  return { count: all.size, hasEntry: (entry) => all.has(entry) };
}

export function describeConfirmContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: confirming what is there`, () => {
    contractCase(open, "an empty IPVS is one without virtual servers", async ({ ipvs }) => {
      assert.equal(await ipvs.confirm(expecting([])), true);
      assert.equal(await ipvs.confirm(expecting(held)), false);
    });

    for (const { name: edit, changes, after } of edits) {
      contractCase(
        open,
        `sees ${edit} that others made, each time`,
        async ({ ipvs }, { others }) => {
          await apply(ipvs, creations(held));
          assert.equal(await ipvs.confirm(expecting(held)), true);
          assert.equal(await ipvs.confirm(expecting(held)), true);
          await apply(others.ipvs, changes);
          assert.equal(await ipvs.confirm(expecting(held)), false);
          assert.equal(await ipvs.confirm(expecting(held)), false);
          assert.equal(await ipvs.confirm(expecting(after)), true);
          assert.equal(await ipvs.confirm(expecting(after)), true);
        },
      );

      contractCase(open, `sees ${edit} of ours that others undo`, async ({ ipvs }, { others }) => {
        await apply(ipvs, creations(held));
        assert.equal(await ipvs.confirm(expecting(held)), true);
        await apply(ipvs, changes);
        await apply(others.ipvs, undo(after));
        assert.equal(await ipvs.confirm(expecting(after)), false);
        assert.equal(await ipvs.confirm(expecting(held)), true);
      });
    }

    contractCase(open, "compares everything after an observation", async ({ ipvs }) => {
      await apply(ipvs, creations(held));
      assert.equal(await ipvs.confirm(expecting(held)), true);
      await ipvs.observe();
      const others = expecting([[web, first], held[1] ?? [dns]]);
      assert.equal(await ipvs.confirm(others), false);
    });

    contractCase(open, "sees entries that others exchange", async ({ ipSets }, { others }) => {
      await ipSets.create(set);
      assert.deepEqual(
        await ipSets.apply(setChange("add", "10.96.0.1,tcp:80", "10.96.0.2,tcp:80")),
        [],
      );
      const expected = expectingEntries("10.96.0.1,tcp:80", "10.96.0.2,tcp:80");
      assert.equal(await ipSets.confirmEntries(set, expected), true);
      assert.equal(await ipSets.confirmEntries(set, expected), true);
      await others.ipSets.apply([
        ...setChange("remove", "10.96.0.1,tcp:80"),
        ...setChange("add", "10.96.0.3,tcp:80"),
      ]);
      assert.equal(await ipSets.confirmEntries(set, expected), false);
      const now = expectingEntries("10.96.0.3,tcp:80", "10.96.0.2,tcp:80");
      assert.equal(await ipSets.confirmEntries(set, now), true);
    });

    contractCase(open, "sees an entry of ours that others undo", async ({ ipSets }, { others }) => {
      await ipSets.create(set);
      await ipSets.apply(setChange("add", "10.96.0.1,tcp:80"));
      assert.equal(await ipSets.confirmEntries(set, expectingEntries("10.96.0.1,tcp:80")), true);
      const exchange = (kind: "add" | "remove", other: "add" | "remove"): SetChange[] => [
        ...setChange(kind, "10.96.0.1,tcp:80"),
        ...setChange(other, "10.96.0.2,tcp:80"),
      ];
      await ipSets.apply(exchange("remove", "add"));
      await others.ipSets.apply(exchange("add", "remove"));
      assert.equal(await ipSets.confirmEntries(set, expectingEntries("10.96.0.2,tcp:80")), false);
    });

    contractCase(open, "an absent set holds nothing", async ({ ipSets }) => {
      assert.equal(await ipSets.confirmEntries(set, expectingEntries()), true);
      assert.equal(await ipSets.confirmEntries(set, expectingEntries("10.96.0.1,tcp:80")), false);
    });
  });
}

/** From there back to what was held at first. */
function undo(after: Held): readonly IpvsChange[] {
  return [
    ...after.map(
      ([virtualServer]): IpvsChange => ({ kind: "remove-virtual-server", virtualServer }),
    ),
    ...creations(held),
  ];
}
