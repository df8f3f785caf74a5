/**
 * Tests userspace mode if several Services claim an address and port: rules must redirect its packets to only one of
 * the Services.
 */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import type { ServiceName } from "../../../../src/base/service-name.ts";
import { PortalClaims } from "../../../../src/daemon/userspace/portal-claims.ts";
import type { Holders } from "../../../../src/plan/claims/claim.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import type { ServiceListener } from "../../../../src/userspace/service-listeners.ts";
import {
  claimant,
  claimedAddress,
  claimedPort,
  unequalWays,
  ways,
} from "../../../support/claims.ts";
import { serviceListeners } from "../../../support/plan-at-once.ts";
import { planOptions } from "../../../support/records.ts";

const a = "default/a";
const b = "default/b";

class Node {
  #claims = new PortalClaims(new Map());
  readonly #listeners = new Map<ServiceName, readonly ServiceListener[]>();

  put(...services: readonly ServiceRecord[]): this {
    for (const service of services) {
      this.#replace(service.name, serviceListeners(service, [], planOptions()));
    }
    return this;
  }

  remove(name: ServiceName): this {
    this.#replace(name, []);
    return this;
  }

  sync(): this {
    this.#claims.settle();
    return this;
  }

  restart(held: Holders = this.#claims.contestedHolders()): this {
    this.#claims = new PortalClaims(held);
    for (const [name, listeners] of [...this.#listeners].toReversed()) {
      this.#replace(name, listeners);
    }
    return this;
  }

  /** Services to which rules redirect packets to the address and port. */
  get served(): readonly string[] {
    const open = [...this.#listeners.values()].flat().map((wanted, index) => ({
      wanted: this.#claims.won(wanted),
      localPorts: { port: 40_000 + index, portOnLoopback: 40_000 + index },
    }));
    const rules = portalRules("IPv4", open)
      .chains.filter(({ table }) => table === "nat")
      .flatMap((chain) => chain.rules);
    const leading = rules.filter(({ matches }) => {
      const cidr = matches.find((match) => match.kind === "destination")?.cidr;
      const isThere = cidr === undefined || cidr === `${claimedAddress}/32`;
      return (
        isThere &&
        matches.some((match) => match.kind === "port" && match.destination === claimedPort)
      );
    });
    const names = leading.map(({ matches }) => {
      const comment = matches.find((match) => match.kind === "comment");
      return comment?.text.split(":")[0] ?? "";
    });
    return [...new Set(names)].sort();
  }

  get losers(): readonly string[] {
    return this.#claims.lost().map(({ loser, reason }) => `${loser.split(":")[0]}: ${reason}`);
  }

  #replace(name: ServiceName, listeners: readonly ServiceListener[]): void {
    this.#listeners.set(name, listeners);
    this.#claims.replaceService(name, listeners);
  }
}

describe("userspace mode", () => {
  for (const [winner, loser] of unequalWays) {
    for (const createdAtSeconds of [1, 10]) {
      it(`leads to the ${winner}, not to the ${loser} of a Service created at ${createdAtSeconds}`, () => {
        const better = claimant(b, winner, 5);
        const worse = claimant(a, loser, createdAtSeconds);
        assert.deepEqual(new Node().put(better, worse).served, [b]);
        const node = new Node().put(worse).sync();
        assert.deepEqual(node.served, [a]);
        node.put(better).sync();
        assert.deepEqual([node.served, node.losers], [[b], [`${a}: kind-of-address`]]);
        assert.deepEqual(node.remove(b).sync().served, [a]);
      });
    }
  }

  for (const way of ways) {
    for (const createdAtSeconds of [1, 10]) {
      it(`leaves an address to its owner, also after restarts: ${way}, other Service created at ${createdAtSeconds}`, () => {
        const held = claimant(b, way, 5);
        const node = new Node().put(held).sync();
        node.put(claimant(a, way, createdAtSeconds)).sync();
        assert.deepEqual(node.served, [b]);
        assert.deepEqual(node.restart().sync().served, [b]);
        assert.deepEqual(node.put(claimant(b, undefined, 5)).sync().served, [a]);
        assert.deepEqual(node.put(held).sync().served, [a]);
        assert.deepEqual(node.restart(new Map()).served, [createdAtSeconds === 1 ? a : b]);
      });
    }
  }
});
