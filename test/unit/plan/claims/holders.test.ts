/**
 * Tests that a Service keeps an address against Services of equal rank, both while the program runs and after restarts.
 */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { type ServiceName, toServiceName } from "../../../../src/base/service-name.ts";
import type { Holders } from "../../../../src/plan/claims/claim.ts";
import { DesiredState } from "../../../../src/plan/desired-state.ts";
import { claimant, claimedKey, unequalWays, type Way, ways } from "../../../support/claims.ts";
import fc from "../../../support/fast-check.ts";
import { planService } from "../../../support/plan-at-once.ts";
import { entriesText, ipvsText } from "../../../support/plan-text.ts";
import { cidr, planOptions } from "../../../support/records.ts";

const options = planOptions();

/**
 * A node for planning, with methods to add and remove Services, to end a batch of changes with a sync, and to restart.
 */
class Node {
  #desired = new DesiredState();
  readonly #services = new Map<ServiceName, ServiceRecord>();

  get desired(): DesiredState {
    return this.#desired;
  }

  /** Adds or changes Services in one batch, in this order. */
  put(...services: readonly ServiceRecord[]): this {
    for (const service of services) {
      this.#services.set(service.name, service);
      this.#plan(service.name, service);
    }
    return this;
  }

  remove(name: ServiceName): this {
    this.#services.delete(name);
    this.#plan(name, undefined);
    return this;
  }

  sync(): this {
    this.#desired.claims.settle();
    return this;
  }

  /** Lists the named Services in this order, after all others. */
  restart(
    order: readonly ServiceName[] = [],
    held: Holders = this.#desired.claims.contestedHolders(),
  ): this {
    this.#desired = new DesiredState(held);
    const last = [...this.#services.keys()].filter((name) => order.includes(name));
    const first = [...this.#services.keys()].filter((name) => !last.includes(name));
    for (const name of [...first, ...order]) this.#plan(name, this.#services.get(name));
    return this;
  }

  get holder(): string | undefined {
    return this.#desired.claimantOf(claimedKey)?.split(":")[0];
  }

  /** `loser: reason`, by loser. */
  get losers(): readonly string[] {
    const lost = this.#desired.claims.lost();
    return lost.map(({ loser, reason }) => `${loser.split(":")[0]}: ${reason}`).sort();
  }

  #plan(name: ServiceName, service: ServiceRecord | undefined): void {
    for (const plan of planService(name, service, [], options)) {
      this.#desired.replace(plan.service, plan.family, plan.servicePorts);
    }
  }
}

const a = "default/a";
const b = "default/b";
const c = "default/c";
const ages = [
  ["an older", 1],
  ["a younger", 10],
] as const;

/** Returns a node that served the Service `held` before an older Service requested the same external IP. */
function servedBefore(held: ServiceRecord): Node {
  return new Node()
    .put(held)
    .sync()
    .put(claimant(a, "external IP", 1))
    .sync();
}

describe("an address, while the program runs:", () => {
  for (const [winner, loser] of unequalWays) {
    for (const [age, createdAtSeconds] of ages) {
      const better = claimant(b, winner, 5);
      const worse = claimant(a, loser, createdAtSeconds);

      it(`${age} Service that is edited to claim a ${winner} as ${loser} does not get it`, () => {
        const node = new Node().put(better, claimant(a, undefined, createdAtSeconds)).sync();
        node.put(worse).sync();
        assert.deepEqual([node.holder, node.losers], [b, [`${a}: kind-of-address`]]);
        assert.equal(node.restart().holder, b);
      });

      it(`a ${winner} takes an address from ${age} Service that owns it as ${loser}, and later returns it`, () => {
        const node = new Node().put(worse).sync().put(better).sync();
        assert.deepEqual([node.holder, node.losers], [b, [`${a}: kind-of-address`]]);
        assert.equal(node.restart([b, a]).holder, b);
        assert.equal(node.remove(b).sync().holder, a);
      });
    }
  }

  for (const way of ways) {
    for (const [age, createdAtSeconds] of ages) {
      const held = claimant(b, way, 5);
      const late = claimant(a, way, createdAtSeconds);
      const reason = age === "an older" ? "held-before" : "older";

      it(`${age} Service that is edited to claim another one's address does not get it, both with the ${way}`, () => {
        const node = new Node().put(held, claimant(a, undefined, createdAtSeconds)).sync();
        node.put(late).sync();
        assert.deepEqual([node.holder, node.losers], [b, [`${a}: ${reason}`]]);
        node.put(late).put(held).sync();
        assert.equal(node.holder, b);
      });

      it(`${age} Service does not get it after restarts either, in any order of lists: ${way}`, () => {
        const node = new Node().put(held).sync().put(late).sync();
        for (const order of [
          [a, b],
          [b, a],
        ] as const) {
          node.restart(order);
          assert.deepEqual([node.holder, node.losers], [b, [`${a}: ${reason}`]]);
          assert.equal(node.sync().restart(order).sync().holder, b);
        }
      });

      it(`${age} Service gets it when the owner stops claiming it, and keeps it when the owner claims it again: ${way}`, () => {
        const node = new Node().put(held).sync().put(late).sync();
        node.put(claimant(b, undefined, 5)).sync();
        assert.deepEqual([node.holder, node.losers], [a, []]);
        node.put(held).sync();
        assert.equal(node.holder, a);
        assert.equal(node.restart([b, a]).holder, a);
      });

      it(`${age} Service gets it when the owner is deleted, and keeps it when the owner is recreated: ${way}`, () => {
        const node = new Node().put(held).sync().put(late).sync();
        assert.equal(node.remove(b).sync().holder, a);
        assert.equal(node.put(claimant(b, way, 20)).sync().holder, a);
        assert.equal(node.restart([b, a]).holder, a);
      });
    }
  }

  it("an owner that is deleted and recreated between two syncs loses it", () => {
    const held = claimant(b, "external IP", 5);
    const node = servedBefore(held);
    node
      .remove(b)
      .put(claimant(b, "external IP", 20))
      .sync();
    assert.equal(node.holder, a);
  });

  it("an owner keeps it when its port names or policies change", () => {
    const held = claimant(b, "external IP", 5);
    const node = servedBefore(held);
    const [port] = held.ports;
    assert.ok(port !== undefined);
    node.put({ ...held, isExternalPolicyLocal: true, ports: [{ ...port, name: "web" }] }).sync();
    assert.equal(node.holder, b);
  });

  it("of two claims between two syncs, the older Service gets it, in any order", () => {
    const [old, young] = [claimant(a, "external IP", 1), claimant(b, "external IP", 5)];
    for (const services of [
      [old, young],
      [young, old],
    ]) {
      assert.equal(new Node().sync().put(...services).holder, a);
    }
  });

  it("of several losing Services, the oldest one gets it, not the one that claimed it first", () => {
    const held = claimant(a, "external IP", 5);
    const node = new Node()
      .put(held)
      .sync()
      .put(claimant(b, "external IP", 4))
      .sync();
    node.put(claimant(c, "external IP", 3)).sync();
    assert.deepEqual(node.losers, [`${b}: held-before`, `${c}: held-before`]);
    assert.equal(node.remove(a).sync().holder, c);
  });

  it("an owner that stops claiming it and claims it again before a sync keeps it", () => {
    const held = claimant(b, "external IP", 5);
    const node = servedBefore(held);
    node
      .put(claimant(b, undefined, 5))
      .put(held)
      .sync();
    assert.equal(node.holder, b);
  });

  it("in manifests, the owner has precedence over the order of files", () => {
    const second = { ...claimant(b, "external IP", 0), manifestOrder: "2.yaml\u00000" };
    const first = { ...claimant(a, "external IP", 0), manifestOrder: "1.yaml\u00000" };
    const node = new Node().put(second).sync().put(first).sync();
    assert.deepEqual([node.holder, node.losers], [b, [`${a}: held-before`]]);
    assert.equal(node.restart([a, b]).holder, b);
    assert.equal(node.restart([b, a], new Map()).holder, a, "nobody knows");
  });
});

describe("after a start without a record", () => {
  const old = claimant(a, "load-balancer IP", 1);
  const young = {
    ...claimant(b, "load-balancer IP", 5),
    sourceRanges: [cidr("198.51.100.0/24")],
  };
  const holder = new Map([[claimedKey, { service: toServiceName(b), createdAtSeconds: 5 }]]);

  it("age decides, and the address is undecided until a sync", () => {
    const node = new Node().put(young, old);
    assert.equal(node.holder, a);
    assert.deepEqual(
      node.desired.claims.undecided().map(({ key }) => key),
      [claimedKey],
    );
  });

  it("the Service that is found to be served there gets it, with everything that depends on it", () => {
    const node = new Node().put(young, old);
    node.desired.takeDirty();
    node.desired.holdClaims(holder);
    const fresh = new Node().restart([], holder).put(old, young);
    assert.equal(node.holder, b);
    assert.deepEqual(node.desired.claims.undecided(), []);
    assert.deepEqual(ipvsText(node.desired), ipvsText(fresh.desired));
    assert.deepEqual(entriesText(node.desired), entriesText(fresh.desired));
    assert.deepEqual(node.desired.deniedToNode("IPv4"), fresh.desired.deniedToNode("IPv4"));
    assert.equal(fresh.desired.deniedToNode("IPv4").length, 1);
    assert.ok(node.desired.takeDirty().setEntries.size > 0);
  });

  it("the owner of an address is already decided if one claim is better or the record names the owner", () => {
    const better = new Node().put(old, claimant(c, "cluster IP", 9));
    assert.deepEqual(better.desired.claims.undecided(), []);
    const worse = claimant(c, "external IP", 1);
    for (const services of [
      [old, worse, young],
      [worse, young, old],
      [young, old, worse],
    ]) {
      assert.equal(new Node().put(...services).desired.claims.undecided().length, 1);
    }
    const recorded = new Node().restart([], holder).put(old, young);
    assert.deepEqual(recorded.desired.claims.undecided(), []);
    assert.equal(recorded.holder, b);
  });

  it("a record of a Service that no longer claims it is ignored, and age decides", () => {
    const gone = new Map([[claimedKey, { service: toServiceName(c), createdAtSeconds: 3 }]]);
    const node = new Node().restart([], gone).put(young, old);
    assert.equal(node.holder, a);
    assert.equal(node.desired.claims.undecided().length, 1);
    assert.equal(node.sync().desired.claims.contestedHolders().get(claimedKey)?.service, a);
  });
});

/** An event that affects one of four Services or all of them. */
type Event =
  | {
      readonly kind: "put";
      readonly name: ServiceName;
      readonly way: Way | undefined;
      readonly age: number;
    }
  | { readonly kind: "remove"; readonly name: ServiceName }
  | { readonly kind: "sync" | "restart" };

const names = [a, b, c, "default/d"] as const;
const events: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("put" as const),
      name: fc.constantFrom(...names),
      way: fc.constantFrom(...ways, undefined),
      age: fc.constantFrom(1, 2, 3),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("remove" as const), name: fc.constantFrom(...names) }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: "sync" } as const) },
  { weight: 1, arbitrary: fc.constant({ kind: "restart" } as const) },
);

const rankOf: Readonly<Record<Way, number>> = {
  "cluster IP": 0,
  "node port": 0,
  "load-balancer IP": 1,
  "external IP": 2,
};

interface Claimed {
  readonly name: ServiceName;
  readonly way: Way;
  readonly age: number;
}

/** An independent implementation of the rule: the owner at the last sync is treated as the oldest. */
function winnerOf(claims: readonly Claimed[], had: Claimed | undefined): Claimed | undefined {
  const isHolder = (one: Claimed): boolean => one.name === had?.name && one.age === had.age;
  const sorted = claims
    .map((claim) => ({ claim, age: isHolder(claim) ? 0 : claim.age }))
    .sort(
      (one, other) =>
        rankOf[one.claim.way] - rankOf[other.claim.way] ||
        one.age - other.age ||
        (one.claim.name < other.claim.name ? -1 : 1),
    );
  return sorted[0]?.claim;
}

describe("after any events", () => {
  it("the owner at the last sync keeps it, unless it stopped claiming it or a better claim arrived", () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 50 }), (steps) => {
        const node = new Node().sync();
        const claims = new Map<ServiceName, Claimed>();
        let had: Claimed | undefined;
        for (const step of steps) {
          if (step.kind === "put") {
            const { name, way, age } = step;
            node.put(claimant(name, way, age));
            if (way === undefined) claims.delete(name);
            else claims.set(name, { name, way, age });
          } else if (step.kind === "remove") {
            node.remove(step.name);
            claims.delete(step.name);
          } else {
            had = winnerOf([...claims.values()], had);
            node.sync();
            // Addresses with a single claim are not recorded, and a restart alone does not create new claims.
            if (step.kind === "restart") node.restart().sync();
          }
          assert.equal(node.holder, winnerOf([...claims.values()], had)?.name);
        }
      }),
      { numRuns: 500 },
    );
  });
});
