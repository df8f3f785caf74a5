/**
 * Weights that a third party set on our real servers and that kube-ipvs keeps. For example, `ipvsadm -e … -w 0` is a
 * manual drain. A weight is kept until the plan changes, the endpoint is removed, a third party sets a different
 * weight, or this program exits. kube-proxy also keeps such weights: it writes a real server's weight only when it
 * creates the real server and at startup.
 */
import type { HostPort } from "../../base/ip.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { type RealServer, realServerKey, sameRealServer } from "../../state/real-server.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { CachedServers } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";
import type { StatusTable } from "./status-table.ts";

/** `keep` keeps a weight that a third party set, as kube-proxy does; `repair` treats it as drift. */
export type ManualWeightPolicy = "keep" | "repair";

/** One of our real servers whose weight a third party set. */
export interface ManualWeight {
  readonly virtualServerKey: ServerKey;
  readonly realServerKey: HostPort;
  readonly weight: number;
  /** The planned weight when the manual weight was found. If the plan changes, the new planned weight applies. */
  readonly plannedWeight: number;
  readonly planned: RealServer;
}

/** The state that is known before a sync plans its changes. */
export interface WeightsInput {
  readonly differences: Differences;
  readonly desired: Pick<DesiredView, "virtualServer">;
  readonly cached: CachedServers;
  /**
   * Whether one of our writes has an unknown outcome. If so, that write may have caused the differences found now, not
   * a third party.
   */
  readonly mayBeOurs: boolean;
  readonly isOwned: (virtualServerKey: ServerKey) => boolean;
}

/** Records weights that differ from the written ones, and forgets those that no longer apply. */
export function updateManualWeights(
  table: StatusTable,
  policy: ManualWeightPolicy,
  input: WeightsInput,
): void {
  for (const status of table.values()) {
    const { manualWeight } = status;
    if (manualWeight === undefined) continue;
    if (policy === "repair" || isOver(manualWeight, input)) status.manualWeight = undefined;
  }
  if (policy === "keep" && !input.mayBeOurs) noteWeights(table, input);
  table.removeDone();
}

function noteWeights(table: StatusTable, { differences, desired, isOwned }: WeightsInput): void {
  for (const [key, { before, after }] of differences.servers) {
    const wanted = desired.virtualServer(key);
    if (before === undefined || after === undefined || wanted === undefined || !isOwned(key)) {
      continue;
    }
    for (const found of after.realServers) {
      const serverKey = realServerKey(found);
      const [was, planned] = [before, wanted].map((server) => find(server.realServers, serverKey));
      if (was === undefined || planned === undefined || !isSetByHand(was, found, planned)) continue;
      const subject = { type: "real-server", virtualServer: key, realServer: serverKey } as const;
      table.of(subject).manualWeight = {
        ...{ virtualServerKey: key, realServerKey: serverKey, planned },
        ...{ weight: found.weight, plannedWeight: planned.weight },
      };
    }
  }
}

function isOver(kept: ManualWeight, { desired, cached }: WeightsInput): boolean {
  const { virtualServerKey, realServerKey: serverKey } = kept;
  const planned = find(desired.virtualServer(virtualServerKey)?.realServers, serverKey);
  const found = find(cached.get(virtualServerKey)?.realServers, serverKey);
  return planned === undefined || found === undefined || !applies(kept, planned, found);
}

/** Whether the weight of `present` is kept although the planned weight differs. */
export function isWeightKept(
  table: StatusTable,
  virtualServerKey: ServerKey,
  planned: RealServer,
  present: RealServer,
): boolean {
  if (table.isEmpty) return false;
  const realServer = realServerKey(planned);
  const status = table.find({ type: "real-server", virtualServer: virtualServerKey, realServer });
  return status?.manualWeight !== undefined && applies(status.manualWeight, planned, present);
}

function applies(kept: ManualWeight, planned: RealServer, present: RealServer): boolean {
  return (
    planned.forwardingMethod === present.forwardingMethod &&
    kept.weight === present.weight &&
    sameRealServer(kept.planned, planned)
  );
}

export function manualWeights(table: StatusTable): readonly ManualWeight[] {
  return [...table.values()].flatMap(({ manualWeight }) => manualWeight ?? []);
}

function find(servers: readonly RealServer[] | undefined, key: HostPort): RealServer | undefined {
  return servers?.find((server) => realServerKey(server) === key);
}

/** Whether a third party changed the weight alone. A change of the forwarding method is not a manual drain. */
function isSetByHand(was: RealServer, found: RealServer, planned: RealServer): boolean {
  if (found.forwardingMethod !== planned.forwardingMethod) return false;
  return found.weight !== was.weight && found.weight !== planned.weight;
}
