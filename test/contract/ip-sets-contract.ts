import assert from "node:assert/strict";
import { describe } from "node:test";
import { cidrText, type IpFamily, parseCidr } from "../../src/base/ip.ts";
import { widestNetworks } from "../../src/base/networks.ts";
import type { EntryChange, IpSets, Kernel, RuleChange } from "../../src/kernel/kernel.ts";
import type { IpSet, IpSetType } from "../../src/state/ip-set.ts";
import type { SetEntry } from "../../src/state/set-entry.ts";
import { firstSeed, seededRandom } from "../support/seeds.ts";
import { contractCase, type OpenContractKernel } from "./contract-kernel.ts";

function set(overrides: Partial<IpSet> = {}): IpSet {
  return {
    name: "KUBE-TEST",
    type: "hash:ip,port",
    family: "IPv4",
    maxElements: 65_536,
    ...overrides,
  };
}

function change(kind: "add" | "remove", target: IpSet, ...texts: readonly string[]): EntryChange[] {
  return texts.map((text) => ({ kind: `entry-${kind}`, set: target, entry: text as SetEntry }));
}

async function entries(ipSets: IpSets, target: IpSet): Promise<readonly string[]> {
  return (await ipSets.listEntries(target)).toSorted();
}

async function applyAll(ipSets: IpSets, changes: readonly EntryChange[]): Promise<void> {
  assert.deepEqual(await ipSets.apply(changes), []);
}

/** Entries of every type as `ipset list` prints them, sorted. */
const shapes: readonly {
  readonly type: IpSetType;
  readonly family: IpFamily;
  readonly entries: readonly string[];
}[] = [
  { type: "hash:ip", family: "IPv4", entries: ["10.96.0.1", "10.96.0.2"] },
  { type: "hash:ip", family: "IPv6", entries: ["fd00:96::1"] },
  {
    type: "hash:ip,port",
    family: "IPv4",
    entries: ["10.96.0.1,sctp:9000", "10.96.0.1,tcp:443", "10.96.0.1,udp:53"],
  },
  { type: "hash:ip,port", family: "IPv6", entries: ["fd00:96::1,tcp:443", "fd00:96::1,udp:53"] },
  {
    type: "hash:ip,port,ip",
    family: "IPv4",
    entries: ["10.244.1.5,tcp:8080,10.244.1.5", "10.244.1.5,udp:53,10.244.1.6"],
  },
  {
    type: "hash:ip,port,ip",
    family: "IPv6",
    entries: ["fd00:244::5,tcp:8080,fd00:244::5"],
  },
  {
    type: "hash:ip,port,net",
    family: "IPv4",
    entries: ["203.0.113.5,tcp:443,192.0.2.0/25", "203.0.113.5,tcp:443,198.51.100.7"],
  },
  {
    type: "hash:ip,port,net",
    family: "IPv6",
    entries: ["2001:db8::5,tcp:443,2001:db8:1::/64", "2001:db8::5,tcp:443,2001:db8:2::1"],
  },
  { type: "bitmap:port", family: "IPv4", entries: ["0", "30080", "65535"] },
];

/** Features of ipset that nf_tables sets do not have. */
const ipsetAlone = { capacities: true, references: true };

export function describeIpSetsContract(
  name: string,
  open: OpenContractKernel,
  has: { readonly capacities: boolean; readonly references: boolean } = ipsetAlone,
): void {
  const bounds = (maxElements: number): object => ({
    ...(has.capacities ? { maxElements } : {}),
    ...(has.references ? { references: 0 } : {}),
  });
  const withoutCapacities = has.capacities ? false : "sets of nf_tables have no capacity";
  describe(`${name}: ip sets`, () => {
    contractCase(open, "has none initially", async ({ ipSets }) => {
      assert.deepEqual(await ipSets.listSets(), []);
      assert.deepEqual(await ipSets.listEntries(set()), []);
      assert.deepEqual(await ipSets.apply([]), []);
    });

    for (const shape of shapes) {
      contractCase(open, `holds entries of ${shape.type}, ${shape.family}`, async ({ ipSets }) => {
        const target = set({ type: shape.type, family: shape.family });
        await ipSets.create(target);
        await applyAll(ipSets, change("add", target, ...shape.entries));
        assert.deepEqual(await entries(ipSets, target), shape.entries);
        const [first = "", ...rest] = shape.entries;
        await applyAll(ipSets, change("remove", target, first));
        assert.deepEqual(await entries(ipSets, target), rest);
      });
    }

    contractCase(open, "reports parameters and counts", async ({ ipSets }) => {
      await ipSets.create(set({ maxElements: 1000 }));
      await applyAll(ipSets, change("add", set(), "10.96.0.1,tcp:1", "10.96.0.1,tcp:2"));
      await ipSets.create(set({ name: "PORTS", type: "bitmap:port", family: "IPv6" }));
      assert.deepEqual(await ipSets.listSets(), [
        {
          name: "KUBE-TEST",
          type: "hash:ip,port",
          family: "IPv4",
          ...bounds(1000),
          elementCount: 2,
        },
        {
          name: "PORTS",
          type: "bitmap:port",
          ...bounds(65_536),
          elementCount: 0,
        },
      ]);
    });

    contractCase(open, "creates an existing set and keeps its entries", async ({ ipSets }) => {
      for (const target of [set(), set({ name: "PORTS", type: "bitmap:port" })]) {
        const text = target.type === "bitmap:port" ? "80" : "10.96.0.1,tcp:80";
        await ipSets.create(target);
        await applyAll(ipSets, change("add", target, text));
        await ipSets.create(target);
        assert.deepEqual(await entries(ipSets, target), [text]);
      }
    });

    const others: [string, Partial<IpSet>][] = [
      ["type", { type: "hash:ip" }],
      ["family", { family: "IPv6" }],
    ];
    if (has.capacities) others.push(["capacity", { maxElements: 1000 }]);
    for (const [what, overrides] of others) {
      contractCase(open, `rejects an existing set with a different ${what}`, async ({ ipSets }) => {
        await ipSets.create(set());
        await assert.rejects(ipSets.create(set(overrides)), /KUBE-TEST.*: EEXIST/);
      });
    }

    contractCase(
      open,
      "accepts names of 31 bytes and rejects much longer ones",
      async ({ ipSets }) => {
        await ipSets.create(set({ name: "X".repeat(31) }));
        await assert.rejects(ipSets.create(set({ name: "X".repeat(256) })));
      },
    );

    contractCase(open, "destroys sets, including absent ones", async ({ ipSets }) => {
      await ipSets.create(set());
      await ipSets.destroy("KUBE-TEST");
      await ipSets.destroy("KUBE-TEST");
      assert.deepEqual(await ipSets.listSets(), []);
    });

    contractCase(
      open,
      "accepts repeated additions and removals of absent entries",
      async ({ ipSets }) => {
        await ipSets.create(set());
        await applyAll(ipSets, change("add", set(), "10.96.0.1,tcp:80", "10.96.0.1,tcp:80"));
        await applyAll(ipSets, change("remove", set(), "10.96.0.1,tcp:81"));
        await applyAll(ipSets, change("remove", set({ name: "ABSENT" }), "10.96.0.1,tcp:81"));
        assert.deepEqual(await entries(ipSets, set()), ["10.96.0.1,tcp:80"]);
      },
    );

    contractCase(open, "applies the changes of a list in order", async ({ ipSets }) => {
      await ipSets.create(set());
      await applyAll(ipSets, [
        ...change("add", set(), "10.96.0.1,tcp:80", "10.96.0.2,tcp:80"),
        ...change("remove", set(), "10.96.0.1,tcp:80"),
        ...change("add", set(), "10.96.0.3,tcp:80"),
        ...change("remove", set(), "10.96.0.3,tcp:80"),
      ]);
      assert.deepEqual(await entries(ipSets, set()), ["10.96.0.2,tcp:80"]);
    });

    contractCase(open, "names the rejected entries and accepts the others", async ({ ipSets }) => {
      await ipSets.create(set());
      const failed = await ipSets.apply([
        ...change("add", set(), "10.96.0.1,tcp:1", "fd00:96::1,tcp:1", "10.96.0.1,tcp:2"),
        ...change("add", set({ name: "ABSENT" }), "10.96.0.1,tcp:1"),
        ...change("add", set(), "10.96.0.9", "10.96.0.1,tcp:70000", "10.96.0.1,tcp:3"),
        ...change("remove", set(), "10.96.0.1,tcp:1"),
      ]);
      assert.deepEqual(
        failed.map(({ index }) => index),
        [1, 3, 4, 5],
      );
      assert.match(failed[0]?.error.message ?? "", /KUBE-TEST.*fd00:96::1,tcp:1/);
      assert.match(failed[1]?.error.message ?? "", /ABSENT.*: ENOENT/);
      assert.deepEqual(await entries(ipSets, set()), ["10.96.0.1,tcp:2", "10.96.0.1,tcp:3"]);
    });

    contractCase(
      open,
      "accepts no more entries than its capacity",
      async ({ ipSets }) => {
        const small = set({ maxElements: 64 });
        const texts = Array.from({ length: 70 }, (_, port) => `10.96.0.1,tcp:${port + 1}`);
        await ipSets.create(small);
        const failed = await ipSets.apply(change("add", small, ...texts));
        assert.deepEqual(
          failed.map(({ index }) => index),
          [64, 65, 66, 67, 68, 69],
        );
        assert.match(failed[0]?.error.message ?? "", /IPSET_ERR_HASH_FULL/);
        assert.equal((await ipSets.listEntries(small)).length, 64);
      },
      withoutCapacities,
    );

    contractCase(open, "replaces networks by overlapping ones in one call", async ({ ipSets }) => {
      for (const [family, wide, narrow] of [
        ["IPv4", "203.0.113.5,tcp:443,10.0.0.0/8", "203.0.113.5,tcp:443,10.0.0.0/16"],
        ["IPv6", "2001:db8::5,tcp:443,fd00::/8", "2001:db8::5,tcp:443,fd00::1"],
      ] as const) {
        const nets = set({ name: `NETS-${family}`, type: "hash:ip,port,net", family });
        await ipSets.create(nets);
        await applyAll(ipSets, change("add", nets, wide));
        await applyAll(ipSets, [...change("add", nets, narrow), ...change("remove", nets, wide)]);
        assert.deepEqual(await entries(ipSets, nets), [narrow]);
        await applyAll(ipSets, [...change("add", nets, wide), ...change("remove", nets, narrow)]);
        assert.deepEqual(await entries(ipSets, nets), [wide]);
        const counts = (await ipSets.listSets()).map(({ elementCount }) => elementCount);
        assert.equal(counts.at(-1), 1);
        await applyAll(ipSets, change("add", nets, wide));
        await applyAll(ipSets, change("remove", nets, narrow));
        assert.deepEqual(await entries(ipSets, nets), [wide]);
        await applyAll(ipSets, change("remove", nets, wide));
        assert.deepEqual(await entries(ipSets, nets), []);
      }
    });

    contractCase(open, "keeps networks correct through random changes", async ({ ipSets }) => {
      const random = seededRandom(firstSeed);
      const pick = (count: number): number => Math.floor(random() * count);
      const nets = set({ type: "hash:ip,port,net" });
      let present: ReadonlySet<string> = new Set();
      await ipSets.create(nets);
      for (let round = 0; round < 60; round += 1) {
        const wanted = new Set(
          [0, 1].flatMap((host) => {
            const drawn = Array.from({ length: pick(8) }, () =>
              parseCidr(`10.${pick(3)}.${64 * pick(4)}.0/${15 + pick(5)}`),
            ).filter((net) => net !== undefined);
            const texts = widestNetworks(drawn).map(cidrText);
            return texts.map((text) => `203.0.113.${host},tcp:443,${text}`);
          }),
        );
        await applyAll(ipSets, [
          ...change("add", nets, ...[...wanted].filter((text) => !present.has(text))),
          ...change("remove", nets, ...[...present].filter((text) => !wanted.has(text))),
        ]);
        present = wanted;
        assert.deepEqual(await entries(ipSets, nets), [...wanted].toSorted(), `round ${round}`);
      }
    });

    contractCase(open, "accepts thousands of entries in one call", async ({ ipSets }) => {
      const texts = Array.from({ length: 3500 }, (_, port) => `10.96.0.1,tcp:${port + 1}`);
      await ipSets.create(set());
      await applyAll(ipSets, change("add", set(), ...texts));
      assert.deepEqual(await entries(ipSets, set()), texts.toSorted());
      await applyAll(ipSets, change("remove", set(), ...texts.slice(1)));
      assert.deepEqual(await entries(ipSets, set()), texts.slice(0, 1));
    });

    const withoutSwaps = has.capacities ? false : "sets of nf_tables are never replaced";
    const swapping = async ({ ipSets }: Pick<Kernel, "ipSets">): Promise<void> => {
      const [one, other] = [set(), set({ name: "OTHER", maxElements: 100 })];
      await ipSets.create(one);
      await ipSets.create(other);
      await applyAll(ipSets, change("add", one, "10.96.0.1,tcp:1"));
      await ipSets.swap("KUBE-TEST", "OTHER");
      assert.deepEqual(await entries(ipSets, one), []);
      assert.deepEqual(await entries(ipSets, other), ["10.96.0.1,tcp:1"]);
      const capacities = (await ipSets.listSets()).map(({ maxElements }) => maxElements);
      assert.deepEqual(capacities.toSorted(), [100, 65_536]);
    };
    contractCase(open, "swaps the contents of two sets", swapping, withoutSwaps);

    contractCase(open, "rejects swapping sets of different types", async ({ ipSets }) => {
      await ipSets.create(set());
      await ipSets.create(set({ name: "OTHER", type: "hash:ip" }));
      await assert.rejects(ipSets.swap("KUBE-TEST", "OTHER"), /IPSET_ERR_TYPE_MISMATCH|EOPNOTSUPP/);
      await assert.rejects(ipSets.swap("KUBE-TEST", "ABSENT"));
    });

    contractCase(open, "keeps a set that a rule refers to", async ({ ipSets, iptables }) => {
      await ipSets.create(set());
      await iptables.apply("IPv4", [ruleWithSet("KUBE-TEST")]);
      if (has.references) assert.equal((await ipSets.listSets())[0]?.references, 1);
      await assert.rejects(ipSets.destroy("KUBE-TEST"), /IPSET_ERR_BUSY|EBUSY/);
      await iptables.apply("IPv4", [
        { kind: "chain-remove", table: "filter", chainName: "KUBE-REFERS" },
      ]);
      await ipSets.destroy("KUBE-TEST");
      assert.deepEqual(await ipSets.listSets(), []);
    });
  });
}

function ruleWithSet(setName: string): RuleChange {
  const matches = [{ kind: "set", name: setName, directions: ["dst", "dst"] }] as const;
  return {
    kind: "chain-write",
    chain: {
      table: "filter",
      name: "KUBE-REFERS",
      rules: [{ matches, target: { kind: "accept" } }],
    },
  };
}
