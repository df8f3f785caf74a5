import type { Clock } from "../../base/clock.ts";
import { familyOf, ipFamilies } from "../../base/ip.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { FlowSelection } from "../../state/flow.ts";
import type { ConntrackPass } from "./outcome.ts";
import { type AllowedAnswers, staleFlows } from "./stale-flows.ts";

/** More selections than this, and the flows of the family are listed once, all of them. */
const maxSelections = 64;

export interface ConntrackParts {
  readonly conntrack: Conntrack;
  readonly clock: Clock;
  /** Called for each family that was gone through. */
  readonly onPass: (pass: ConntrackPass) => void;
}

/** Deletes stale conntrack entries among these flows. Rejects where the kernel cannot be asked. */
export async function deleteStaleFlows(
  selections: Iterable<FlowSelection>,
  allowed: AllowedAnswers,
  { conntrack, clock, onPass }: ConntrackParts,
): Promise<void> {
  const byFamily = Map.groupBy(selections, ({ destination }) => familyOf(destination));
  for (const family of ipFamilies) {
    const ofFamily = byFamily.get(family);
    if (ofFamily === undefined) continue;
    const beganMs = clock.monotonicMs();
    let deletedCount = 0;
    for (const selection of ofFamily.length > maxSelections ? [undefined] : ofFamily) {
      const stale = staleFlows(await conntrack.listUdpFlows(family, selection), allowed);
      if (stale.length > 0) deletedCount += await conntrack.remove(stale);
    }
    onPass({ family, elapsedMs: clock.monotonicMs() - beganMs, deletedCount });
  }
}
