/** Runs one row: injects the fault, and measures its effect on clients and the duration of the repair. */
import assert from "node:assert/strict";
import type { FaultyNode } from "./faulty-node.ts";
import type { Form, Row, RowResult, Turn } from "./row.ts";

interface Seen {
  readonly long: number;
  readonly broken: number;
  readonly short: number;
  readonly failed: number;
  readonly repairMs: number;
  readonly note: string;
}

/** Runs a row as often as the form requires, or until a try fails. */
export async function runRow(row: Row, node: FaultyNode, form: Form): Promise<RowResult> {
  const seen: Seen[] = [];
  let failure: string | undefined;
  try {
    await row.before?.(node);
    for (let index = 0; index < row[form]; index++)
      seen.push(await doOnce(row, node, { form, index }));
    await row.after?.(node);
  } catch (error) {
    failure = String(error);
  }
  const sum = (of: (one: Seen) => number): number =>
    seen.reduce((total, one) => total + of(one), 0);
  return {
    name: row.name,
    tried: seen.length,
    long: sum(({ long }) => long),
    broken: sum(({ broken }) => broken),
    short: sum(({ short }) => short),
    failed: sum(({ failed }) => failed),
    repairMs: seen.map(({ repairMs }) => repairMs),
    notes: seen.map(({ note }) => note),
    ...(row.mayFail === undefined ? {} : { mayFail: row.mayFail }),
    ...(failure === undefined ? {} : { failure }),
  };
}

async function doOnce(row: Row, node: FaultyNode, turn: Turn): Promise<Seen> {
  if (row.startsAnew) await node.restartProgram();
  await node.trafficFlows();
  const { long } = await node.traffic.take();
  const note = await row.inject(node, turn);
  const repairMs = await node.repaired();
  const { broken, short, failed, reasons } = await node.traffic.take();
  const why = failed + broken === 0 ? "" : `; ${JSON.stringify(reasons)}`;
  return { long, broken, short, failed, repairMs, note: note + why };
}

/** Adds two results of the same row. */
export function addResults(one: RowResult, other: RowResult): RowResult {
  return {
    ...one,
    ...other,
    ...(one.failure === undefined ? {} : { failure: one.failure }),
    tried: one.tried + other.tried,
    long: one.long + other.long,
    broken: one.broken + other.broken,
    short: one.short + other.short,
    failed: one.failed + other.failed,
    repairMs: [...one.repairMs, ...other.repairMs],
    notes: [...one.notes, ...other.notes],
  };
}

/** Throws if a try failed, an open connection broke, or a new connection failed unexpectedly. */
export function assertHolds(result: RowResult): void {
  const { name, broken, failed, mayFail, notes, failure } = result;
  const seen = `${name}: ${notes.join("; ")}`;
  assert.equal(failure, undefined, `After ${result.tried} turns: ${seen}`);
  assert.equal(broken, 0, `Connections broke: ${seen}`);
  if (mayFail === undefined) assert.equal(failed, 0, `New connections failed: ${seen}`);
}
