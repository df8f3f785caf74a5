/**
 * Compares the fake kernel with the real one: both must reject the same random changes and reach the same state. The
 * contract suite tests known cases; this test finds unexpected ones.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { silentLogger } from "../../src/base/log.ts";
import { chooseBackend } from "../../src/kernel/iptables/backend.ts";
import { virtualServerOf } from "../../src/kernel/ipvs/change-errors.ts";
import type {
  AddressChange,
  EntryChange,
  FailedChange,
  IpvsChange,
  Kernel,
  RuleChange,
} from "../../src/kernel/kernel.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { runProgram } from "../../src/kernel/run-program.ts";
import type { IpSet } from "../../src/state/ip-set.ts";
import { realServerKey } from "../../src/state/real-server.ts";
import type { Rule } from "../../src/state/rule.ts";
import type { SetEntry } from "../../src/state/set-entry.ts";
import { type VirtualServerId, virtualServerKey } from "../../src/state/virtual-server.ts";
import { ip } from "../contract/contract-kernel.ts";
import { FakeKernel } from "../support/fake-kernel/fake-kernel.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { observeIpvs } from "../support/observe-ipvs.ts";
import { type Counts, countOf, firstSeed } from "../support/seeds.ts";

const most = { short: 300, long: 3_000 };
const iptablesBackend = await chooseBackend(runProgram);

/** Runs `step` for each generated value on both kernels, and compares the results. */
async function compare<T>(
  values: fc.Arbitrary<T>,
  counts: Counts,
  step: (kernel: Kernel, value: T) => Promise<unknown>,
): Promise<void> {
  await withNetworkNamespace("compare", [], async () => {
    const real = await openKernel({ log: silentLogger, iptablesBackend });
    const fake = new FakeKernel();
    try {
      const seed = firstSeed;
      for (const value of fc.sample(values, { numRuns: countOf(counts), seed })) {
        const where = `seed ${seed}: ${JSON.stringify(value)}`;
        assert.deepEqual(await step(fake, value), await step(real, value), where);
      }
    } finally {
      real.close();
    }
  });
}

function refused(failed: readonly FailedChange[]): readonly number[] {
  return failed.map(({ index }) => index);
}

const servers: fc.Arbitrary<VirtualServerId> = fc
  .tuple(
    fc.constantFrom(...(["TCP", "UDP", "SCTP"] as const)),
    fc.constantFrom("10.96.0.1", "fd00:96::1"),
  )
  .map(([protocol, address]) => ({ protocol, address: ip(address), port: 80 }));

const virtualServers = fc
  .record({
    id: servers,
    scheduler: fc.constantFrom("rr", "lc", "mh", "nosuch"),
    persistenceTimeoutSeconds: fc.constantFrom(0, 0, 300),
    flags: fc.constantFrom(0, 4, 0x10),
    groupsClients: fc.boolean(),
  })
  .map(({ id, groupsClients, ...rest }) => {
    const longest = id.address.includes(":") ? 128 : 32;
    return { ...id, ...rest, persistencePrefixLength: groupsClients ? longest - 8 : longest };
  });

const realServers = fc.record({
  address: fc.constantFrom(ip("10.244.1.5"), ip("10.244.1.6"), ip("fd00:244::5")),
  port: fc.constantFrom(8080, 8081),
  weight: fc.constantFrom(0, 1, 1, -1),
  forwardingMethod: fc.constant(0),
});

const ipvsChanges: fc.Arbitrary<IpvsChange> = fc.oneof(
  fc.record({
    kind: fc.constantFrom("virtual-server-create", "virtual-server-update"),
    after: virtualServers,
  }),
  fc.record({ kind: fc.constant("virtual-server-remove"), before: servers }),
  fc.record({
    kind: fc.constantFrom("real-server-create", "real-server-update"),
    virtualServer: servers,
    after: realServers,
  }),
  fc.record({
    kind: fc.constant("real-server-remove"),
    virtualServer: servers,
    before: realServers,
  }),
) as fc.Arbitrary<IpvsChange>;

/** No object occurs twice in a list, because it would be unclear which rejection applies. */
const ipvsLists = fc.uniqueArray(ipvsChanges, {
  maxLength: 12,
  selector: (change) =>
    virtualServerKey(virtualServerOf(change)) +
    ("virtualServer" in change
      ? realServerKey("after" in change ? change.after : change.before)
      : ""),
});

async function ipvsStep({ ipvs }: Kernel, changes: readonly IpvsChange[]): Promise<unknown> {
  const failed = refused(await ipvs.apply(changes));
  const observed = await observeIpvs(ipvs);
  const state = observed
    .map(({ virtualServer, realServers: reals }) => ({
      virtualServer: Object.entries(virtualServer).toSorted(),
      realServers: reals.map((real) => `${realServerKey(real)} ${real.weight}`).toSorted(),
      key: virtualServerKey(virtualServer),
    }))
    .toSorted((one, other) => (one.key < other.key ? -1 : 1));
  return { failed, state };
}

const sets: readonly IpSet[] = [
  { name: "PORTS", type: "bitmap:port", family: "IPv4", maxElements: 65_536 },
  { name: "PAIRS", type: "hash:ip,port", family: "IPv4", maxElements: 64 },
  { name: "OTHER", type: "hash:ip,port", family: "IPv4", maxElements: 64 },
  { name: "SIX", type: "hash:ip", family: "IPv6", maxElements: 64 },
];

const entries = fc.constantFrom(
  ...["80", "443", "70000", "10.0.0.1", "10.0.0.1,tcp:80", "10.0.0.1,udp:80", "10.0.0.2,tcp:80"],
  ...["fd00::1", "fd00::1,tcp:80", "10.0.0.1,tcp:80,10.0.0.1"],
) as fc.Arbitrary<SetEntry>;

type SetStep =
  | { readonly kind: "create" | "destroy"; readonly set: IpSet }
  | { readonly kind: "swap"; readonly set: IpSet; readonly other: IpSet }
  | { readonly kind: "apply"; readonly changes: readonly EntryChange[] };

const anySet = fc.constantFrom(...sets);
const setChanges = fc.array(
  fc.record({
    kind: fc.constantFrom(...(["entry-add", "entry-add", "entry-remove"] as const)),
    set: anySet,
    entry: entries,
  }),
  { maxLength: 25 },
);

const setSteps: fc.Arbitrary<SetStep> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("create" as const), set: anySet }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("destroy" as const), set: anySet }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("swap" as const), set: anySet, other: anySet }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("apply" as const), changes: setChanges }),
  },
);

async function setStep({ ipSets }: Kernel, step: SetStep): Promise<unknown> {
  const outcome = await carryOut(ipSets, step).catch(() => "refused");
  const held = await Promise.all(
    sets.map(async (set) => [set.name, (await ipSets.listEntries(set)).toSorted()]),
  );
  const headers = (await ipSets.listSets()).toSorted((one, other) =>
    one.name < other.name ? -1 : 1,
  );
  return { outcome, held, headers };
}

async function carryOut(ipSets: Kernel["ipSets"], step: SetStep): Promise<unknown> {
  if (step.kind === "apply") return refused(await ipSets.apply(step.changes));
  if (step.kind === "swap") return ipSets.swap(step.set.name, step.other.name);
  return step.kind === "create" ? ipSets.create(step.set) : ipSets.destroy(step.set.name);
}

const chains = ["KUBE-A", "KUBE-B", "KUBE-C"];
const rules: fc.Arbitrary<Rule> = fc.oneof(
  fc.constantFrom(...chains, "KUBE-ABSENT").map((chain) => jumpTo(chain)),
  fc.constant<Rule>({ matches: [], target: { kind: "return" } }),
);
const tables = fc.constantFrom(...(["nat", "filter"] as const));

const rulesChanges: fc.Arbitrary<RuleChange> = fc.oneof(
  fc
    .record({
      table: tables,
      name: fc.constantFrom(...chains),
      rules: fc.array(rules, { maxLength: 2 }),
    })
    .map((chain): RuleChange => ({ kind: "chain-write", chain })),
  fc
    .tuple(
      fc.constantFrom(...(["jump-insert", "jump-remove"] as const)),
      tables,
      fc.constantFrom(...chains),
    )
    .map(([kind, table, chain]): RuleChange => {
      return { kind, jump: { table, from: "OUTPUT", rule: jumpTo(chain) } };
    }),
  fc
    .tuple(tables, fc.constantFrom(...chains))
    .map(([table, name]): RuleChange => ({ kind: "chain-remove", table, chainName: name })),
);

function jumpTo(chain: string): Rule {
  return { matches: [], target: { kind: "jump", chain } };
}

/** Jump loops are omitted, because legacy and nft handle them differently. */
function hasLoop(changes: readonly RuleChange[]): boolean {
  return changes.some(
    (change) =>
      change.kind === "chain-write" &&
      change.chain.rules.some(
        ({ target }) => target.kind === "jump" && target.chain <= change.chain.name,
      ),
  );
}

async function rulesStep({ iptables }: Kernel, changes: readonly RuleChange[]): Promise<unknown> {
  const outcome = await iptables.apply("IPv4", changes).catch(() => "refused");
  const observed = await iptables.observe("IPv4");
  const state = observed
    .filter(({ name, rules: held }) => name.startsWith("KUBE-") || held.length > 0)
    .map(({ table, name, rules: held }) => `${table} ${name}: ${held.map(({ text }) => text)}`);
  return { outcome, state: state.toSorted() };
}

const addressChanges: fc.Arbitrary<readonly AddressChange[]> = fc.array(
  fc.record({
    kind: fc.constantFrom(...(["address-add", "address-remove"] as const)),
    address: fc.constantFrom(ip("10.96.0.1"), ip("10.96.0.2"), ip("fd00:96::1")),
  }),
  { maxLength: 8 },
);

type LinkStep = "ensure" | "remove" | readonly AddressChange[];

const linkSteps: fc.Arbitrary<LinkStep> = fc.oneof(
  { weight: 2, arbitrary: fc.constant<LinkStep>("ensure") },
  { weight: 1, arbitrary: fc.constant<LinkStep>("remove") },
  { weight: 6, arbitrary: addressChanges },
);

async function linkStep({ link }: Kernel, step: LinkStep): Promise<unknown> {
  let outcome: unknown;
  if (step === "ensure") outcome = (await link.ensure()).wasCreated;
  else outcome = step === "remove" ? await link.remove() : refused(await link.apply(step));
  const index = (await link.find())?.index;
  const bound = (await link.listAddresses()).filter(({ linkIndex }) => linkIndex === index);
  const texts = bound.map(({ address, prefixLength }) => `${address}/${prefixLength}`);
  return { outcome, exists: index !== undefined, bound: texts.toSorted() };
}

describe("the fake kernel behaves like the kernel", () => {
  it("with virtual and real servers", async () => {
    await compare(ipvsLists, most, ipvsStep);
  });

  it("with sets", () => compare(setSteps, most, setStep));

  it("with rules", async () => {
    const lists = fc
      .array(rulesChanges, { minLength: 1, maxLength: 5 })
      .filter((changes) => !hasLoop(changes));
    await compare(lists, { short: 40, long: 400 }, rulesStep);
  });

  it("with the dummy link", () => compare(linkSteps, most, linkStep));
});
