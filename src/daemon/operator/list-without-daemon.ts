import type { Config } from "../../config/config.ts";
import { observeOnce } from "../observe-once.ts";
import type { CommandParts } from "../run.ts";
import type { ServicesQuery } from "./answers.ts";
import { onlyIpvs } from "./routes.ts";
import { serviceRows } from "./service-rows.ts";
import { writeList } from "./write-list.ts";

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
    if (view.mode === "iptables") throw new Error(`Cannot list Services: ${onlyIpvs}`);
    const chunks: string[] = [];
    await writeList("ServiceList", serviceRows(view, query), {
      clock: parts.clock,
      write: async (text) => void chunks.push(text),
    });
    return chunks.join("");
  });
}
