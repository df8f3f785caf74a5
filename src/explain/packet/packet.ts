import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import type { NftHook } from "../../state/nft-rule.ts";

/** A connection's first packet, as received or as sent by a local process. */
export interface Packet {
  readonly family: IpFamily;
  /** ICMP means an echo request, as from `ping`. */
  readonly protocol: Protocol | "ICMP";
  readonly source: IpAddress;
  readonly destination: IpAddress;
  /** 0 for ICMP. */
  readonly port: number;
  /** Whether a local process sends the packet. */
  readonly isFromNode: boolean;
  /** The input interface. Empty if it is unknown, or if this node sends the packet. */
  readonly inLink: string;
  /** Whether the packet arrives through a bridge port and netfilter sees it there (br_netfilter). */
  readonly isBridged: boolean;
}

/** The lowest source port of clients. By default, Linux, macOS and Windows choose this port or a higher one. */
export const lowestClientPort = 32_768;

/** A packet on its path. DNAT and IPVS change the destination; rules change the mark. */
export interface PacketOnPath {
  readonly packet: Packet;
  readonly destination: IpAddress;
  readonly port: number;
  readonly mark: number;
  /**
   * `answer`: an endpoint's reply. `later`: the client's next packet. `refusal`: this node's ICMP error "port
   * unreachable". Undefined for the connection's first packet.
   */
  readonly stage?: "answer" | "later" | "refusal";
  /** The source port of the reply. Undefined for packets from the client. */
  readonly endpointPort?: number;
  /** The original destination (the virtual server), after IPVS has changed it. */
  readonly virtual?: { readonly address: IpAddress; readonly port: number };
}

/**
 * Whether a packet already belongs to a connection in the chains before connection tracking, such as those of the raw
 * table. This is true for packets that IPVS sends and for packets from the loopback link.
 */
export function isTrackedEarly(hook: NftHook, { packet, virtual }: PacketOnPath): boolean {
  switch (hook) {
    case "INGRESS":
      return false;
    case "PREROUTING":
      return packet.isFromNode;
    case "OUTPUT":
      return !packet.isFromNode || virtual !== undefined;
    default:
      return true;
  }
}
