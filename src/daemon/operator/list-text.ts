import { apiVersion } from "../../answer/answers.ts";
import type { ListKind } from "../../answer/rows.ts";
import type { Clock } from "../../base/clock.ts";
import { TimeSlice } from "../../base/time-slice.ts";

const chunkLength = 65_536;

/**
 * Formats a list as JSON with one line per row. Generates each chunk on demand, so the whole list is never in memory,
 * and yields to the event loop every 5 ms.
 */
export async function* listText(
  listKind: ListKind,
  rows: AsyncIterable<object>,
  clock: Clock,
): AsyncGenerator<string> {
  const slice = new TimeSlice(clock, "large");
  let chunk = `${JSON.stringify({ apiVersion, kind: listKind }).slice(0, -1)},"items":[`;
  let separator = "\n";
  for await (const row of rows) {
    chunk += separator + JSON.stringify(row);
    separator = ",\n";
    if (chunk.length >= chunkLength) {
      yield chunk;
      chunk = "";
    }
    const pause = slice.pause();
    if (pause !== undefined) await pause;
  }
  yield `${chunk}\n]}\n`;
}
