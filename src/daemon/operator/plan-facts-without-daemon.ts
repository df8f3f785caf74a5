import type { Config } from "../../config/config.ts";
import { observeOnce } from "../observe-once.ts";
import type { CommandParts } from "../run.ts";
import type { PlanFacts, PlanQuery } from "./answers.ts";
import { planFacts } from "./plan-facts.ts";

/** What a daemon would answer to `/v1/plan`, from the objects as a start would find them. */
export async function planFactsWithoutDaemon(
  config: Config,
  parts: Pick<CommandParts, "clock" | "log">,
  query: PlanQuery,
): Promise<PlanFacts> {
  return await observeOnce(config, parts, ({ view }) => planFacts(view, query));
}
