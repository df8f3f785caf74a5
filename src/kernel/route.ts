import type { IpAddress } from "../base/ip.ts";

export interface Route {
  /** Whether the address belongs to this node. */
  readonly isLocal: boolean;
  /** The outgoing link. */
  readonly link: string;
  readonly linkIndex: number;
  readonly isBridge: boolean;
  /** The source address of packets if the sending program chooses none. */
  readonly source?: IpAddress;
}

/** The source address and the incoming link of a packet that the node routes. */
export interface Arrival {
  readonly source: IpAddress;
  readonly linkIndex: number;
}

/** Route lookups, like `ip route get`: rtnetlink. */
export interface Routes {
  /** Undefined if the address is unreachable, either from this node or for packets from another host. */
  find(address: IpAddress, arrival?: Arrival): Promise<Route | undefined>;
}
