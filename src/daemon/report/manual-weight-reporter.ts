import type { LogKeys } from "../../base/log.ts";
import type { DesiredState } from "../../plan/desired-state.ts";
import type { ManualWeight } from "../../reconcile/drift/manual-weights.ts";
import { subjectText } from "../../reconcile/subject.ts";
import type { ReporterParts } from "./loop-reporter.ts";

/** Names each weight that a third party set, once when it is found and once when it is over. */
export class ManualWeightReporter {
  readonly #parts: ReporterParts;
  #reported: ReadonlyMap<string, ManualWeight> = new Map();

  constructor(parts: ReporterParts) {
    this.#parts = parts;
  }

  report(
    { manualWeights }: { readonly manualWeights: readonly ManualWeight[] },
    desired: Pick<DesiredState, "servicesOfServer">,
  ): void {
    const { metrics, log } = this.#parts;
    metrics.manualWeights.set(manualWeights.length);
    if (manualWeights.length === 0 && this.#reported.size === 0) return;
    const present = new Map(manualWeights.map((one) => [keyOf(one), one]));
    for (const [key, one] of present) {
      if (this.#reported.has(key)) continue;
      const [service] = desired.servicesOfServer(one.virtualServerKey);
      log.warn("Weight set by a third party, keeping it", {
        ...(service === undefined ? {} : { service }),
        ...keysOf(one),
        advice: `Set it back with ipvsadm -e -w ${one.plannedWeight}, or write kubeIpvs.manualWeights: repair`,
      });
    }
    for (const [key, one] of this.#reported) {
      if (!present.has(key)) log.info("Weight set by a third party is gone", keysOf(one));
    }
    this.#reported = present;
  }
}

function keyOf(one: ManualWeight): string {
  return `${manualWeightText(one)} ${one.weight}`;
}

/** The real server, as in other lines. */
export function manualWeightText({ virtualServerKey, realServerKey }: ManualWeight): string {
  const ids = { virtualServer: virtualServerKey, realServer: realServerKey };
  return subjectText({ type: "real-server", ...ids });
}

function keysOf(one: ManualWeight): LogKeys {
  const { weight, plannedWeight } = one;
  return { realServer: manualWeightText(one), weight, plannedWeight, reason: "manual-weight" };
}
