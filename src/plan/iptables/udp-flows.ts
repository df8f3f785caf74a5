import type { IpAddress } from "../../base/ip.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { frontendsOf } from "../frontends.ts";
import type { FamilyOptions } from "../options.ts";

/**
 * Tracked UDP flows of a service port. UDP has no end of connection: a client that keeps its source port keeps its
 * conntrack entry, and with it an endpoint that is gone.
 */
export interface UdpFlows {
  /** What clients send to. */
  readonly destinations: readonly { readonly address: IpAddress; readonly port: number }[];
  /** `address:port` of every endpoint that still serves: flows may stay there. */
  readonly answers: ReadonlySet<string>;
}

/** Undefined for protocols whose connections have an end of their own. */
export function udpFlowsOf(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  family: FamilyOptions,
): UdpFlows | undefined {
  if (port.protocol !== "UDP") return undefined;
  const serving = endpoints.filter(({ isReady, isServing }) => isReady || isServing);
  return {
    destinations: frontendsOf(port, family).map(({ address, port: number }) => ({
      address,
      port: number,
    })),
    answers: new Set(serving.map(({ key }) => key)),
  };
}
