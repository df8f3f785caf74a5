/** Runs rows as tests of a lab suite, with one node for all of them. */
import { after, before, describe, it } from "node:test";
import { skippedOnHost } from "../support/machine-wide.ts";
import { isLong } from "../support/seeds.ts";
import { FaultyNode } from "./faulty-node.ts";
import type { Form, Row, RowResult } from "./row.ts";
import { assertHolds, runRow } from "./run-row.ts";
import { resultTable } from "./table.ts";

const serviceCount = 100;
const form: Form = isLong ? "long" : "short";

/** Each row is one test. `more` adds other tests, which can use the node. */
export function describeFaults(
  rows: readonly Row[],
  more?: (node: () => FaultyNode) => void,
): void {
  describe(`faults with ${serviceCount} Services and clients that count failures`, () => {
    const results: RowResult[] = [];
    let node: FaultyNode;

    before(async () => {
      node = await FaultyNode.build(serviceCount);
    });

    after(async () => {
      await node.close();
      console.log(resultTable(results).join("\n"));
    });

    for (const row of rows.filter((row) => row[form] > 0)) {
      const skip = row.machineWide !== undefined && skippedOnHost(row.machineWide);
      it(`${row.name}: ${row.mayFail ?? "no connection breaks or fails"}`, {
        skip,
      }, async (test) => {
        const result = await runRow(row, node, form);
        for (const note of result.notes) test.diagnostic(note);
        results.push(result);
        assertHolds(result);
      });
    }

    more?.(() => node);
  });
}
