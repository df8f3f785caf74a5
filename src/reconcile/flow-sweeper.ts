import { type IpFamily, ipFamilies } from "../base/ip.ts";
import type { FlowSelection } from "../state/flow.ts";
import { type RealServerId, realServerKey } from "../state/real-server.ts";
import {
  type VirtualServerId,
  virtualServerFamily,
  virtualServerKey,
} from "../state/virtual-server.ts";
import type { VirtualServerDiff } from "./diff.ts";
import type { KnownState } from "./known-state.ts";
import { type AllowedAnswers, staleFlows } from "./stale-flows.ts";
import type { SyncContext, SyncTools } from "./sync-context.ts";

/** More selections than this, and the flows of the family are listed once, all of them. */
const maxSelections = 64;

/** A virtual server whose flows are to be looked through; with `lost` those of this real server. */
interface Suspect {
  readonly virtualServer: VirtualServerId;
  readonly lost?: RealServerId;
}

/**
 * Deletes stale UDP flows where something happened that leaves them: a real server was removed, a virtual
 * server got its first one or went away; at the first sync those of all. The connection table may hold
 * a million flows: the kernel is asked for those in question only. What could not be done is kept for the
 * next time.
 */
export class FlowSweeper {
  readonly #suspects = new Map<string, Suspect>();
  #isEverythingSuspect = false;

  /** A real server was removed. Protocols other than UDP are not noted. */
  noteLost(virtualServer: VirtualServerId, lost: RealServerId): void {
    this.#note(
      { virtualServer, lost },
      `${virtualServerKey(virtualServer)} ${realServerKey(lost)}`,
    );
  }

  /** Something is left to be looked through. */
  get isPending(): boolean {
    return this.#isEverythingSuspect || this.#suspects.size > 0;
  }

  /** The step of a sync. */
  async sweepAfterSync(context: SyncContext): Promise<void> {
    this.#isEverythingSuspect ||= context.isFirst;
    for (const diff of context.work.servers.filter(leavesFlows)) {
      const { virtualServer } = diff;
      this.#note({ virtualServer }, virtualServerKey(virtualServer));
    }
    await this.sweep(context);
  }

  /** Rejects where the kernel could not be asked; then everything is still to be done. */
  async sweep(tools: SyncTools): Promise<void> {
    if (!this.isPending) return;
    const suspects = [...this.#suspects.values()];
    const allowed = allowedAnswers(tools.known, suspects, this.#isEverythingSuspect);
    for (const family of familiesOf(allowed)) {
      const ofFamily = suspects.filter(
        ({ virtualServer }) => virtualServerFamily(virtualServer) === family,
      );
      if (this.#isEverythingSuspect || ofFamily.length > maxSelections) {
        await sweepFamily(tools, allowed, family, [undefined]);
      } else if (ofFamily.length > 0) {
        await sweepFamily(tools, allowed, family, ofFamily.map(selectionOf));
      }
    }
    this.#suspects.clear();
    this.#isEverythingSuspect = false;
  }

  #note(suspect: Suspect, key: string): void {
    if (suspect.virtualServer.protocol === "UDP") this.#suspects.set(key, suspect);
  }
}

function familiesOf(allowed: AllowedAnswers): readonly IpFamily[] {
  const keys = [...allowed.keys()];
  return ipFamilies.filter((family) =>
    keys.some((key) => (key.includes("[") ? "IPv6" : "IPv4") === family),
  );
}

function leavesFlows({ isUnwanted, isFirstRealServer }: VirtualServerDiff): boolean {
  return isUnwanted || isFirstRealServer;
}

function selectionOf({ virtualServer, lost }: Suspect): FlowSelection {
  const { address: destination, port: destinationPort } = virtualServer;
  return { destination, destinationPort, ...(lost === undefined ? {} : { answeredBy: lost }) };
}

async function sweepFamily(
  { kernel, clock, report }: SyncTools,
  allowed: AllowedAnswers,
  family: IpFamily,
  selections: readonly (FlowSelection | undefined)[],
): Promise<void> {
  const beganMs = clock.monotonicMs();
  let removedCount = 0;
  for (const selection of selections) {
    const flows = await kernel.conntrack.listUdpFlows(family, selection);
    const stale = staleFlows(flows, allowed);
    if (stale.length > 0) removedCount += await kernel.conntrack.remove(stale);
  }
  report.sweep({ family, elapsedMs: clock.monotonicMs() - beganMs, removedCount });
}

/** Real servers that drain still answer. */
function allowedAnswers(
  known: KnownState,
  suspects: readonly Suspect[],
  isEverything: boolean,
): AllowedAnswers {
  const keys = new Set(suspects.map(({ virtualServer }) => virtualServerKey(virtualServer)));
  if (isEverything) for (const key of known.virtualServers.keys()) keys.add(key);
  const udp = [...keys].filter((key) => key.startsWith("UDP "));
  return new Map(
    udp.map((key) => {
      const realServers = known.virtualServers.get(key)?.realServers ?? [];
      return [key, new Set(realServers.map(realServerKey))];
    }),
  );
}
