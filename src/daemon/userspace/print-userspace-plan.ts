/** Implements `kube-ipvs plan` in userspace mode. */
import { type PlannedChanges, plannedChanges } from "../../answer/plan.ts";
import { silentEvents } from "../../api/event.ts";
import { ipFamilies } from "../../base/ip.ts";
import { version } from "../../base/version.ts";
import type { Config } from "../../config/config.ts";
import { prometheusMetrics } from "../../metrics/prometheus-metrics.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import { servicePortName } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import { emptyPlan } from "../../reconcile/change-plan.ts";
import { planObject } from "../../reconcile/render/plan-json.ts";
import { planText } from "../../reconcile/render/plan-text.ts";
import type { SyncReport } from "../../reconcile/report.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import { answerDeadline } from "../process/answer-deadline.ts";
import { openClaimMemory } from "../process/claim-record.ts";
import { openSource } from "../process/open-source.ts";
import { holderRecordIn } from "../process/ownership-record.ts";
import { readState } from "../process/state-file.ts";
import { ProxyHealth } from "../report/proxy-health.ts";
import type { RunContext } from "../run.ts";
import { beginUserspace } from "./begin-userspace.ts";
import { addressesOf, listenerText, type UserspacePlan } from "./plan-userspace.ts";

/** Returns what a start would do. Rejects if this cannot be determined. */
export async function planUserspaceStart(
  config: Config,
  { clock, log }: Pick<RunContext, "clock" | "log">,
): Promise<PlannedChanges> {
  const planned = Promise.withResolvers<SyncReport>();
  const deadline = answerDeadline(config, clock);
  const { observer } = deadline;
  const { source, close } = await openSource(config, { clock, log, observer });
  try {
    const starting = beginUserspace(
      { ...config, isObserveOnly: true },
      {
        ...{ clock, log, source, events: silentEvents },
        metrics: prometheusMetrics({ version }),
        health: new ProxyHealth(clock, config.syncPeriodMs),
        holderRecord: holderRecordIn(readState(config.statePath)),
        claimMemory: openClaimMemory(config, { clock, log }).claimMemory,
        onReport: planned.resolve,
        fail: planned.reject,
      },
    );
    const found = Promise.all([starting, planned.promise]);
    const [{ plan: planOf, view, stop }, report] = await Promise.race([found, deadline.expired]);
    await stop();
    const [failure] = report.failures;
    if (failure !== undefined) throw failure.error;
    const plan = { ...(planOf() ?? nothingPlanned), sctpPorts: sctpPortsOf(view.objects) };
    const hasChanges = plan.listeners.length + plan.rules.changes.length > 0;
    return plannedChanges(objectOf(plan), textOf(plan), hasChanges);
  } finally {
    deadline.stop();
    await close();
  }
}

const nothingPlanned: UserspacePlan = { listeners: [], found: [], rules: emptyPlan };

/** The plan with all that is printed. */
export interface PrintedPlan extends UserspacePlan {
  /**
   * Names of SCTP service ports, for example `default/web:sctp`. They are not served, because Node.js has no SCTP
   * sockets.
   */
  readonly sctpPorts: readonly string[];
}

/** The names of all SCTP service ports, each only once. */
export function sctpPortsOf(
  tracker: Pick<ChangeTracker, "serviceNames" | "service">,
): readonly string[] {
  const names = [...tracker.serviceNames()].flatMap((name) => {
    const service = tracker.service(name);
    if (service === undefined) return [];
    return ipFamilies
      .flatMap((family) => servicePortsOf(service, family))
      .filter(({ protocol }) => protocol === "SCTP")
      .map(servicePortName);
  });
  return [...new Set(names)];
}

/** The plan as the JSON object that is printed. Pure. */
export function objectOf({ listeners, rules, sctpPorts }: PrintedPlan): object {
  return { ...planObject(rules), listeners: listeners.map(listenerObject), sctpPorts };
}

function listenerObject({ wanted, address }: SoughtListener): object {
  const { service, portName, protocol, nodePort } = wanted;
  return {
    ...{ protocol, host: address.host },
    // If rules redirect to the listener, its port is 0, which means any free port.
    ...(address.port === 0 ? {} : { port: address.port }),
    ...{ service, portName },
    ...(address.isRedirected === true ? { addresses: addressesOf(wanted), nodePort } : {}),
  };
}

/** The plan as the text that is printed. Pure. */
export function textOf({ listeners, rules, sctpPorts }: PrintedPlan): string {
  const opened =
    listeners.length === 0
      ? []
      : [`Listeners: ${listeners.length}`, ...listeners.map(listenerLine), ""];
  const isEmpty = listeners.length + rules.changes.length === 0;
  const changed = rules.changes.length > 0 || isEmpty ? [planText(rules).trimEnd(), ""] : [];
  const notServed = sctpPorts.map((name) => `Not served: ${name}: there are no sockets for SCTP`);
  return [...opened, ...changed, ...notServed].join("\n").trimEnd();
}

function listenerLine(sought: SoughtListener): string {
  return `  ${listenerText(sought)}  # missing, service ${sought.wanted.portName}`;
}
