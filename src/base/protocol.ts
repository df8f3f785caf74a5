/** The transport protocols that Services and IPVS share. Pure. */
export type Protocol = "TCP" | "UDP" | "SCTP";

/** IANA protocol numbers, as used in netlink messages. */
export const protocolNumbers: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };

/** Returns the protocol with this number, or `undefined` if IPVS does not balance it. */
export function protocolOfNumber(number: number): Protocol | undefined {
  if (number === 6) return "TCP";
  if (number === 17) return "UDP";
  return number === 132 ? "SCTP" : undefined;
}
