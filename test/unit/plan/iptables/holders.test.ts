/**
 * Tests iptables mode if several Services claim an address and port: only one of the Services may have rules for them.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { toServiceName } from "../../../../src/base/service-name.ts";
import type { Holders } from "../../../../src/plan/claims/claim.ts";
import { sharedChains } from "../../../../src/plan/iptables/shared-chains.ts";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import type { Rule } from "../../../../src/state/rule.ts";
import {
  claimant,
  claimedAddress,
  claimedKey,
  claimedPort,
  unequalWays,
  ways,
} from "../../../support/claims.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import { cidr, endpointRecord, sliceRecord } from "../../../support/records.ts";

const options = iptablesOptions();
const sharedNames = new Set<string>(sharedChains.map(({ name }) => name));
const a = "default/a";
const b = "default/b";

/**
 * A node for planning, with methods to add and remove Services, to end a batch of changes with a sync, and to restart.
 */
class Node {
  #plan = newPlan(new Map());
  readonly #services = new Map<string, ServiceRecord>();

  get plan(): TablesPlan {
    return this.#plan;
  }

  put(...services: readonly ServiceRecord[]): this {
    for (const service of services) {
      this.#plan.tracker.noteService(this.#services.get(service.name), service);
      this.#services.set(service.name, service);
      for (const _ of this.#plan.update(options));
    }
    return this;
  }

  remove(name: string): this {
    this.#plan.tracker.noteService(this.#services.get(name), undefined);
    this.#services.delete(name);
    for (const _ of this.#plan.update(options));
    return this;
  }

  sync(): this {
    this.#plan.desired.claims.settle();
    return this;
  }

  restart(held: Holders = this.#plan.desired.claims.contestedHolders()): this {
    this.#plan = newPlan(held);
    const services = [...this.#services.values()].toReversed();
    this.#services.clear();
    return this.put(...services);
  }

  /** Services that have rules for the address and port in shared chains. */
  get served(): readonly string[] {
    const about = this.#plan
      .ruleSet("IPv4")
      .chains.filter(({ name }) => sharedNames.has(name))
      .flatMap(({ rules }) => rules)
      .filter(isAboutClaim);
    return [...new Set(about.map(ownerOf))].sort();
  }

  get losers(): readonly string[] {
    return this.#plan.desired.claims
      .lost()
      .map(({ loser, reason }) => `${loser.split(":")[0]}: ${reason}`);
  }
}

/** Plans with an endpoint for each of the two Services. */
function newPlan(held: Holders): TablesPlan {
  const plan = new TablesPlan({ startedAtMs: 0, onPlan: () => {}, held });
  for (const [service, pod] of [
    [a, "10.244.2.1"],
    [b, "10.244.2.2"],
  ] as const) {
    const slice = sliceRecord([endpointRecord(pod)], { name: `${service}-1`, service });
    plan.tracker.noteSlice(undefined, slice);
  }
  return plan;
}

/** Whether the rule is for the address, or for the node port, which represents all addresses. */
function isAboutClaim({ matches, target }: Rule): boolean {
  const isAt = (value: string, port: number): boolean =>
    matches.some((match) => match.kind === "destination" && match.cidr === value) &&
    matches.some((match) => match.kind === "port" && match.destination === port);
  const isNodePort =
    !matches.some(({ kind }) => kind === "destination") &&
    matches.some((match) => match.kind === "port" && match.destination === claimedPort);
  const leads = target.kind === "jump" && target.chain !== "KUBE-MARK-MASQ";
  return isAt(`${claimedAddress}/32`, claimedPort) || (isNodePort && leads);
}

function ownerOf({ matches }: Rule): string {
  const comment = matches.find(({ kind }) => kind === "comment");
  const text = comment?.kind === "comment" ? comment.text : "";
  return text.split(":")[0] ?? "";
}

describe("iptables mode", () => {
  for (const [winner, loser] of unequalWays) {
    for (const createdAtSeconds of [1, 10]) {
      it(`contains rules of one Service per address: ${winner} against ${loser} created at ${createdAtSeconds}`, () => {
        const better = claimant(b, winner, 5);
        const worse = claimant(a, loser, createdAtSeconds);
        for (const order of [
          [better, worse],
          [worse, better],
        ]) {
          const node = new Node().put(...order).sync();
          assert.deepEqual([node.served, node.losers], [[b], [`${a}: kind-of-address`]]);
        }
        const node = new Node().put(worse).sync();
        assert.deepEqual(node.served, [a]);
        assert.deepEqual(node.put(better).sync().served, [b]);
        assert.deepEqual(node.remove(b).sync().served, [a]);
      });
    }
  }

  for (const way of ways) {
    for (const createdAtSeconds of [1, 10]) {
      it(`leaves an address to its owner, also after restarts: ${way}, other Service created at ${createdAtSeconds}`, () => {
        const held = claimant(b, way, 5);
        const late = claimant(a, way, createdAtSeconds);
        const reason = createdAtSeconds === 1 ? "held-before" : "older";
        const node = new Node().put(held).sync().put(late).sync();
        assert.deepEqual([node.served, node.losers], [[b], [`${a}: ${reason}`]]);
        assert.deepEqual(node.restart().sync().served, [b]);
        assert.deepEqual(node.put(claimant(b, undefined, 5)).sync().served, [a]);
        assert.deepEqual(node.put(held).sync().restart().sync().served, [a]);
        assert.deepEqual(node.restart(new Map()).served, [createdAtSeconds === 1 ? a : b]);
      });
    }
  }

  it("has no rule that restricts or rejects the address for the losing Service", () => {
    const ranges = [cidr("198.51.100.0/24")];
    const held = claimant(b, "load-balancer IP", 5);
    const closed = { ...claimant(a, "load-balancer IP", 1), sourceRanges: ranges };
    const node = new Node().put(held).sync().put(closed).sync();
    assert.deepEqual(node.served, [b]);
    node.plan.tracker.noteSlice(undefined, sliceRecord([], { name: `${a}-1`, service: a }));
    for (const _ of node.plan.update(options));
    assert.deepEqual(node.served, [b]);
  });

  it("writes the chains of both Services when another one is found to be served", () => {
    const node = new Node().put(claimant(a, "external IP", 1), claimant(b, "external IP", 5));
    const before = new Set(node.plan.ruleSet("IPv4").chains);
    node.plan.desired.holdClaims(
      new Map([[claimedKey, { service: toServiceName(b), createdAtSeconds: 5 }]]),
    );
    const touched = node.plan.ruleSet("IPv4").chains.filter((chain) => !before.has(chain));
    assert.deepEqual(
      touched.map(({ table, name }) => `${table} ${name}`),
      ["nat KUBE-SERVICES"],
    );
    assert.deepEqual(node.served, [b]);
  });
});
