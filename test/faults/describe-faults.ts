/** Runs rows as tests of a lab suite, with one world for all of them. */
import { after, before, describe, it } from "node:test";
import { skippedOnHost } from "../support/machine-wide.ts";
import { isLong } from "../support/seeds.ts";
import type { Form, Row, RowResult } from "./row.ts";
import { assertHolds, runRow } from "./run-row.ts";
import { resultTable } from "./table.ts";
import { World } from "./world.ts";

const serviceCount = 100;
const form: Form = isLong ? "long" : "short";

/** Each row is one test. `more` adds other tests, which can use the world. */
export function describeFaults(rows: readonly Row[], more?: (world: () => World) => void): void {
  describe(`faults with ${serviceCount} Services and clients that count failures`, () => {
    const results: RowResult[] = [];
    let world: World;

    before(async () => {
      world = await World.build(serviceCount);
    });

    after(async () => {
      await world.close();
      console.log(resultTable(results).join("\n"));
    });

    for (const row of rows.filter((row) => row[form] > 0)) {
      const skip = row.machineWide !== undefined && skippedOnHost(row.machineWide);
      it(`${row.name}: ${row.mayFail ?? "no connection breaks or fails"}`, {
        skip,
      }, async (test) => {
        const result = await runRow(row, world, form);
        for (const note of result.notes) test.diagnostic(note);
        results.push(result);
        assertHolds(result);
      });
    }

    more?.(() => world);
  });
}
