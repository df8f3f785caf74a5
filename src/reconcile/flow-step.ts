import { type IpFamily, ipFamilies } from "../base/ip.ts";
import type { RealServer } from "../state/real-server.ts";
import { realServerKey } from "../state/real-server.ts";
import type { VirtualServerDiff } from "./diff.ts";
import type { KnownVirtualServer } from "./known-state.ts";
import { type AllowedAnswers, staleFlows } from "./stale-flows.ts";
import type { SyncContext } from "./sync-context.ts";

/**
 * Deletes stale UDP flows of the virtual servers that lost somebody, got their first real server, or went
 * away; at the first sync those of all. The table is read only then: it may hold a million flows.
 */
export async function removeStaleFlows(context: SyncContext): Promise<void> {
  const { kernel, clock, report } = context;
  const allowed = allowedAnswers(context);
  for (const family of familiesOf(allowed)) {
    const beganMs = clock.monotonicMs();
    const flows = await kernel.conntrack.listUdpFlows(family);
    const stale = staleFlows(flows, allowed);
    const removedCount = stale.length === 0 ? 0 : await kernel.conntrack.remove(stale);
    report.sweep({ family, elapsedMs: clock.monotonicMs() - beganMs, removedCount });
  }
}

function allowedAnswers({ known, work, isFirst }: SyncContext): AllowedAnswers {
  const keys = new Set(work.servers.filter(leavesFlows).map(({ key }) => key));
  if (isFirst) for (const key of known.virtualServers.keys()) keys.add(key);
  const udp = [...keys].filter((key) => key.startsWith("UDP "));
  return new Map(udp.map((key) => [key, answersOf(known.virtualServers.get(key))]));
}

/** Real servers that drain still answer. */
function answersOf(server: KnownVirtualServer | undefined): ReadonlySet<string> {
  return new Set((server?.realServers ?? []).map((real: RealServer) => realServerKey(real)));
}

function leavesFlows(diff: VirtualServerDiff): boolean {
  return diff.isUnwanted || diff.unwanted.length > 0 || diff.isFirstRealServer;
}

function familiesOf(allowed: AllowedAnswers): readonly IpFamily[] {
  const keys = [...allowed.keys()];
  return ipFamilies.filter((family) =>
    keys.some((key) => (key.includes("[") ? "IPv6" : "IPv4") === family),
  );
}
