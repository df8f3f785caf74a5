import { describeConntrackContract } from "./conntrack-contract.ts";
import type { OpenContractKernel } from "./contract-kernel.ts";
import { describeIpSetsContract } from "./ip-sets-contract.ts";
import { describeIptablesContract } from "./iptables-contract.ts";
import { describeIpvsContract } from "./ipvs-contract.ts";
import { describeLinkContract } from "./link-contract.ts";
import { describeModulesContract, describeSysctlContract } from "./settings-contract.ts";

/** All kernel contracts. */
export function describeKernelContract(name: string, open: OpenContractKernel): void {
  describeIpSetsContract(name, open);
  describeIptablesContract(name, open);
  describeOtherContracts(name, open);
}

/** All kernel contracts except those for sets and rules. */
export function describeOtherContracts(name: string, open: OpenContractKernel): void {
  describeIpvsContract(name, open);
  describeLinkContract(name, open);
  describeConntrackContract(name, open);
  describeSysctlContract(name, open);
  describeModulesContract(name, open);
}
