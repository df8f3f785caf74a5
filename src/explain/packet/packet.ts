import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";

/** The first packet of a connection, as it arrives or as a process of this node sends it. */
export interface Packet {
  readonly family: IpFamily;
  /** ICMP: an echo request, as `ping` sends it. */
  readonly protocol: Protocol | "ICMP";
  readonly source: IpAddress;
  readonly destination: IpAddress;
  /** 0 for ICMP. */
  readonly port: number;
  /** A process of this node sends it. */
  readonly isFromNode: boolean;
  /** The link through which it comes in; empty if it does not, or if that is unknown. */
  readonly inLink: string;
  /** It comes in through a port of a bridge, and netfilter sees it there (br_netfilter). */
  readonly isBridged: boolean;
}

/** A packet on its path: DNAT and IPVS change the destination, rules change the mark. */
export interface PacketOnPath {
  readonly packet: Packet;
  readonly destination: IpAddress;
  readonly port: number;
  readonly mark: number;
  /** An endpoint's answer: the connection is established. */
  readonly isAnswer?: true;
  /** Behind IPVS: the address and port that the client asked for. */
  readonly virtual?: { readonly address: IpAddress; readonly port: number };
}
