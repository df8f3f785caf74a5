/**
 * What a contract suite needs: a kernel for itself, empty, and a way to bring in what only others make.
 * Suites are functions `describe…Contract(name, openKernel)`; `fake.test.ts` runs them against the fake
 * kernel, `test/lab/contract.test.ts` against the real one.
 */
import { it } from "node:test";
import { type IpAddress, parseIpAddress } from "../../src/base/ip.ts";
import type { Kernel } from "../../src/kernel/kernel.ts";
import type { Flow } from "../../src/state/flow.ts";

export interface ContractKernel {
  readonly kernel: Kernel;
  /** The same kernel through clients of their own: another program. */
  readonly others: Kernel;
  /** Tracks a UDP flow, as a packet would. */
  addFlow(flow: Flow): void;
  /**
   * Adds a rule of another program at the end of a chain; text as `iptables-save` prints it. Returns the text with which
   * the client reports it.
   */
  addForeignRule(table: "nat" | "filter", chain: string, text: string): string;
  /** Puts an IPv4 rule that only nft can print behind the others of a built-in chain. */
  addNativeRule(table: "nat" | "filter", chain: string): void;
  /** Takes those of the chain away, and nothing else. */
  removeNativeRules(table: "nat" | "filter", chain: string): void;
  /** Adds routes of all kinds by these gateways, one of each family. */
  addGateways(ipv4: string, ipv6: string): void;
  /** Whether the link is administratively up, as another program sees it. */
  isLinkUp(): boolean;
  close(): void;
}

/** Makes an empty kernel: for the real one, a network namespace. */
export type OpenContractKernel = () => Promise<ContractKernel>;

/** One case of a contract, with a kernel of its own. `skip`: why this kernel cannot have it. */
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
