import type { Cidr, IpAddress } from "../base/ip.ts";
import type { ProxyMode } from "./config.ts";

/** What the value of each kind of field is in the program. */
export interface FieldValues {
  text: string;
  boolean: boolean;
  integer: number;
  float: number;
  /** Milliseconds; written as in Go: `1h2m3s`, `500ms`. */
  duration: number;
  ip: IpAddress;
  /** `IP`, `IP:port` or `[IPv6]:port`; undefined for the empty text. */
  listen: { readonly address: IpAddress; readonly port?: number } | undefined;
  /** A list in the file, separated by commas in a flag. */
  texts: readonly string[];
  /** One text separated by commas, in the file too. */
  "comma-list": readonly string[];
  cidrs: readonly Cidr[];
  /** A map of booleans in the file, `Name=true,…` in a flag. */
  gates: ReadonlyMap<string, boolean>;
  /** Milliseconds; a number in the file counts nanoseconds. */
  "duration-or-nanoseconds": number;
  /** Undefined for the empty text. */
  "optional-integer": number | undefined;
  /** `300-2000`, `300+100` or `300`; empty: no range. */
  "port-range": string;
  /** Any value of a setting without effect, as it was given. */
  ignored: unknown;
}

export type FieldKind = keyof FieldValues;

/**
 * One setting: everything that parsing, defaults, validation and help must know of it. To add a setting
 * is to add a row, and to say in `build-config.ts` what it means.
 */
export interface Field {
  /** Where it stands in the configuration file: `ipvs.syncPeriod`; `--master` for a flag without a field in the file. */
  readonly path: string;
  readonly kind: FieldKind;
  /** In the form of a flag's value. Counts where the setting is absent, null or (see below) zero. */
  readonly default: string;
  /** The default with `kubeIpvs.profile: kube-proxy`, if it differs. */
  readonly kubeProxyDefault?: string;
  /** Differing default where there is no configuration file. */
  readonly defaultWithoutFile?: string;
  /** Zero in the file, or an empty text, is a value of its own; otherwise it means the default. */
  readonly keepsZero?: true;
  /** The number or duration must be greater than zero. */
  readonly isPositive?: true;
  /** Smallest and largest number (milliseconds for durations). */
  readonly min?: number;
  readonly max?: number;
  /** The only words allowed. */
  readonly words?: readonly string[];
  /** Without the dashes. */
  readonly flag?: string;
  /** Another name of the flag. */
  readonly flagAlias?: string;
  /** One letter, as in `-v`. */
  readonly shortFlag?: string;
  /** The flag counts beside a configuration file too, and wins. */
  readonly winsOverFile?: true;
  /** The flag counts beside a configuration file that leaves the setting empty. */
  readonly fillsFile?: true;
  /** With configReload a new value of the file counts at once; otherwise after a restart. */
  readonly isLive?: true;
  /** In the other mode it changes nothing. */
  readonly onlyInMode?: ProxyMode;
  /** A line for --help. */
  readonly help: string;
  /** The reason why the setting is accepted, but has no effect. */
  readonly noEffect?: string;
  /** The flag that replaces this deprecated one. */
  readonly insteadOf?: string;
}

/** Settings that belong together, under one heading of --help. */
export interface FieldGroup {
  readonly title: string;
  readonly fields: readonly Field[];
}
