import type { IpFamily } from "../../base/ip.ts";
import type { PlanOptions } from "../options.ts";

/** iptables mode's planning input for one family, in addition to the input common to all modes. */
export interface IptablesFamilyOptions {
  /** Whether node ports are served on every local address, and not only on {@link nodePortAddresses}. */
  readonly servesAllAddresses: boolean;
  /** Addresses as text. Only used if {@link servesAllAddresses} is false. */
  readonly nodePortAddresses: readonly string[];
  /** Whether node ports are also served on loopback addresses. IPv4 only, because the kernel does not route ::1. */
  readonly servesLoopback: boolean;
}

/** Input from the node and the configuration. A new object causes a complete replan. */
export interface IptablesNodeOptions {
  readonly shared: PlanOptions;
  readonly families: ReadonlyMap<IpFamily, IptablesFamilyOptions>;
  /** Whether the kernel supports nfacct counters and kube-ipvs' counters exist. */
  readonly hasCounters: boolean;
  /** Whether to omit the rule that drops packets which conntrack considers invalid. */
  readonly tcpBeLiberal: boolean;
}

/** All of iptables mode's planning input other than Services and endpoints. */
export interface IptablesOptions extends IptablesNodeOptions {
  /** Families with more than {@link largeClusterEndpoints} endpoints. Their endpoint rules have no comments. */
  readonly largeFamilies: ReadonlySet<IpFamily>;
}

/** Number of endpoints above which comments cost more than they are worth. The value is the same as in kube-proxy. */
export const largeClusterEndpoints = 1_000;
