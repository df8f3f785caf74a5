import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type RealServer, sameRealServers } from "../../../src/state/real-server.ts";
import { ip } from "../../support/records.ts";

function real(last: number, weight = 1, forwardingMethod = 0): RealServer {
  return { address: ip(`10.244.1.${last}`), port: 8080, weight, forwardingMethod };
}

const [a, b, c] = [real(1), real(2), real(3)];

const cases: readonly {
  name: string;
  left: readonly RealServer[];
  right: readonly RealServer[];
  isSame: boolean;
}[] = [
  { name: "in the same order", left: [a, b, c], right: [real(1), b, c], isSame: true },
  { name: "in the reverse order", left: [a, b, c], right: [c, b, a], isSame: true },
  { name: "in a different order", left: [a, b, c], right: [b, a, c], isSame: true },
  {
    name: "in a different order, with one of them twice",
    left: [a, b, a],
    right: [a, a, b],
    isSame: true,
  },
  {
    name: "with one of them twice in place of another",
    left: [a, b, b],
    right: [a, b, c],
    isSame: false,
  },
  {
    name: "with another one in place of a second copy",
    left: [a, b, c],
    right: [a, b, b],
    isSame: false,
  },
  { name: "different ones twice", left: [a, a, b], right: [b, a, b], isSame: false },
  { name: "one more", left: [a, b], right: [a, b, c], isSame: false },
  { name: "with a different weight", left: [a, b, c], right: [b, a, real(3, 0)], isSame: false },
  { name: "with a different method", left: [a, b, c], right: [b, a, real(3, 1, 2)], isSame: false },
];

describe("two lists of real servers", () => {
  for (const { name, left, right, isSame } of cases) {
    it(`${name}: ${isSame ? "are equal" : "are not equal"}`, () => {
      assert.equal(sameRealServers(left, right), isSame);
      assert.equal(sameRealServers(right, left), isSame);
    });
  }
});
