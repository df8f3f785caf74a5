import { text as textOf } from "node:stream/consumers";
import type { Config } from "../../config/config.ts";
import { type Drain, drainKey } from "../../reconcile/drain/drains.ts";
import { type Observation, observeOnce } from "../observe-once.ts";
import { drainStartTimesIn } from "../process/drain-start-times.ts";
import { readState, systemBootClock } from "../process/state-file.ts";
import type { RunContext } from "../run.ts";
import { listText } from "./list-text.ts";
import { answerFrom, withoutDrains } from "./routes.ts";

/**
 * Returns what a daemon that starts now would answer to a request for a list or a plan, from the objects and the kernel
 * state that it would find. Unplanned real servers with weight 0 are treated as draining. Rejects if there is no
 * answer.
 */
export async function answerWithoutDaemon(
  config: Config,
  context: Pick<RunContext, "clock" | "log">,
  target: string,
): Promise<string> {
  return await observeOnce(config, context, async ({ report, view }) => {
    const isOfDrains = target.startsWith("/v1/drains");
    if (isOfDrains && view.mode !== "ipvs") {
      throw new Error(`Cannot list drains: ${withoutDrains(view.mode)}`);
    }
    const drains = isOfDrains ? foundDrains(report, config, context) : [];
    const answer = await answerFrom(view, target, drains);
    if (answer.kind === "list")
      return await textOf(listText(answer.listKind, answer.rows, context.clock));
    const text = JSON.stringify(answer.object);
    if (answer.status !== 200) throw new Error(`Cannot answer ${target}: ${text}`);
    return text;
  });
}

/** The drains that a daemon would find at startup. A drain without a recorded start time begins now. */
function foundDrains(
  { plan }: Observation["report"],
  { stateFile }: Config,
  { clock, log }: Pick<RunContext, "clock" | "log">,
): readonly Drain[] {
  const clocks = { clock, bootClock: systemBootClock() };
  const recorded = drainStartTimesIn(readState(stateFile, log), clocks);
  const nowMs = clock.monotonicMs();
  return plan.drainStarts
    .filter(({ reason }) => reason === "found-draining")
    .map((start): Drain => {
      const drain = { ...start, sinceMs: nowMs };
      return { ...drain, sinceMs: recorded.recall(drainKey(drain)) ?? nowMs };
    });
}
