import type { IpFamily } from "../../base/ip.ts";
import type { PlanOptions } from "../options.ts";

/** What planning the mode iptables must know of one family, beside what every mode must. */
export interface IptablesFamilyOptions {
  /** Node ports are served on every local address; otherwise on {@link nodePortAddresses} alone. */
  readonly servesAllAddresses: boolean;
  /** Text form. Counts only where not all addresses serve. */
  readonly nodePortAddresses: readonly string[];
  /** Node ports are served on loopback addresses, too: IPv4 only, the kernel routes no others. */
  readonly servesLoopback: boolean;
}

/** What the node and the configuration say. A new one plans everything again. */
export interface IptablesNodeOptions {
  readonly shared: PlanOptions;
  readonly families: ReadonlyMap<IpFamily, IptablesFamilyOptions>;
  /** The kernel has nfacct counters, and ours are made. */
  readonly hasCounters: boolean;
  /** Packets that conntrack takes for invalid are let through. */
  readonly isTcpLiberal: boolean;
}

/** Everything planning the mode iptables needs besides Services and endpoints. */
export interface IptablesOptions extends IptablesNodeOptions {
  /** Families with more endpoints than {@link largeClusterEndpoints}: their rules of endpoints carry no comments. */
  readonly largeFamilies: ReadonlySet<IpFamily>;
}

/** Above this many endpoints comments cost more than they are worth, as upstream has it. */
export const largeClusterEndpoints = 1_000;
