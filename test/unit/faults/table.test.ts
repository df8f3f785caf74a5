import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RowResult } from "../../faults/row.ts";
import { resultData, resultTable } from "../../faults/table.ts";

const row: RowResult = {
  name: "Disk full",
  tried: 3,
  long: 60,
  broken: 0,
  short: 212,
  failed: 0,
  repairMs: [300, 1_100, 240],
  notes: [],
};

describe("the table of faults", () => {
  it("shows the median and worst repair, and the reasons of failures below", () => {
    const full = { ...row, name: "Conntrack table full", failed: 4, mayFail: "dropped" };
    assert.deepEqual(resultTable([row, full]), [
      "| Fault                | Tried | Open connections | Broken | New connections | Failed | Repair, median | Repair, worst |",
      "| -------------------- | ----: | ---------------: | -----: | --------------: | -----: | -------------: | ------------: |",
      "| Disk full            |     3 |               60 |      0 |             212 |      0 |         0.30 s |        1.10 s |",
      "| Conntrack table full |     3 |               60 |      0 |             212 |    4 * |         0.30 s |        1.10 s |",
      "",
      "* dropped",
    ]);
  });

  it("is written as tab-separated values", () => {
    assert.equal(
      resultData([row]),
      "Fault\tTried\tOpen connections\tBroken\tNew connections\tFailed\tRepair, median\tRepair, worst\n" +
        "Disk full\t3\t60\t0\t212\t0\t0.30 s\t1.10 s\n",
    );
  });

  it("reports an incomplete turn", () => {
    const lines = resultTable([{ ...row, failure: "Error: not repaired" }]);
    assert.equal(lines.at(-1), "Disk full: Error: not repaired");
  });
});
