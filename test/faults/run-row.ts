/** One row: the fault, what the clients saw of it, and how long the repair took. */
import assert from "node:assert/strict";
import type { Form, Row, RowResult } from "./row.ts";
import type { World } from "./world.ts";

/** Does a row as often as its form says. Throws where the row does not hold. */
export async function runRow(row: Row, world: World, form: Form): Promise<RowResult> {
  await row.before?.(world);
  const totals = { long: 0, broken: 0, short: 0, failed: 0 };
  const [repairMs, notes]: [number[], string[]] = [[], []];
  for (let index = 0; index < row[form]; index++) {
    await world.trafficFlows();
    const { long } = await world.traffic.take();
    const note = await row.inject(world, { form, index });
    repairMs.push(await world.repaired());
    const { broken, short, failed, reasons } = await world.traffic.take();
    notes.push(failed + broken === 0 ? note : `${note}; ${JSON.stringify(reasons)}`);
    totals.long += long;
    totals.broken += broken;
    totals.short += short;
    totals.failed += failed;
  }
  await row.after?.(world);
  const result: RowResult = {
    name: row.name,
    tried: row[form],
    ...totals,
    repairMs,
    notes,
    ...(row.mayFail === undefined ? {} : { mayFail: row.mayFail }),
  };
  assertHolds(result);
  return result;
}

function assertHolds({ name, broken, failed, mayFail, notes }: RowResult): void {
  const seen = `${name}: ${notes.join("; ")}`;
  assert.equal(broken, 0, `Connections broke: ${seen}`);
  if (mayFail === undefined) assert.equal(failed, 0, `New connections failed: ${seen}`);
}
