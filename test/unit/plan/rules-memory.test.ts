import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RulesInput } from "../../../src/plan/rule-parts.ts";
import { planRules } from "../../../src/plan/rules.ts";
import { RulesMemory } from "../../../src/plan/rules-memory.ts";
import { ip } from "../../support/records.ts";

const input: RulesInput = {
  family: "IPv4",
  filledSets: new Set(["clusterIp"]),
  deniedToNode: [{ protocol: "TCP", address: ip("192.0.2.1"), port: 80 }],
  localDetector: undefined,
  masqueradeAll: false,
  masqueradeMark: 0x4000,
};

describe("planned rules", () => {
  it("stay the same object as long as none of their inputs differs, separately for each family", () => {
    const memory = new RulesMemory();
    const first = memory.plan(input);
    const other = memory.plan({ ...input, family: "IPv6", deniedToNode: [] });
    assert.deepEqual(first, planRules(input));
    assert.equal(memory.plan({ ...input, filledSets: new Set(["clusterIp"]) }), first);
    assert.equal(memory.plan({ ...input, family: "IPv6", deniedToNode: [] }), other);
  });

  const differences: readonly Partial<RulesInput>[] = [
    { filledSets: new Set() },
    { filledSets: new Set(["externalIp"]) },
    { deniedToNode: [] },
    { deniedToNode: [{ protocol: "TCP", address: ip("192.0.2.2"), port: 80 }] },
    { localDetector: { kind: "in-interface", name: "veth+" } },
    { masqueradeAll: true },
    { masqueradeMark: 0x8000 },
  ];
  for (const difference of differences) {
    it(`are planned again with another ${Object.keys(difference).join()}`, () => {
      const memory = new RulesMemory();
      const first = memory.plan(input);
      assert.notEqual(memory.plan({ ...input, ...difference }), first);
      assert.deepEqual(memory.plan(input), first);
    });
  }
});
