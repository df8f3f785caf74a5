/** The transport protocols that Services and IPVS share. Pure. */
export type Protocol = "TCP" | "UDP" | "SCTP";

/** IANA protocol numbers, as netlink carries them. */
export const protocolNumbers: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };

/** The protocol of a number; `undefined` for one that IPVS does not balance. */
export function protocolOfNumber(number: number): Protocol | undefined {
  if (number === 6) return "TCP";
  if (number === 17) return "UDP";
  return number === 132 ? "SCTP" : undefined;
}
