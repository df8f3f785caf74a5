/** Implements `kube-ipvs plan` in userspace mode. */
import { apiVersion } from "../../answer/answers.ts";
import type { Plan } from "../../answer/plan.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import { servicePortName } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import type { ChangePlan } from "../../reconcile/change-plan.ts";
import { planObject } from "../../reconcile/plan-object.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import { firstSync, type ObserveOnceContext } from "../observe-once.ts";
import { beginUserspace } from "./begin-userspace.ts";
import { addressesOf, listenerText } from "./observed-listeners.ts";

/** Returns what startup would do. Rejects if this cannot be determined. */
export async function planUserspaceStart(config: Config, parts: ObserveOnceContext): Promise<Plan> {
  const { running, report } = await firstSync(config, parts, (context) =>
    beginUserspace(context.config, context),
  );
  return planOf(running.toOpen(), report.plan, sctpPortsOf(running.view.objects));
}

/** The names of all SCTP service ports, for example `default/web:sctp`. Node.js has no SCTP sockets. */
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

/** The answer. Pure. */
export function planOf(
  toOpen: readonly SoughtListener[],
  rules: ChangePlan,
  sctpPorts: readonly string[],
): Plan {
  const listeners = toOpen.map(listenerObject);
  return { apiVersion, kind: "Plan", ...planObject(rules), listeners, sctpPorts };
}

function listenerObject(sought: SoughtListener): NonNullable<Plan["listeners"]>[number] {
  const { wanted, address } = sought;
  const { service, portName, protocol, nodePort } = wanted;
  return {
    text: listenerText(sought),
    ...{ protocol, host: address.host },
    // If rules redirect to the listener, its port is 0, which means any free port.
    ...(address.port === 0 ? {} : { port: address.port }),
    ...{ service, portName },
    ...(address.isRedirected === true ? { addresses: addressesOf(wanted), nodePort } : {}),
  };
}
