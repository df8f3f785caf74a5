/** The matrix as data: sections with rows. A row is one path, which is tried in every column of its section. */
import type { IpFamily } from "../../src/base/ip.ts";
import type { Protocol } from "../../src/base/protocol.ts";
import type { Addresses } from "./places.ts";
import type { Frontend, ServiceName } from "./services.ts";

export interface Column {
  readonly protocol: Protocol | "ping";
  readonly family: IpFamily;
}

export const transports: readonly Column[] = [
  { protocol: "TCP", family: "IPv4" },
  { protocol: "UDP", family: "IPv4" },
  { protocol: "TCP", family: "IPv6" },
  { protocol: "UDP", family: "IPv6" },
];

export const associations: readonly Column[] = [
  { protocol: "SCTP", family: "IPv4" },
  { protocol: "SCTP", family: "IPv6" },
];

export const echoes: readonly Column[] = [
  { protocol: "ping", family: "IPv4" },
  { protocol: "ping", family: "IPv6" },
];

/** For example `TCP IPv4`. */
export type ColumnName = `${Column["protocol"]} ${IpFamily}`;

export function columnName({ protocol, family }: Column): ColumnName {
  return `${protocol} ${family}`;
}

/** The destination of a connection. */
export type Target =
  | { readonly kind: "service"; readonly service: ServiceName; readonly frontend: Frontend }
  /** A Service address with a port that the Service does not have at this address. */
  | {
      readonly kind: "other-port";
      readonly service: ServiceName;
      readonly frontend: Frontend;
      readonly port: number;
    }
  | { readonly kind: "loopback"; readonly port: number };

/** Bytes in one direction. A datagram must fit in 1500 bytes, but not in a narrow link. */
export type Size = Readonly<Partial<Record<Protocol, number>>>;

/**
 * One row: the source, the destination and the expected outcome. The outcome is text: `local←client` is an answer of
 * backend `local`, which saw the client's address. Several outcomes are sorted and joined by `, `. Other outcomes are
 * `refused`, `silence`, and the error code of a failed system call.
 */
export interface Path {
  /** The first cells of the row, under the section's headings. */
  readonly labels: readonly string[];
  /** A place of places.ts. */
  readonly from: string;
  /** The client's source address, unless the kernel chooses it. */
  readonly source?: Addresses;
  readonly target: Target;
  readonly expected: string;
  /** Outcomes for columns in which they differ. */
  readonly except?: Readonly<Partial<Record<ColumnName, string>>>;
  readonly payload?: Size;
  /** Whether the kernel first learns the size from a datagram flow whose outcome is ignored. */
  readonly isRehearsed?: boolean;
  readonly answer?: Size;
}

export interface Section {
  readonly title: string;
  /** Explanations of the outcomes for readers, one paragraph each. */
  readonly text: readonly string[];
  readonly headings: readonly string[];
  readonly columns: readonly Column[];
  readonly paths: readonly Path[];
  /** Shell lines that run on the node before and after the section's paths are tried. */
  readonly before?: string;
  readonly after?: string;
  /** Whether one virtual server receives TCP and UDP, as in port ranges, so both share a round-robin order. */
  readonly sharesServers?: true;
  /** Configuration file fields that differ from those of other sections. */
  readonly configuration?: Readonly<Record<string, unknown>>;
}

export function expectedIn(path: Path, column: Column): string {
  return path.except?.[columnName(column)] ?? path.expected;
}

/** Whether `explain` predicts the outcome. If packets are too large, they are lost on the link, not because of a rule. */
export function isExplained(path: Path, column: Column): boolean {
  return path.payload === undefined || expectedIn(path, column) !== "silence";
}

export interface Row {
  readonly path: Path;
  readonly outcomes: ReadonlyMap<ColumnName, string>;
  /** The earlier prediction of `explain`. */
  readonly explained?: ReadonlyMap<ColumnName, string>;
}

export interface SectionResult {
  readonly section: Section;
  readonly rows: readonly Row[];
}
