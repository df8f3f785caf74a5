import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Networks, widestNetworks } from "../../../src/base/networks.ts";
import { cidr, ip } from "../../support/records.ts";

describe("networks", () => {
  const texts = ["10.244.1.0/24", "10.244.2.0/24", "10.9.0.0/16", "fd00:244:1::/64"];
  const networks = new Networks(texts.map(cidr));
  for (const [address, isContained] of [
    ["10.244.1.0", true],
    ["10.244.2.255", true],
    ["10.244.3.1", false],
    ["10.9.255.1", true],
    ["10.10.0.1", false],
    ["fd00:244:1::7", true],
    ["fd00:244:1:1::7", false],
  ] as const) {
    it(`${isContained ? "contain" : "do not contain"} ${address}`, () => {
      assert.equal(networks.contains(ip(address)), isContained);
    });
  }

  it("can be reduced to the widest ones", () => {
    const all = [
      "10.0.0.0/8",
      "10.9.0.0/16",
      "10.0.0.0/9",
      "11.0.0.0/8",
      "fd00::/8",
      "fd00::1/128",
    ];
    assert.deepEqual(
      widestNetworks(all.map(cidr)),
      ["10.0.0.0/8", "11.0.0.0/8", "fd00::/8"].map(cidr),
    );
  });

  it("contain nothing if the list is empty", () => {
    assert.equal(new Networks().contains(ip("10.244.1.1")), false);
  });

  it("have the same text in any order, and a different text if one differs", () => {
    const reversed = new Networks(texts.toReversed().map(cidr));
    assert.equal(reversed.text, networks.text);
    assert.notEqual(new Networks(texts.slice(1).map(cidr)).text, networks.text);
  });
});
