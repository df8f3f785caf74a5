/**
 * The requirements of a contract suite: an empty kernel of its own, and a way to add third-party state. Suites are
 * functions `describe…Contract(name, openKernel)`. `fake.test.ts` runs them on the fake kernel, and
 * `test/lab/contract.test.ts` on the real one.
 */
import { it } from "node:test";
import { type IpAddress, parseIpAddress } from "../../src/base/ip.ts";
import type { Kernel } from "../../src/kernel/kernel.ts";
import type { Flow } from "../../src/state/flow.ts";

export interface ContractKernel {
  readonly kernel: Kernel;
  /** The same kernel through separate clients, as another program would use it. */
  readonly others: Kernel;
  /** Tracks a UDP flow as a packet would. */
  addFlow(flow: Flow): void;
  /**
   * Appends a third-party rule in `iptables-save` format to a chain. Returns the text that the client reports for it.
   */
  addForeignRule(table: "nat" | "filter", chain: string, text: string): string;
  /** Appends an IPv4 rule that only nft can print to a built-in chain. */
  addNativeRule(table: "nat" | "filter", chain: string): void;
  /** Removes only the chain's native rules. */
  removeNativeRules(table: "nat" | "filter", chain: string): void;
  /** Adds routes of all kinds through these gateways, one for each family. */
  addGateways(ipv4: string, ipv6: string): void;
  /** Whether the link is administratively up, as another program sees it. */
  isLinkUp(): boolean;
  close(): void;
}

/** Creates an empty kernel. For the real kernel, this is a new network namespace. */
export type OpenContractKernel = () => Promise<ContractKernel>;

/** A contract case with its own kernel. `skip` is the reason why this kernel does not support the case. */
export function contractCase(
  open: OpenContractKernel,
  name: string,
  body: (kernel: Kernel, contract: ContractKernel) => Promise<void>,
  skip: string | false = false,
): void {
  it(name, { skip }, async () => {
    const contract = await open();
    try {
      await body(contract.kernel, contract);
    } finally {
      contract.close();
    }
  });
}

export function ip(text: string): IpAddress {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`No address: ${text}`);
  return address;
}
