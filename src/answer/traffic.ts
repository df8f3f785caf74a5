import type { IpAddress } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ConnectionCounts, Traffic } from "../state/traffic.ts";
import type { ListOf } from "./answers.ts";

/** The answer of `kube-ipvs top`. */
export interface TrafficList extends ListOf<"TrafficList", TrafficRow> {
  readonly intervalSeconds: number;
  /** If `off`, the kernel does not count connections, packets and bytes. */
  readonly estimator: "on" | "off";
  /** Why figures or names are missing. */
  readonly notes: readonly string[];
}

export interface TrafficFigures extends ConnectionCounts {
  /** Traffic since the server was created. */
  readonly total: Traffic;
  /** Undefined if there is no earlier reading, or if the estimator is off. */
  readonly perSecond?: Traffic;
}

/** One port of a Service with all its virtual servers, or a virtual server without a known Service. */
export interface TrafficRow extends TrafficFigures {
  readonly namespace?: string;
  readonly name?: string;
  readonly portName?: string;
  /** `FWM` for a port range. */
  readonly protocol: Protocol | "FWM";
  readonly virtualServers: readonly { readonly address: IpAddress; readonly port: number }[];
}

/** Traffic of one endpoint through all virtual servers of a Service port. */
export interface TrafficEndpoint extends TrafficFigures {
  /** Address and port, such as `10.244.1.5:8080`. */
  readonly label: string;
  /** The endpoint's largest weight in any of the virtual servers. */
  readonly weight: number;
}
