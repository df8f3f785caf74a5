/** Implements `kube-ipvs plan` in userspace mode. */
import { type PlannedChanges, plannedChanges } from "../../answer/plan.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import { servicePortName } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import { emptyPlan } from "../../reconcile/change-plan.ts";
import { planObject } from "../../reconcile/render/plan-json.ts";
import { planText } from "../../reconcile/render/plan-text.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import { firstSync } from "../observe-once.ts";
import type { RunContext } from "../run.ts";
import { beginUserspace } from "./begin-userspace.ts";
import { addressesOf, listenerText, type UserspacePlan } from "./plan-userspace.ts";

/** Returns what a start would do. Rejects if this cannot be determined. */
export async function planUserspaceStart(
  config: Config,
  parts: Pick<RunContext, "clock" | "log">,
): Promise<PlannedChanges> {
  const { running } = await firstSync(config, parts, (context) =>
    beginUserspace(context.config, context),
  );
  const plan = {
    ...(running.plan() ?? nothingPlanned),
    sctpPorts: sctpPortsOf(running.view.objects),
  };
  const hasChanges = plan.listeners.length + plan.rules.changes.length > 0;
  return plannedChanges(objectOf(plan), textOf(plan), hasChanges);
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
  const notServed = sctpPorts.map(
    (name) => `Not served: ${name}: userspace mode does not support SCTP`,
  );
  return [...opened, ...changed, ...notServed].join("\n").trimEnd();
}

function listenerLine(sought: SoughtListener): string {
  return `  ${listenerText(sought)}  # missing, service ${sought.wanted.portName}`;
}
