import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../../src/api/api-error.ts";
import { expectNewer } from "../../../../src/api/cluster/resource-version.ts";
import { watchedResources } from "../../../../src/api/cluster/watched-resources.ts";

const { services } = watchedResources("n");

describe("a resourceVersion in a watch", () => {
  for (const [version, position] of [
    ["11", "10"],
    ["10", "10"],
    ["100", "99"],
    ["18446744073709551615", "9223372036854775808"],
    // Texts that are not numbers cannot be compared.
    ["", "10"],
    ["9", ""],
    ["9x", "10"],
    ["-1", "10"],
    ["007", "10"],
    [`1${"0".repeat(30)}`, "10"],
  ] as const) {
    it(`of '${version}' may follow '${position}'`, () => expectNewer(services, version, position));
  }

  for (const [version, position] of [
    ["9", "10"],
    ["99", "100"],
    ["0", "1"],
    ["9007199254740992", "9007199254740993"],
  ] as const) {
    it(`of ${version} after ${position} indicates an older history`, () => {
      assert.throws(
        () => expectNewer(services, version, position),
        (error) =>
          error instanceof ApiError &&
          error.reason === "older-history" &&
          error.message.includes(`from ${position} to ${version}`),
      );
    });
  }
});
