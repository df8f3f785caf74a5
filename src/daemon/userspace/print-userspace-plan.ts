/** Implements `kube-ipvs plan` in userspace mode. */
import type { Plan } from "../../answer/plan.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import { servicePortName } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import type { ChangePlan } from "../../reconcile/change-plan.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import { firstSync, type ObserveOnceContext } from "../observe-once.ts";
import { beginUserspace } from "./begin-userspace.ts";
import { addressesOf, listenerText } from "./observed-listeners.ts";
import { openUserspaceKernel, type UserspaceKernel } from "./open-userspace-kernel.ts";

/**
 * Returns what startup would do. `planOf` returns the plan for the rules; the kernel is undefined if netlink sockets are
 * not permitted. Rejects if this cannot be determined.
 */
export async function planUserspaceStart(
  config: Config,
  parts: ObserveOnceContext,
  planOf: (rules: ChangePlan, kernel: Kernel | undefined) => Promise<Plan>,
): Promise<Plan> {
  let usable: UserspaceKernel | undefined;
  const openKernel: typeof openUserspaceKernel = async (...given) => {
    usable = await openUserspaceKernel(...given);
    return { ...usable, close() {} };
  };
  try {
    const { running, report } = await firstSync(config, parts, (context) =>
      beginUserspace(context.config, { ...context, openKernel }),
    );
    const listeners = running.toOpen().map(listenerObject);
    const sctpPorts = sctpPortsOf(running.view.objects);
    return { ...(await planOf(report.plan, usable?.whole)), listeners, sctpPorts };
  } finally {
    usable?.close();
  }
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

export function listenerObject(sought: SoughtListener): NonNullable<Plan["listeners"]>[number] {
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
