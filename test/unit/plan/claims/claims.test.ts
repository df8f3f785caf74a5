/**
 * Tests how the owner of an address and port is chosen if several Services claim them and nothing is served there yet.
 */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { DesiredState } from "../../../../src/plan/desired-state.ts";
import {
  claimant,
  claimedAddress,
  claimedKey,
  unequalWays,
  ways,
} from "../../../support/claims.ts";
import { planService } from "../../../support/plan-at-once.ts";
import { ip, planOptions } from "../../../support/records.ts";

const options = planOptions();

/** The owner of the virtual server after Services arrived in this order, and the reason. */
function outcome(...services: readonly ServiceRecord[]): string {
  const desired = new DesiredState();
  for (const service of services) {
    for (const plan of planService(service.name, service, [], options)) {
      desired.replace(plan.service, plan.family, plan.servicePorts);
    }
  }
  const winner = desired.claimantOf(claimedKey) ?? "nobody";
  const losers = desired.claims
    .lost()
    .map(({ loser, reason }) => `${loser.split(":")[0]}, ${reason}`);
  return `${winner.split(":")[0]} before ${losers.join()}`;
}

function comesTo(expected: string, one: ServiceRecord, other: ServiceRecord): void {
  assert.equal(outcome(one, other), expected);
  assert.equal(outcome(other, one), expected);
}

describe("if two Services claim the same address and port,", () => {
  for (const [winner, loser] of unequalWays) {
    for (const [age, createdAtSeconds] of [
      ["an older", 1],
      ["a younger", 10],
    ] as const) {
      it(`a ${winner} owns it against ${age} Service's ${loser}`, () =>
        comesTo(
          "default/b before default/a, kind-of-address",
          claimant("default/b", winner, 5),
          claimant("default/a", loser, createdAtSeconds),
        ));
    }
  }

  for (const way of ways) {
    it(`the older owns it against the younger, both with the ${way}`, () =>
      comesTo(
        "default/b before default/a, older",
        claimant("default/b", way, 1),
        claimant("default/a", way, 9),
      ));
  }

  it("the one whose name sorts first owns it if both have the same age", () =>
    comesTo(
      "default/a before default/b, earlier-name",
      claimant("default/a", "external IP", 1),
      claimant("default/b", "external IP", 1),
    ));

  it("a Service that repeats its cluster IP as an external IP owns it, not other claimants", () => {
    const both = { externalIps: [ip(claimedAddress)] };
    comesTo(
      "default/b before default/a, kind-of-address",
      claimant("default/a", "external IP", 1),
      { ...claimant("default/b", "cluster IP", 9), ...both },
    );
  });

  it("the first in the order of manifests owns it, regardless of the names", () =>
    comesTo(
      "default/b before default/a, earlier-manifest",
      { ...claimant("default/b", "external IP", 0), manifestOrder: "1.yaml\u00000" },
      { ...claimant("default/a", "external IP", 0), manifestOrder: "2.yaml\u00000" },
    ));
});
