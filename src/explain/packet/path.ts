/** The path of a packet, in every proxy mode. */
import type { IpAddress } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import type { Step } from "./traverse.ts";

export type PathEnd =
  /** IPVS or rules choose one of the endpoints. `rest` says what happens to packets for which no rule chooses one. */
  | {
      readonly kind: "balanced";
      readonly isByIpvs: boolean;
      readonly endpoints: readonly EndpointPath[];
      readonly rest?: PathEnd;
      /** The endpoint that the scheduler chooses for this client. Undefined if it is not predicted. */
      readonly scheduled?: RealServerId;
    }
  /** The packet is rejected or dropped. `by` is the responsible rule, or a phrase such as `because …`. */
  | { readonly kind: "refused" | "dropped"; readonly by: Step | string | undefined }
  /** The virtual server has no real server with a non-zero weight, so IPVS answers "port unreachable". */
  | { readonly kind: "no-endpoint" }
  /** kube-ipvs receives the packet on a socket and connects to one of the endpoints. */
  | { readonly kind: "taken"; readonly endpoints: readonly EndpointPath[] }
  /** Rules redirect the packet to a port on which kube-ipvs should listen, but does not. */
  | { readonly kind: "unheard"; readonly port: number }
  /** The packet does not belong to a Service. A local process gets it, if one is listening. */
  | { readonly kind: "node" }
  /**
   * The destination is not an address of this node. The packet is routed through `link`, which is undefined if there is
   * no route.
   */
  | { readonly kind: "forwarded"; readonly link: string | undefined };

/** What happens to packets to one endpoint. */
export interface EndpointPath {
  readonly realServer: RealServerId;
  /** Rules that chose the endpoint. Undefined if no rule chose it. */
  readonly choice?: readonly Step[];
  readonly steps: readonly Step[];
  readonly fate: "delivered" | "dropped" | "refused";
  readonly isMasqueraded: boolean;
  /** The real server is a node, which gets the packet through a tunnel and replies to the client. */
  readonly isTunneled?: true;
  /** Source address that the endpoint sees. Undefined if it is an unknown address of this node. */
  readonly source?: IpAddress;
  /** Why packets or their replies are lost. Undefined if none are lost. */
  readonly obstacle?: string;
}

export interface PacketPath {
  /** Rules that matched before an endpoint was chosen, in traversal order. */
  readonly steps: readonly Step[];
  readonly end: PathEnd;
}
