import { type Clock, sleep } from "../base/clock.ts";

interface NoticeWorld {
  readonly clock: Clock;
  readonly writeOut: (text: string) => void;
  readonly writeErr: (text: string) => void;
  /** Columns of the terminal that stdout is; undefined: it is none. */
  readonly columns?: () => number | undefined;
}

const slowAfterMs = 2_000;

/** Runs a command; in a terminal that is still empty after two seconds it says that something is waited for. */
export async function withSlowNotice<World extends NoticeWorld, Result>(
  caller: string,
  world: World,
  run: (world: World) => Promise<Result>,
): Promise<Result> {
  if (world.columns?.() === undefined) return await run(world);
  const begun = new AbortController();
  void sleep(world.clock, slowAfterMs, begun.signal).then(() => {
    if (!begun.signal.aborted) world.writeErr(`${caller}: no answer after 2 s, waiting\n`);
  });
  const beginning =
    (write: (text: string) => void) =>
    (text: string): void => {
      begun.abort();
      write(text);
    };
  const watched = {
    ...world,
    writeOut: beginning(world.writeOut),
    writeErr: beginning(world.writeErr),
  };
  try {
    return await run(watched);
  } finally {
    begun.abort();
  }
}
