import { sleep } from "../base/clock.ts";
import type { QuestionWorld } from "./operator/question.ts";

const slowAfterMs = 2_000;

/** Runs a command; in a terminal that is still empty after two seconds it says that something is waited for. */
export async function withSlowNotice<World extends QuestionWorld, Result>(
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
