import { FakeKernel } from "../support/fake-kernel/fake-kernel.ts";
import { describeKernelContract } from "./all-contracts.ts";
import { type ContractKernel, ip } from "./contract-kernel.ts";
import { describeUnreadableRulesContract } from "./unreadable-rules-contract.ts";

async function openFakeKernel(): Promise<ContractKernel> {
  const kernel = new FakeKernel();
  kernel.link.gateways = [];
  return {
    kernel,
    others: kernel,
    addFlow(flow) {
      kernel.conntrack.flows = [...kernel.conntrack.flows, flow];
    },
    addForeignRule(table, chain, text) {
      kernel.iptables.table("IPv4", table).append(chain, text);
      return text;
    },
    addNativeRule: (table, chain) => void kernel.iptables.unreadable.add(`IPv4 ${table} ${chain}`),
    removeNativeRules: (table, chain) =>
      void kernel.iptables.unreadable.delete(`IPv4 ${table} ${chain}`),
    addGateways(...gateways) {
      kernel.link.gateways = gateways.map(ip);
    },
    isLinkUp: () => false,
    close() {},
  };
}

describeKernelContract("fake kernel", openFakeKernel);
describeUnreadableRulesContract("fake kernel", openFakeKernel);
