/** The matrix as values: sections of rows, each row one path that is tried in every column of its section. */
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

/** `TCP IPv4`, … */
export type ColumnName = `${Column["protocol"]} ${IpFamily}`;

export function columnName({ protocol, family }: Column): ColumnName {
  return `${protocol} ${family}`;
}

/** What a client connects to. */
export type Target =
  | { readonly kind: "service"; readonly service: ServiceName; readonly frontend: Frontend }
  /** An address of the Service, a port that it does not have there. */
  | {
      readonly kind: "other-port";
      readonly service: ServiceName;
      readonly frontend: Frontend;
      readonly port: number;
    }
  | { readonly kind: "loopback"; readonly port: number };

/** Bytes in one direction. A datagram has to fit into 1500 bytes, but not into a narrow link. */
export type Size = Readonly<Partial<Record<Protocol, number>>>;

/**
 * One row: who connects to what, and what must come of it. The outcome is text: `local←client` is an answer
 * of backend `local`, which saw the client's address; several are joined by `, `, sorted; `refused` and
 * `silence` stand for themselves, an error of the system call by its code.
 */
export interface Path {
  /** The first cells of the row, under the section's headings. */
  readonly labels: readonly string[];
  /** A place of places.ts. */
  readonly from: string;
  /** The client's own address, where the kernel's choice is not meant. */
  readonly source?: Addresses;
  readonly target: Target;
  readonly expected: string;
  /** Where columns differ from the others. */
  readonly except?: Readonly<Partial<Record<ColumnName, string>>>;
  readonly payload?: Size;
  /** A first flow of datagrams, whose outcome does not count, teaches the kernel the size. */
  readonly isRehearsed?: boolean;
  readonly answer?: Size;
}

export interface Section {
  readonly title: string;
  /** What a reader must know, and why it is so. Paragraphs. */
  readonly text: readonly string[];
  readonly headings: readonly string[];
  readonly columns: readonly Column[];
  readonly paths: readonly Path[];
  /** Shell lines run on the node before, and after, its paths are tried. */
  readonly before?: string;
  readonly after?: string;
  /** Fields of the configuration file that differ from the others'. */
  readonly configuration?: Readonly<Record<string, unknown>>;
}

export function expectedIn(path: Path, column: Column): string {
  return path.except?.[columnName(column)] ?? path.expected;
}

/** What is lost for its size is lost by the link: the rules let it pass. */
export function isExplained(path: Path, column: Column): boolean {
  return path.payload === undefined || expectedIn(path, column) !== "silence";
}

export interface Row {
  readonly path: Path;
  readonly outcomes: ReadonlyMap<ColumnName, string>;
  /** What `explain` said before. */
  readonly explained?: ReadonlyMap<ColumnName, string>;
}

export interface SectionResult {
  readonly section: Section;
  readonly rows: readonly Row[];
}
