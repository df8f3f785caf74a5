/** Tests the requests for legacy iptables tables and the kernel's answers. The lab tests the tables' contents. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readLegacyTable } from "../../native-shim/legacy-table.ts";
import { countOpenFiles, errnos } from "./messages.ts";

type Loose = (...args: unknown[]) => unknown;

describe("readLegacyTable", () => {
  const wrong: readonly (readonly [string, readonly unknown[]])[] = [
    ["no arguments", []],
    ["a family by name", ["IPv4", "nat", 1]],
    ["a number as a name", [4, 7, 1]],
    ["no limit", [4, "nat"]],
    ["a negative limit", [4, "nat", -1]],
    ["a limit above 256 MB", [4, "nat", 2 ** 28 + 1]],
  ];
  for (const [name, args] of wrong) {
    it(`rejects ${name}`, () =>
      assert.throws(() => (readLegacyTable as Loose)(...args), TypeError));
  }

  it("names the failed call, and leaves nothing open", () => {
    const before = countOpenFiles();
    for (const family of [4, 6] as const) {
      const name = "a-name-that-is-longer-than-any-table-has";
      assert.throws(() => readLegacyTable(family, name, 1), {
        errno: errnos.ENAMETOOLONG,
        operation: "name",
      });
      assert.throws(
        () => readLegacyTable(family, "absent", 1),
        (error: { errno?: number; operation?: string }) =>
          error.operation === "getsockopt IPT_SO_GET_INFO" && (error.errno ?? 0) > 0,
      );
    }
    assert.equal(countOpenFiles(), before);
  });
});
