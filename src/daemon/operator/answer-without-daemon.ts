import { text as textOf } from "node:stream/consumers";
import type { Config } from "../../config/config.ts";
import { type Drain, drainKey } from "../../reconcile/drain/drains.ts";
import { type Observation, observeOnce } from "../observe-once.ts";
import { systemBootClock } from "../process/boot-file.ts";
import { DrainStartTimesFile } from "../process/drain-start-times.ts";
import type { CommandParts } from "../run.ts";
import type { PlanFacts, PlanQuery, ServicesQuery } from "./answers.ts";
import { drainRows } from "./drain-rows.ts";
import { listText } from "./list-text.ts";
import { objectRows } from "./object-rows.ts";
import { planFacts } from "./plan-facts.ts";
import { withoutDrains } from "./routes.ts";
import { serviceRows } from "./service-rows.ts";

/**
 * What a daemon would answer to `/v1/services`, from the objects and the kernel as a start would find them. It knows of no
 * drain when it began: what drains has weight 0.
 */
export async function listServicesWithoutDaemon(
  config: Config,
  parts: Pick<CommandParts, "clock" | "log">,
  query: ServicesQuery,
): Promise<string> {
  return await observeOnce(config, parts, async ({ view }) => {
    const rows = view.mode === "ipvs" ? serviceRows(view, query) : objectRows(view, query);
    return await textOf(listText("ServiceList", rows, parts.clock));
  });
}

/** What a daemon would answer to `/v1/drains` once started: what has weight 0 and is not wanted. */
export async function listDrainsWithoutDaemon(
  config: Config,
  parts: Pick<CommandParts, "clock" | "log">,
): Promise<string> {
  return await observeOnce(config, parts, async ({ report, view }) => {
    if (view.mode !== "ipvs") throw new Error(`Cannot list drains: ${withoutDrains(view.mode)}`);
    const drains = foundDrains(report, config, parts);
    return await textOf(listText("DrainList", drainRows(view, drains), parts.clock));
  });
}

/** What a daemon would answer to `/v1/plan`, from the objects as a start would find them. */
export async function planFactsWithoutDaemon(
  config: Config,
  parts: Pick<CommandParts, "clock" | "log">,
  query: PlanQuery,
): Promise<PlanFacts> {
  return await observeOnce(config, parts, ({ view }) => planFacts(view, query));
}

/** Those of which no start is recorded begin now, as they would with a start. */
function foundDrains(
  { plan }: Observation["report"],
  { drainStartTimesPath }: Config,
  parts: Pick<CommandParts, "clock" | "log">,
): readonly Drain[] {
  const recorded = new DrainStartTimesFile(drainStartTimesPath, {
    ...parts,
    bootClock: systemBootClock(),
  });
  const nowMs = parts.clock.monotonicMs();
  return plan.drainStarts
    .filter(({ reason }) => reason === "found-draining")
    .map((start): Drain => {
      const drain = { ...start, sinceMs: nowMs };
      return { ...drain, sinceMs: recorded.recall(drainKey(drain)) ?? nowMs };
    });
}
