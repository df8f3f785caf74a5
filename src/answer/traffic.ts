import type { IpAddress } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ConnectionCounts, Traffic } from "../state/traffic.ts";
import type { ListOf } from "./answers.ts";

/** The answer that `kube-ipvs top` prints. */
export interface TrafficList extends ListOf<"TrafficList", TrafficRow> {
  readonly intervalSeconds: number;
  /** `off`: the kernel adds up no connections, packets and bytes. */
  readonly estimator: "on" | "off";
  /** What a reader must know of the figures. */
  readonly notes: readonly string[];
}

export interface TrafficFigures extends ConnectionCounts {
  /** Since the server was created. */
  readonly total: Traffic;
  /** Undefined without an earlier reading, or without an estimator. */
  readonly perSecond?: Traffic;
}

/** One port of a Service with all its virtual servers, or a virtual server without a known Service. */
export interface TrafficRow extends TrafficFigures {
  readonly namespace?: string;
  readonly name?: string;
  readonly portName?: string;
  readonly protocol: Protocol;
  readonly virtualServers: readonly { readonly address: IpAddress; readonly port: number }[];
}

/** Traffic of one endpoint through all virtual servers of a Service port. */
export interface TrafficEndpoint extends TrafficFigures {
  /** `10.244.1.5:8080`. */
  readonly label: string;
  /** The largest among its virtual servers. */
  readonly weight: number;
}
