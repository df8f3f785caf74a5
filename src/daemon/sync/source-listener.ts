import type { EventRecorder } from "../../api/event.ts";
import type { NodeRecord } from "../../api/objects.ts";
import { legalReason } from "../../api/refusals.ts";
import type { ListQuarantine, SourceListener } from "../../api/source.ts";
import type { Logger } from "../../base/log.ts";
import { type Metrics, showServerVersion } from "../../metrics/prometheus-metrics.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import type { ClusterInput } from "./cluster-input.ts";

export interface SourceListenerContext {
  readonly health: Pick<ProxyHealth, "listed">;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** If undefined, Events are discarded. */
  readonly events?: EventRecorder;
  readonly notReadyTaint?: { noteNode(node: NodeRecord | undefined): void };
}

/** Passes a source's reports to the loop of any mode. */
export function sourceListener(
  input: Pick<ClusterInput, "noteService" | "noteSlice" | "noteNode" | "noteNodes" | "noteSynced">,
  parts: SourceListenerContext,
): SourceListener {
  const { health, metrics, log, events, notReadyTaint } = parts;
  return {
    onService: (previous, current) => input.noteService(previous, current),
    onEndpointSlice: (previous, current) => {
      events?.noteSlice?.(previous, current);
      input.noteSlice(previous, current);
    },
    onNode: (_previous, current) => {
      input.noteNode(current);
      notReadyTaint?.noteNode(current);
    },
    onNodes: (nodes) => input.noteNodes(nodes),
    onServerVersion: (version) => showServerVersion(version, metrics),
    onSynced: (kind) => {
      health.listed(kind);
      input.noteSynced(kind);
    },
    onRefusal: ({ kind, subject, field, reason, message }) => {
      if (reason === legalReason) {
        log.verbose(4, "Skipping EndpointSlice that belongs to no Service", { subject });
        return;
      }
      metrics.invalidFields.inc({ resource: kind, reason });
      log.warn("Ignoring invalid field", { kind, subject, field, reason, message });
    },
    onListQuarantine: (quarantine) => reportListQuarantine(quarantine, parts),
  };
}

const quarantineEvents: Readonly<Record<ListQuarantine["outcome"], string>> = {
  held: "List quarantined because it would remove too many served addresses",
  confirmed: "Quarantined list confirmed by a second one",
  refuted: "Quarantined list discarded because a second one contains the missing objects",
  expired: "Quarantined list applied because no second one arrived within a minute",
};

/** Reports a quarantined list, and its outcome. */
export function reportListQuarantine(
  { kind, outcome, known, missing }: ListQuarantine,
  { metrics, log }: Pick<SourceListenerContext, "metrics" | "log">,
): void {
  metrics.relistGuardOutcomes.inc({ resource: kind, outcome });
  metrics.quarantinedLists.set({ resource: kind }, outcome === "held" ? 1 : 0);
  const keys = { resource: kind, known, missing, reason: `list-${outcome}` };
  if (outcome === "refuted") log.info(quarantineEvents[outcome], keys);
  else log.warn(quarantineEvents[outcome], keys);
}
