import type { Cidr, IpAddress } from "../base/ip.ts";
import type { ProxyMode } from "./config.ts";

/** The type of each field kind's values. */
export interface FieldValues {
  text: string;
  boolean: boolean;
  integer: number;
  float: number;
  /** In milliseconds. Written in Go's format: `1h2m3s`, `500ms`. */
  duration: number;
  ip: IpAddress;
  /** Written as `IP`, `IP:port` or `[IPv6]:port`; undefined for an empty text. */
  listen: { readonly address: IpAddress; readonly port?: number } | undefined;
  /** A list in the file, separated by commas in a flag. */
  texts: readonly string[];
  /** A comma-separated text, both in the file and in a flag. */
  "comma-list": readonly string[];
  cidrs: readonly Cidr[];
  /** A map of booleans in the file, `Name=true,…` in a flag. */
  gates: ReadonlyMap<string, boolean>;
  /** In milliseconds. A number in the file is in nanoseconds. */
  "duration-or-nanoseconds": number;
  /** Undefined for an empty text. */
  "optional-integer": number | undefined;
  /** `300-2000`, `300+100` or `300`; empty for no range. */
  "port-range": string;
  /** The unchecked value of a setting without effect. */
  ignored: unknown;
}

export type FieldKind = keyof FieldValues;

/**
 * Describes one setting for parsing, defaults, validation and help. README.md says how to add one.
 */
export interface Field {
  /** Path in the configuration file: `ipvs.syncPeriod`; `--master` for a flag without a field in the file. */
  readonly path: string;
  readonly kind: FieldKind;
  /**
   * The default, written like a flag's value. Applies if the setting is absent or null. Without `keepsZero`, it also
   * applies if the value in the file is zero or empty.
   */
  readonly default: string;
  /** The default with `kubeIpvs.profile: kube-proxy`, if it differs. */
  readonly kubeProxyDefault?: string;
  /** The default without a configuration file, if it differs. */
  readonly defaultWithoutFile?: string;
  /** Zero or an empty text in the file is a valid value. Without `keepsZero`, either one means the default. */
  readonly keepsZero?: true;
  /** The number or duration must be greater than zero. */
  readonly isPositive?: true;
  /** Smallest and largest number (milliseconds for durations). */
  readonly min?: number;
  readonly max?: number;
  /** The allowed texts of a setting with fixed choices. */
  readonly words?: readonly string[];
  /** The regular expression that a text must match. `mustBe` describes it. */
  readonly pattern?: string;
  readonly mustBe?: string;
  /** Name of the flag without dashes. */
  readonly flag?: string;
  /** Another name of the flag. */
  readonly flagAlias?: string;
  /** The one-letter form, such as `v` for `-v`. */
  readonly shortFlag?: string;
  /** The flag overrides the configuration file. Other flags are ignored if there is a file. */
  readonly winsOverFile?: true;
  /** The flag applies if the configuration file leaves the setting empty. */
  readonly fillsFile?: true;
  /** With configReload, a new value in the file applies immediately. Otherwise it applies after a restart. */
  readonly isLive?: true;
  /** The setting has no effect in other modes. */
  readonly onlyInMode?: ProxyMode;
  /** The description in --help. */
  readonly help: string;
  /** Why the setting has no effect, although it is accepted. */
  readonly noEffect?: string;
  /** The flag that replaces this deprecated flag. */
  readonly insteadOf?: string;
}

/** A row as it is written in `fields/`. `fields.ts` fills in what it omits. */
export type FieldRow = Omit<Field, "default" | "kind"> & Partial<Pick<Field, "default" | "kind">>;

/** The settings under one heading of --help. */
export interface FieldGroup {
  readonly title: string;
  readonly fields: readonly Field[];
}
