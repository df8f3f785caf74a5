/** Builders for plans in iptables mode, in addition to those of records.ts. */
import type { IptablesNodeOptions } from "../../src/plan/iptables/options.ts";
import { planOptions } from "./records.ts";

/** The node of {@link planOptions}: all addresses serve node ports, including loopback. */
export function iptablesOptions(overrides: Partial<IptablesNodeOptions> = {}): IptablesNodeOptions {
  return {
    shared: planOptions(),
    families: new Map([
      ["IPv4", { servesAllAddresses: true, nodePortAddresses: [], servesLoopback: true }],
      ["IPv6", { servesAllAddresses: true, nodePortAddresses: [], servesLoopback: false }],
    ]),
    hasCounters: true,
    tcpBeLiberal: false,
    ...overrides,
  };
}
