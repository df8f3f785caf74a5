/** The way of a packet, in every proxy mode. */
import type { IpAddress } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import type { Step } from "./traverse.ts";

/** Where a packet ends. */
export type PathEnd =
  /** One of these is chosen: by IPVS, or by rules. `rest`: where those end that rules give to none of them. */
  | {
      readonly kind: "balanced";
      readonly isByIpvs: boolean;
      readonly endpoints: readonly EndpointPath[];
      readonly rest?: PathEnd;
    }
  /** A rule refuses or drops it. */
  | { readonly kind: "refused" | "dropped"; readonly by: Step | undefined }
  /** The virtual server has no real server that takes connections: IPVS answers "port unreachable". */
  | { readonly kind: "no-endpoint" }
  /** kube-ipvs takes it on a socket, and connects to one of these. */
  | { readonly kind: "taken"; readonly endpoints: readonly EndpointPath[] }
  /** Nobody listens where kube-ipvs should. */
  | { readonly kind: "unheard"; readonly port: number }
  /** It is no packet of a Service: a process of this node gets it, if there is one. */
  | { readonly kind: "node" }
  /** Not an address of this node: it goes on, or nowhere. */
  | { readonly kind: "forwarded"; readonly link: string | undefined };

/** What becomes of the packets that go to one endpoint. */
export interface EndpointPath {
  readonly realServer: RealServerId;
  /** Rules that chose it. Undefined if no rule does. */
  readonly choice?: readonly Step[];
  readonly steps: readonly Step[];
  readonly fate: "delivered" | "dropped" | "refused";
  readonly isMasqueraded: boolean;
  /** What the endpoint sees; undefined: the node's address on the way there, and that is not known. */
  readonly source?: IpAddress;
  /** Why packets or their answers get lost; absent: they do not. */
  readonly obstacle?: string;
}

export interface PacketPath {
  /** Rules that matched before an endpoint was chosen, in the packet's order. */
  readonly steps: readonly Step[];
  readonly end: PathEnd;
}
