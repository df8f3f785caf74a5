import { sleep } from "../base/clock.ts";
import type { ProcessContext } from "./command.ts";

type Watched = Pick<ProcessContext, "clock" | "columns" | "writeOut" | "writeErr">;

const slowAfterMs = 2_000;

/** Runs a command. If it writes nothing to the terminal within two seconds, prints that it is still working. */
export async function withSlowNotice<Context extends Watched, Result>(
  caller: string,
  process: Context,
  run: (process: Context) => Promise<Result>,
): Promise<Result> {
  if (process.columns?.() === undefined) return await run(process);
  const begun = new AbortController();
  void sleep(process.clock, slowAfterMs, begun.signal).then(() => {
    if (!begun.signal.aborted) process.writeErr(`${caller}: still working after 2 s\n`);
  });
  const beginning =
    (write: (text: string) => void) =>
    (text: string): void => {
      begun.abort();
      write(text);
    };
  const watched = {
    ...process,
    writeOut: beginning(process.writeOut),
    writeErr: beginning(process.writeErr),
  };
  try {
    return await run(watched);
  } finally {
    begun.abort();
  }
}
