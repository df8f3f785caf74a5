/** Services without an address or port that they ask for, as the daemon has them. Pure. */
import { type Judgement, listed, ok, unknown, warn } from "../check.ts";
import { judging, type NodeFacts } from "../facts.ts";

export function judgeConflicts({ daemon }: NodeFacts): Judgement {
  if ("skipped" in daemon) return unknown(daemon.skipped);
  return judging(daemon, ({ conflicts, counts }) => {
    if (conflicts.length === 0) return ok("no Service lacks an address or port that it asks for");
    const found = conflicts.map(
      ({ service, message, reason }) => `${service}: ${message} (${reason})`,
    );
    const remedies = new Set(conflicts.map(({ remedy }) => remedy));
    return warn(listed(found, counts.conflicts), listed([...remedies]));
  });
}
