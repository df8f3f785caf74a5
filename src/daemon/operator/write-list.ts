import type { Clock } from "../../base/clock.ts";
import { TimeSlice } from "../../base/time-slice.ts";
import { apiVersion, type ListKind } from "./answers.ts";

/** What a list is written to; resolves once more may be written, rejects where nobody reads any more. */
export type WriteText = (text: string) => Promise<void>;

const chunkLength = 65_536;

/**
 * Writes a list as JSON, a line for each row, while its rows are made: nothing is collected, and the event loop gets a
 * turn every 5 ms.
 */
export async function writeList(
  listKind: ListKind,
  rows: AsyncIterable<object>,
  { clock, write }: { readonly clock: Clock; readonly write: WriteText },
): Promise<void> {
  const slice = new TimeSlice(clock, "large");
  let chunk = `${JSON.stringify({ apiVersion, kind: listKind }).slice(0, -1)},"items":[`;
  let separator = "\n";
  for await (const row of rows) {
    chunk += separator + JSON.stringify(row);
    separator = ",\n";
    if (chunk.length >= chunkLength) {
      await write(chunk);
      chunk = "";
    }
    const pause = slice.pause();
    if (pause !== undefined) await pause;
  }
  await write(`${chunk}\n]}\n`);
}
